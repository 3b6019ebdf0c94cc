// Waits for the AOF to be fsynced.
import type { Fsync } from './port.js'
import { SharedCall } from './shared-call.js'

/**
 * Waits until one server has fsynced to its AOF what was written on our connection.
 *
 * Before Redis 8.0, and in Valkey, WAITAOF is wrong with `appendfsync everysec`: it confirms writes that are not
 * fsynced yet. These servers are trusted only with `appendfsync always`.
 * @see https://github.com/redis/redis/pull/13793
 */
export class LocalFsync {
  readonly #call: (...command: [string, ...string[]]) => Promise<unknown>
  readonly #shared = new SharedCall((timeoutMs) => this.#waitAof(timeoutMs))

  constructor(call: (...command: [string, ...string[]]) => Promise<unknown>) {
    this.#call = call
  }

  /** @throws what the client library throws if the server refuses or does not reply */
  wait(timeoutMs: number): Promise<Fsync> {
    return this.#shared.join(timeoutMs)
  }

  async #waitAof(timeoutMs: number): Promise<Fsync> {
    // The version is read each time: another server may have replaced this one, and compared to an fsync it costs
    // nothing.
    const [reply, info] = await Promise.all([
      this.#call('WAITAOF', '1', '0', String(timeoutMs)),
      this.#call('INFO', 'server'),
    ])
    if (!isExact(String(info)) && !contains(await this.#call('CONFIG', 'GET', 'appendfsync'), 'always')) {
      return 'premature'
    }
    return Array.isArray(reply) && Number(reply[0]) === 1 ? 'fsynced' : 'late'
  }
}

/** Whether WAITAOF is right for every value of `appendfsync`. */
function isExact(info: string): boolean {
  return !/^valkey_version:/m.test(info) && Number(/^redis_version:(\d+)/m.exec(info)?.[1]) >= 8
}

/** Whether a reply contains a word, in whatever form the client library returns a map. */
function contains(reply: unknown, word: string): boolean {
  if (typeof reply !== 'object' || reply === null) return reply === word
  return [...(reply instanceof Map ? reply.values() : Object.values(reply))].some((part) => contains(part, word))
}
