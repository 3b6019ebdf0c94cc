// A port from an open client.
import type { BunRedisLike } from '../adapters/bun/port.js'
import type { UpstashLike } from '../adapters/http/port.js'
import type { IoredisLike } from '../adapters/ioredis/port.js'
import type { AnyNodeRedis } from '../adapters/node-redis/port.js'
import type { RedisPort } from '../adapters/port.js'
import type { GlideLike } from '../adapters/valkey-glide/port.js'
import { ConfigError } from '../errors.js'
import { clientInsteadOf } from './misuse.js'

/** A client of the user, or a port made from one. */
export type AnyClient = IoredisLike | AnyNodeRedis | GlideLike | BunRedisLike | UpstashLike | RedisPort

/** @throws {ConfigError} it is not a client of these libraries, or one that cannot work */
export async function portOf(client: AnyClient | undefined): Promise<RedisPort> {
  if (isPort(client)) return client
  const ioredis = await import('../adapters/ioredis/port.js')
  if (ioredis.isIoredis(client)) return ioredis.ioredis(client)
  const nodeRedis = await import('../adapters/node-redis/port.js')
  if (nodeRedis.isNodeRedis(client)) return nodeRedis.nodeRedis(client)
  const glide = await import('../adapters/valkey-glide/port.js')
  if (glide.isValkeyGlide(client)) return glide.valkeyGlide(client)
  const bun = await import('../adapters/bun/port.js')
  if (bun.isBunRedis(client)) return bun.bun(client)
  const http = await import('../adapters/http/port.js')
  if (http.isUpstash(client)) return http.http(client)
  throw new ConfigError('client', undefined, clientInsteadOf(client))
}

function isPort(client: unknown): client is RedisPort {
  return typeof (client as Partial<RedisPort> | null)?.isErrorReply === 'function'
}
