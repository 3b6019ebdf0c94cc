// npm run demo -- [options of holdfast demo]
// The demo itself installs nothing. In a clone, this script installs redis-server first, where it is needed and allowed.
import { ensureDist } from './build/fresh.mjs'
import { ensureRedis, mayInstall } from './setup/redis.mjs'

const args = process.argv.slice(2)
const needsRedis = !process.env.REDIS_URL && !args.some((arg) => /^(--redis(=|$)|--help$|-h$)/.test(arg))
// Without the right to install it, the demo says how to.
if (needsRedis && mayInstall()) ensureRedis(['redis-server'])
ensureDist()

// In this process, so that Ctrl-C and the exit code are the demo's own.
process.argv.splice(2, 0, 'demo')
await import('../dist/cli/main.js')
