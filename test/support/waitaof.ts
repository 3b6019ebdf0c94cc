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
export async function fsyncsAskedOf(server: RedisServer): Promise<number> {
  return Number(/^cmdstat_waitaof:calls=(\d+)/m.exec(await server.admin.info('commandstats'))?.[1] ?? 0)
}
