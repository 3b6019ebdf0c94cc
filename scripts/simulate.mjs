// npm run simulate -- [--lives 5000] [--seed 1] [--workload 'fair lock'] [--threads 2] [--json]
// Short simulated lives of clients with every kind of lock, in virtual time: see test/simulation/README.md.
import { join } from 'node:path'
import { root, run } from './run.mjs'

run('tsc', ['-p', 'test/simulation/tsconfig.json']) // not into build/, which a test run may be using
run(process.execPath, [
  '--enable-source-maps',
  join(root, '.cache', 'simulation', 'build', 'test', 'simulation', 'main.js'),
  ...process.argv.slice(2),
])
