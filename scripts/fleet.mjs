// npm run fleet -- [--topology single|sentinel|cluster] [--breaks 1000] [--seconds 600] [--redisson] [--json] [--help]
// Processes hold locks of every kind; what operators are shown is compared with what each of them knows: see test/fleet/README.md.
import { buildJava } from './build-java.mjs'
import { runProgram } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

const REDISSON = '4.7.0'

ensureRedis()
if (process.argv.includes('--redisson') && !buildJava(REDISSON)) process.exit(2)
runProgram('fleet')
