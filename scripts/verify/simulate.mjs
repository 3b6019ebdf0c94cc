// npm run verify -- simulate [--lives 5000] [--minutes 60] [--seed 1] [--workload 'fair lock'] [--topology cluster] [--threads 2] [--json] [--lts]
// Short simulated lives of clients with every kind of lock, in virtual time: see test/harness/simulation/README.md. They are
// the same ones on every version of Node.
import { runProgram } from '../run.mjs'

runProgram('simulation')
