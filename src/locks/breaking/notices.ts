// The notice of a forced release, which is repeated: the holder may be reconnecting.
import { publish } from '../../delivery/publish.js'
import { clientIdOf } from '../../wire/holder.js'
import { INBOX_PREFIX } from '../../wire/keys.js'
import type { Named } from '../../wire/names.js'
import type { LeaseContext } from '../lease.js'
import { applyMark } from './apply-mark.js'
import { markNotice, REACTION_MS } from './mark.js'

/** Time between two notices, ms. */
export const NOTICE_MS = 250
/** How long nobody has to listen on the inbox of a holder until it counts as unreachable, ms: it may be reconnecting. */
const UNREACHABLE_MS = 1_000

/** Notifies the holder's client of the mark, repeatedly while the mark is valid, in case that client is reconnecting. */
export class Notices {
  readonly #context: LeaseContext
  readonly #lock: Named
  readonly #holder: string
  readonly #startedAt: number
  #nextAt: number
  /** Nobody has received one, as far as that is known. */
  #hasNoReceiver = true
  /** Nobody has listened for so long that the holder is not merely reconnecting. */
  isUnreachable = false

  constructor(context: LeaseContext, lock: Named, holder: string) {
    this.#context = context
    this.#lock = lock
    this.#holder = holder
    this.#startedAt = context.clock.now()
    this.#nextAt = this.#startedAt
  }

  /** Whether somebody has received one, or may have. */
  get isReceived(): boolean {
    return !this.#hasNoReceiver
  }

  /** Sends one, if it is time. A refused one is not repeated sooner: the holder then does not react. */
  async send(): Promise<void> {
    const now = this.#context.clock.now()
    if (now < this.#nextAt || now >= this.#startedAt + REACTION_MS) return
    this.#nextAt = now + NOTICE_MS
    if ((await this.#notify().catch(() => undefined)) !== 0) this.#hasNoReceiver = false
    if (!this.#hasNoReceiver) return
    // From the first to the last that was sent: Redis may be slow to say of one that nobody listened.
    const lastAt = this.#startedAt + UNREACHABLE_MS
    if (now >= lastAt) this.isUnreachable = true
    else this.#nextAt = Math.min(this.#nextAt, lastAt)
  }

  /** @returns how many received it. This client reads the mark itself. */
  async #notify(): Promise<number | undefined> {
    const [{ key }, holder] = [this.#lock, this.#holder]
    const clientId = clientIdOf(holder)
    if (clientId !== this.#context.clientId) {
      return await publish(this.#context.scripts, INBOX_PREFIX + clientId, markNotice({ key, holder }))
    }
    await applyMark(this.#context, { key, holder })
    return 1
  }
}
