// npm run failover -- [--rounds 20] [--topology sentinel,cluster] [--fault kill,blink] [--no-acknowledgement] [--seed 1] [--json] [--markdown]
// Real servers fail while clients of every kind contend for locks: two holders at once, or a client that does not recover, is a failure.
import { join } from 'node:path'
import { root, run } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

ensureRedis()
run('tsc', ['-p', 'test/failover/tsconfig.json']) // not into build/, which a test run may be using
run(process.execPath, [
  '--enable-source-maps',
  join(root, '.cache', 'failover', 'build', 'test', 'failover', 'main.js'),
  ...process.argv.slice(2),
])
