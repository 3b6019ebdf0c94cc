import { Redis } from 'ioredis'
import { sleep } from '../wait-until.js'
import { report } from './child.js'

/** A process that sends one command a while later. Arguments: the URL of Redis, how many ms later, the command. */
const [url = '', laterMs, command = '', ...args] = process.argv.slice(2)
const redis = new Redis(url, { username: 'admin', password: 'none' })
await redis.ping()
report({ at: 'ready' })
await sleep(Number(laterMs))
report({ at: 'done', reply: await redis.call(command, ...args) })
redis.disconnect()
