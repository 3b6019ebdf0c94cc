// npm run verify -- failover [--rounds 20] [--topology managed,sentinel,cluster] [--fault kill,flap] [--no-acknowledgement] [--seed 1] [--json] [--markdown]
// Real servers fail while clients of every kind contend for locks: two holders at once, or a client that does not recover, is a failure.
import { runProgram } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'

ensureRedis()
runProgram('failover')
