import type { Client } from '../client.js'
import { connect } from '../config/open.js'
import { ConfigError } from '../errors.js'
import { EXIT, Failure, UsageError } from './exit-codes.js'
import { reasonOf } from './say.js'

/**
 * Connects to the Redis at `url`, and never tells the password in it.
 * @throws {UsageError} it is not a Redis URL
 * @throws {Failure} Redis cannot be reached, or refuses us
 * @throws the reason of `signal`, at once
 */
export async function connectTo(url: string, signal: AbortSignal): Promise<Client> {
  try {
    return await Promise.race([connect(url), rejectedBy(signal)])
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ConfigError) throw new UsageError(`Redis ${error.message}`)
    const { hostname, port } = new URL(url)
    const verb = error instanceof Error && error.name === 'ReplyError' ? 'refused by' : 'cannot reach'
    throw new Failure(EXIT.unavailable, `${verb} Redis at ${hostname}:${port || '6379'}: ${reasonOf(error)}`)
  }
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
