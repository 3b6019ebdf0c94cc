// Short simulated lives of clients with every kind of lock, in virtual time.
import { EXIT_CODES, showHelp } from '../help.mjs'
import { runProgram } from '../run.mjs'

showHelp(`npm run verify -- simulate [options]

Short lives of clients with every kind of lock, in virtual time, while nearly everything goes wrong; then all must work
again. They are the same ones on every version of Node. test/harness/simulation/README.md has the faults. A core lives some
hundred lives a minute, which the progress tells.

  --lives 5000             how many
  --minutes 60             no longer than this
  --seed 1                 of the first life; the next one has the next seed
  --workload 'fair lock'   only this; an unknown one lists all
  --topology cluster       only this; an unknown one lists all
  --threads 2              default: one for each core
  --json                   the last line is the result as JSON
  --lts                    on the newest LTS line of Node, in half the time

${EXIT_CODES}`)

runProgram('simulation')
