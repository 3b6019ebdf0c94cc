// What operators are shown, against what processes know.
import { join } from 'node:path'
import { buildJava } from '../build/java.mjs'
import { buildUi } from '../build/ui.mjs'
import { EXIT_CODES, showHelp } from '../help.mjs'
import { env, root, runProgram } from '../run.mjs'
import { ensureChromium } from '../setup/chromium.mjs'
import { ensureRedis } from '../setup/redis.mjs'

const REDISSON = '4.7.0'

showHelp(`npm run verify -- fleet [options]

Processes hold locks of every kind; what API, CLI and dashboard show is compared with what each of them knows, holders are
interrupted, and deadlocks must be named within 2 s. test/harness/fleet/README.md says what exactly. It takes --seconds and
a few minutes. It needs Chromium.

  --topology single   single, sentinel or cluster
  --breaks 1000       how many holders are interrupted
  --seconds 600       how long locks are taken in one order, while nobody may call it a deadlock
  --scale             instead: what a look costs Redis, with a million keys and ten thousand clients
  --page              instead: the heap of the page while 1,000 locks change each second, for --seconds
  --redisson          a JVM with the real Redisson holds locks too (needs a JDK and Maven)
  --json              the last line is the result as JSON
  --lts               on the newest LTS line of Node

${EXIT_CODES}`)

ensureRedis()
env.CHROMIUM = ensureChromium()
if (process.argv.includes('--redisson') && !buildJava(REDISSON)) process.exit(1)
// Where the compiled dashboard looks for it.
await buildUi(join(root, '.cache', 'fleet', 'build', 'src', 'dashboard', 'page'))
runProgram('fleet')
