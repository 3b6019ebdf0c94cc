// npm run chaos -- [--seconds 60] [--seed 1] [--topology single|sentinel|cluster] [--faults a,b] [--control] [--json] [--help]
// Processes contend for every kind of lock and synchronizer while connections, processes and servers fail: see test/chaos-run/README.md.
import { runProgram } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

ensureRedis()
runProgram('chaos-run')
