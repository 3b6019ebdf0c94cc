// npm run verify -- chaos [--seconds 60] [--seed 1] [--topology single|sentinel|cluster] [--faults a,b] [--redisson] [--control] [--json] [--help]
// Processes contend for every kind of lock and synchronizer while connections, processes and servers fail: see test/harness/chaos/README.md.
import { buildJava } from '../build/java.mjs'
import { runProgram } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'

const REDISSON = '4.7.0'

ensureRedis()
if (process.argv.includes('--redisson') && !buildJava(REDISSON)) process.exit(2)
runProgram('chaos')
