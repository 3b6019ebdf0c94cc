// Connects for a subcommand.
import type { Client } from '../client.js'
import type { ClientOptions } from '../client-options.js'
import { placeOf as placeOfUrl } from '../config/redis-url.js'
import { connect } from '../connect.js'
import { ConfigError } from '../errors.js'
import { EXIT, Failure, UsageError } from './exit-codes.js'
import { reasonOf } from './stderr.js'
import type { Target } from './target.js'

/**
 * Connects to Redis. No error shows the password of a URL.
 * @throws {UsageError} it is not a Redis URL, or the configuration is invalid
 * @throws {Failure} Redis is unreachable or rejects the password
 * @throws the abort reason, as soon as `signal` aborts
 */
export async function connectTo(
  target: Target,
  signal: AbortSignal,
  options: Pick<ClientOptions, 'inspection'> = {},
): Promise<Client> {
  try {
    return await Promise.race([connect({ ...target, ...options }), rejectedBy(signal)])
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ConfigError) throw new UsageError(`Redis ${error.message}`)
    const verb = error instanceof Error && error.name === 'ReplyError' ? 'rejected by' : 'cannot reach'
    throw new Failure(EXIT.unavailable, `${verb} Redis ${placeOf(target)}: ${reasonOf(error)}`)
  }
}

function placeOf(target: Target): string {
  if ('config' in target) return `of ${target.config}`
  return `at ${placeOfUrl(target.url)}`
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
