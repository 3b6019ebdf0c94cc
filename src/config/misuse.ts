// Calls of connect that are easily written wrongly.
import { ConfigError } from '../errors.js'

type Unknown = Readonly<Record<string, unknown>>

/** Calls that are easily written, and what to write instead. @throws {ConfigError} `connect` was called in one of these ways */
export function refuseMisusedTarget(target: unknown): void {
  const advice = adviceForTarget(target)
  if (advice !== undefined) throw new ConfigError('connect', undefined, advice)
}

function adviceForTarget(target: unknown): string | undefined {
  if (Array.isArray(target)) {
    return (
      'one target: write connect({ client }) for one Redis client. For a red lock on independent servers call connect once ' +
      'for each, and pass a lock of each to getRedLock()'
    )
  }
  if (target instanceof URL) return 'a string or options: write connect(url.href)'
  if (typeof target !== 'object' || target === null) return undefined
  if (looksLikeClient(target as Unknown)) return 'a URL or options: write connect({ client: redis }) for a Redis client'
  if ('host' in target || 'port' in target || 'socket' in target) {
    return (
      "a URL or options: write connect('redis://host:port'), or connect({ client: new Redis({ host, port }) }) for settings " +
      'of the Redis client'
    )
  }
  return undefined
}

function looksLikeClient(target: Unknown): boolean {
  return ['call', 'sendCommand', 'customCommand', 'evalsha', 'getLock', 'then'].some(
    (name) => typeof target[name] === 'function',
  )
}

/** Says what to pass as the option `client` instead of this. */
export function clientInsteadOf(given: unknown): string {
  const wanted = 'an ioredis, node-redis, valkey-glide, Bun or @upstash/redis client'
  if (Array.isArray(given)) return `${wanted}, and not an array of them: call connect once for each server`
  const { then, getLock, execute, totalClients, send_command } = Object(given) as Unknown
  if (typeof then === 'function') return `${wanted}, and not a promise of one: await it first`
  if (typeof getLock === 'function') return `${wanted}, and not a client of Holdfast: use that one as it is`
  if (typeof execute === 'function' && totalClients !== undefined) {
    return (
      `${wanted}, and not a pool of createClientPool(): a pool sends each command on another connection. Use createClient(), ` +
      'which serves any number of callers'
    )
  }
  if (typeof send_command === 'function') return `${wanted}, and not node-redis 3 or older: 4.7 is the oldest`
  return wanted
}
