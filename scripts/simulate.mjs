// npm run simulate -- [--lives 5000] [--seed 1] [--workload 'fair lock'] [--topology cluster] [--threads 2] [--json]
// Short simulated lives of clients with every kind of lock, in virtual time: see test/simulation/README.md.
import { runProgram } from './run.mjs'

runProgram('simulation')
