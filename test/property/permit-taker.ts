import { Redis } from 'ioredis'
import { connect } from '../../src/index.js'
import { report } from '../support/processes/child.js'
import { AS_ADMIN } from '../support/rights.js'

/** What a killed process still counts as inside: not to the last moment, as the way to Redis takes time, too. */
const MARGIN_MS = 200

/**
 * Says that permits are held for some ms by the clock of Redis, and counts how many are. Written independently of how
 * Holdfast knows it.
 */
const ENTER = `
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('zremrangebyscore', KEYS[1], 0, now)
  for n = 3, #ARGV do redis.call('zadd', KEYS[1], now + tonumber(ARGV[2]), ARGV[n]) end
  local inside = redis.call('zcard', KEYS[1])
  if inside > tonumber(ARGV[1]) then redis.call('incr', KEYS[2]) end
  return inside`

/** A process that takes permits and gives them back until it is killed. Arguments: URL of Redis, permits there are, tasks. */
const [url = '', permits = '', tasks] = process.argv.slice(2)
const client = await connect({ url, lockWatchdogTimeoutMs: 900 })
const redis = new Redis(url, AS_ADMIN)
const semaphore = client.getPermitExpirableSemaphore('permits')
const chance = (below: number): number => Math.floor(Math.random() * below)

async function task(): Promise<never> {
  for (;;) {
    const leaseTimeMs = chance(2) ? undefined : 600
    const permit = await semaphore.acquire({ permits: 1 + chance(Math.min(2, Number(permits))), leaseTimeMs })
    const ids = permit.permitIds
    await redis.eval(ENTER, 2, 'inside', 'violations', permits, Math.max(0, permit.remainingMs() - MARGIN_MS), ...ids)
    await new Promise((resolve) => setTimeout(resolve, chance(20)))
    if (leaseTimeMs !== undefined && chance(20) === 0) continue // forgotten: the lease ends
    await redis.zrem('inside', ...ids)
    await redis.incr('sections')
    await permit.unlock().catch(() => {})
  }
}

for (let n = 0; n < Number(tasks); n++) void task()
report({ at: 'ready' })
