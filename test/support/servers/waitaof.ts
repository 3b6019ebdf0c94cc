import { waitUntil } from '../wait-until.js'
import type { RedisServer } from './redis-server.js'

/** Whether a server has WAITAOF. */
export async function hasWaitAof(server: RedisServer): Promise<boolean> {
  const [info] = (await server.admin.call('COMMAND', 'INFO', 'WAITAOF')) as unknown[]
  return info !== null
}

/** Whether its WAITAOF waits for an fsync with `appendfsync everysec`, as that of Redis 8.0 and later does. */
export async function waitsForFsync(server: RedisServer): Promise<boolean> {
  const info = await server.admin.info('server')
  return !info.includes('valkey_version:') && Number(/redis_version:(\d+)/.exec(info)?.[1]) >= 8
}

/** How often a server was sent WAITAOF. */
export async function fsyncsRequestedOf(server: RedisServer): Promise<number> {
  return Number(/^cmdstat_waitaof:calls=(\d+)/m.exec(await server.admin.info('commandstats'))?.[1] ?? 0)
}

/** The key that keeps a snapshot busy. */
export const BALLAST = 'ballast'

/**
 * From now on the server writes to its AOF, and does not fsync: it need not while it makes a snapshot, which takes a minute
 * here, or until FLUSHALL ends it.
 */
export async function stopFsyncs({ admin }: RedisServer): Promise<void> {
  await admin.set(BALLAST, '')
  await admin.config('SET', 'no-appendfsync-on-rewrite', 'yes', 'rdb-key-save-delay', 60_000_000)
  // FLUSHALL only requests the end of an earlier one.
  await waitUntil(async () => (await admin.info('persistence')).includes('rdb_bgsave_in_progress:0'))
  await admin.bgsave()
}

export async function resumeFsyncs({ admin }: RedisServer): Promise<void> {
  await admin.config('SET', 'no-appendfsync-on-rewrite', 'no', 'rdb-key-save-delay', 0)
}
