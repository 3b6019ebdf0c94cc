// Clients of every kind while masters are killed, frozen, cut off and replaced.
import { EXIT_CODES, showHelp } from '../help.mjs'
import { runProgram } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'

showHelp(`npm run verify -- failover [options]

Real servers fail while clients of every kind contend for locks. Two holders at once, or a client that does not recover in
time, is a failure: time by which its own timers are late is added. test/harness/failover/README.md has the faults.
2 rounds take about 4 minutes on two cores, 20 rounds 40.

  --rounds 20                               of each fault
  --topology managed,sentinel,cluster       only these
  --fault kill,flap                         only these
  --no-acknowledgement                      the control: it passes if two holders are found
  --seed 1                                  the same choices again; default: any
  --markdown                                also writes the tables of docs/deploying.md
  --json                                    the last line is the result as JSON
  --lts                                     on the newest LTS line of Node

${EXIT_CODES}`)

ensureRedis()
runProgram('failover')
