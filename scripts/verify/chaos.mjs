// Every kind of lock and synchronizer while connections, processes and servers fail.
import { buildJava } from '../build/java.mjs'
import { EXIT_CODES, showHelp, TOO_SLOW } from '../help.mjs'
import { runProgram } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'

const REDISSON = '4.7.0'

showHelp(`npm run verify -- chaos [options]

Processes contend for every kind of lock and synchronizer while connections, processes and servers fail; then all must
work again, and locks that are broken on purpose must be found. test/harness/chaos/README.md has the faults and verdicts.
It takes --seconds and one to two minutes.

  --seconds 60         how long faults happen
  --seed 1             the same choices again, not the same timing; default: any
  --topology single    single, sentinel or cluster
  --faults cut,kill    only these; default: all but lost-locks. "list" lists them
  --workers 4          processes; every other one may be killed
  --tasks 6            tasks in each
  --redisson           a JVM with the real Redisson takes the same locks (needs a JDK and Maven)
  --control            only the controls: the broken locks
  --timeline FILE      where the timeline goes (HTML); default .cache/chaos/<topology>-<seed>.html
  --json               the last line is the result as JSON
  --lts                on the newest LTS line of Node

${EXIT_CODES}${TOO_SLOW}`)

ensureRedis()
if (process.argv.includes('--redisson') && !buildJava(REDISSON)) process.exit(1)
runProgram('chaos')
