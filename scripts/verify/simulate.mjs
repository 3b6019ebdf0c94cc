// npm run verify -- simulate [--lives 5000] [--minutes 60] [--seed 1] [--workload 'fair lock'] [--topology cluster] [--threads 2] [--json] [--lts]
// Short simulated lives of clients with every kind of lock, in virtual time: see test/simulation/README.md. With --lts on
// the newest LTS line of Node, where they take half as long as on Node 20; they are the same ones.

import { runProgram } from '../run.mjs'
import { ltsNode } from '../setup/lts.mjs'

const args = process.argv.slice(2)
const isOnLts = args.includes('--lts')
runProgram('simulation', {
  node: isOnLts ? ltsNode() : process.execPath,
  args: args.filter((arg) => arg !== '--lts'),
})
