// npm run storm -- [--seconds 60] [--seed 1] [--workers 4] [--control] [--json]
// Processes contend for every kind of lock and synchronizer while connections and processes fail: see test/storm/README.md.
import { join } from 'node:path'
import { root, run } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

ensureRedis()
run('tsc', ['-p', 'test/storm/tsconfig.json']) // not into build/, which a test run may be using
run(process.execPath, [
  '--enable-source-maps',
  join(root, '.cache', 'storm', 'build', 'test', 'storm', 'main.js'),
  ...process.argv.slice(2),
])
