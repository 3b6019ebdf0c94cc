import { NotDurableError } from './errors.js'
import { type Scripts, Unanswered } from './lua/run.js'

/** Error replies of a server that changes its role, or is not itself at the moment: they say nothing about the grant. */
export const NOT_KNOWN = /\b(UNBLOCKED|LOADING|BUSY|READONLY|MASTERDOWN|CLUSTERDOWN|MOVED|TRYAGAIN)\b|replica instances/

/** Makes sure that a grant survives a power failure: the server has fsynced it to its AOF before the caller gets it. */
export class Durability {
  readonly #scripts: Scripts
  readonly #timeoutMs: number

  constructor(scripts: Scripts, commandTimeoutMs: number) {
    this.#scripts = scripts
    // What is sent meanwhile waits behind it on the connection, and must not time out because of it.
    this.#timeoutMs = Math.ceil((commandTimeoutMs * 2) / 3)
  }

  /**
   * @param reconnects  those there had been before it was written: WAITAOF speaks of one connection only
   * @throws {NotDurableError} it is not on disk in time, or the server cannot say whether it is
   * @throws {Unanswered} nobody answered
   */
  async confirm(name: string, reconnects: number): Promise<void> {
    const isFsynced = await this.#ask(name)
    if (isFsynced === undefined) throw new NotDurableError(name, 'refused', 'this Redis client has no WAITAOF')
    const isSame = this.#scripts.reconnects === reconnects
    if (!isSame) throw new NotDurableError(name, 'late', 'the connection was lost meanwhile')
    if (!isFsynced) throw new NotDurableError(name, 'late', `not within ${this.#timeoutMs} ms`)
  }

  async #ask(name: string): Promise<boolean | undefined> {
    try {
      return await this.#scripts.fsynced(name, this.#timeoutMs)
    } catch (cause) {
      if (cause instanceof Unanswered) throw cause
      const reply = cause instanceof Error ? cause.message : String(cause)
      throw new NotDurableError(name, NOT_KNOWN.test(reply) ? 'late' : 'refused', reply, { cause })
    }
  }
}
