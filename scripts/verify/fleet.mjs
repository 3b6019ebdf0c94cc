// npm run verify -- fleet [--topology single|sentinel|cluster] [--breaks 1000] [--seconds 600] [--redisson] [--json] [--help]
// Processes hold locks of every kind; what operators are shown is compared with what each of them knows: see test/harness/fleet/README.md.
import { join } from 'node:path'
import { buildJava } from '../build/java.mjs'
import { buildUi } from '../build/ui.mjs'
import { env, root, runProgram } from '../run.mjs'
import { ensureChromium } from '../setup/chromium.mjs'
import { ensureRedis } from '../setup/redis.mjs'

const REDISSON = '4.7.0'

ensureRedis()
env.CHROMIUM = ensureChromium()
if (process.argv.includes('--redisson') && !buildJava(REDISSON)) process.exit(2)
// Where the compiled dashboard looks for it.
await buildUi(join(root, '.cache', 'fleet', 'build', 'src', 'dashboard', 'page'))
runProgram('fleet')
