// A grant counts once the AOF has it.
import type { Fsync } from '../adapters/port.js'
import { messageOf, NotDurableError } from '../errors.js'
import type { Named } from '../wire/names.js'
import { isLasting, NoReplyError } from './replies.js'
import type { Scripts } from './scripts.js'

const WITHOUT_AOF = /appendonly is disabled/
const PREMATURE = 'before Redis 8.0, and in Valkey, WAITAOF is only right with appendfsync always'

/** Ensures that a grant survives a power failure: the server fsyncs it to its AOF before the caller receives it. */
export class Durability {
  readonly #scripts: Scripts
  readonly #timeoutMs: number

  constructor(scripts: Scripts, commandTimeoutMs: number) {
    this.#scripts = scripts
    // Commands sent meanwhile wait behind it on the connection, and must not time out because of it.
    this.#timeoutMs = Math.ceil((commandTimeoutMs * 2) / 3)
  }

  /**
   * @param route  the route of the grant: WAITAOF covers only its own connection
   * @throws {NotDurableError} it is not on disk in time, or the server cannot tell
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  async confirm(lock: Named, route: string): Promise<void> {
    const { key, name } = lock
    const fsync = await this.#fsynced(lock)
    const isSame = this.#scripts.routeTo(key) === route
    if (fsync === 'fsynced' && isSame) return
    if (fsync === undefined) throw new NotDurableError(name, 'refused', 'this Redis client does not support WAITAOF')
    if (fsync === 'premature') throw new NotDurableError(name, 'refused', PREMATURE)
    throw new NotDurableError(name, 'late', isSame ? `not within ${this.#timeoutMs} ms` : 'the connection was lost')
  }

  async #fsynced({ key, name }: Named): Promise<Fsync | undefined> {
    try {
      return await this.#scripts.fsynced(key, this.#timeoutMs)
    } catch (cause) {
      if (cause instanceof NoReplyError) throw cause
      const reply = messageOf(cause)
      const isRefused = isLasting(cause) || WITHOUT_AOF.test(reply)
      // Any other error, as of a server that is changing its role, says nothing about the grant.
      throw new NotDurableError(name, isRefused ? 'refused' : 'late', reply, { cause })
    }
  }
}
