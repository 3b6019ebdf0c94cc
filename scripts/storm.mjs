// npm run storm -- [--seconds 60] [--seed 1] [--workers 4] [--control] [--json]
// Processes contend for every kind of lock and synchronizer while connections and processes fail: see test/storm/README.md.
import { runProgram } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

ensureRedis()
runProgram('storm')
