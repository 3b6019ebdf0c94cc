// Chooses the Redis of the demo: given, private or embedded.
import type { Redis } from 'ioredis'
import { ioredisArguments, placeOf } from '../../config/redis-url.js'
import { EXIT, Failure } from '../exit-codes.js'
import { reasonOf } from '../stderr.js'
import { EmbeddedRedis } from './embedded-redis.js'
import type { DemoOptions } from './options.js'
import { PrivateRedis } from './private-redis.js'

const CONNECT_MS = 5_000

/** The Redis of the demo: the one given by the user, a private one, or one in memory. */
export interface DemoRedis extends AsyncDisposable {
  readonly url: string
  /** For messages: without the password. */
  readonly description: string
  readonly redis: Redis
}

/** @throws {Failure} no Redis is available, or ioredis is not installed */
export async function openDemoRedis(
  { redisUrl: url, isEmbedded }: DemoOptions,
  signal: AbortSignal,
): Promise<DemoRedis> {
  const ioredis = await importIoredis()
  const start = isEmbedded ? EmbeddedRedis.start : PrivateRedis.start
  const server = url === undefined || isEmbedded ? await start() : undefined
  const usedUrl = server?.url ?? url ?? ''
  const place = placeOf(usedUrl)
  const [at, found] = ioredisArguments(usedUrl)
  try {
    const redis = await connected(new ioredis.Redis(at, { ...OPTIONS, ...found }), place, signal)
    return {
      url: usedUrl,
      description: descriptionOf(place, server),
      redis,
      [Symbol.asyncDispose]: async () => {
        redis.disconnect()
        await server?.stop()
      },
    }
  } catch (error) {
    await server?.stop()
    throw error
  }
}

function descriptionOf(place: string, server: PrivateRedis | EmbeddedRedis | undefined): string {
  if (server instanceof EmbeddedRedis) return `in memory, in this process, on ${place}`
  return server ? `a private redis-server on ${place}, stopped when the demo ends` : place
}

const OPTIONS = { lazyConnect: true, connectTimeout: CONNECT_MS, retryStrategy: () => null }

async function connected(redis: Redis, place: string, signal: AbortSignal): Promise<Redis> {
  let cause: unknown
  redis.on('error', (error) => {
    cause ??= error
  })
  const stop = (): void => redis.disconnect()
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    await redis.connect()
    await redis.ping()
    return redis
  } catch (error) {
    redis.disconnect()
    signal.throwIfAborted()
    // ioredis rejects with "Connection is closed"; the cause (refused, WRONGPASS, a certificate) is in its error event.
    throw new Failure(EXIT.unavailable, `Redis at ${place} cannot be used: ${reasonOf(cause ?? error)}`)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function importIoredis() {
  try {
    return await import('ioredis')
  } catch {
    throw new Failure(
      EXIT.unavailable,
      'The demo needs ioredis, which is not installed:\n' +
        '  in a project     npm install holdfast ioredis\n' +
        '  anywhere         npx -p holdfast -p ioredis holdfast demo',
    )
  }
}
