// Whether one server replies, and can be relied on.
import { monotonicNow } from '../util/real-time.js'
import { isDemotion } from './probes.js'

export const MIXED_UP =
  'After a reconnect the Redis client took the reply to one command for that to another: update its package'

interface HealthHooks {
  /** When the last reply arrived, from any server, on the monotonic clock. */
  readonly replies: { lastAt: number }
  isErrorReply(error: unknown): boolean
  onDemotion(): void
}

/** Whether one server replies. */
export class ServerHealth {
  inFlight = 0
  /** The last command failed without an error reply. */
  isFailing = false
  /** The run of a server that another one has replaced as the master. */
  replacedRun: string | undefined
  /** It replied that it is not a master. */
  isDemoted = false
  /** A self-test failed: no reply can be trusted. */
  isMixedUp = false
  /** Until it has ended, replies are held back. Resolves to whether they can be trusted. */
  selfTest: Promise<boolean> | undefined
  /** Checks since its last reply, with a reply outstanding. */
  silentChecks = 0
  /** Until when it may be silent, on the monotonic clock: WAIT and WAITAOF block the connection. */
  blockedUntil = 0
  /** A key that it owns. */
  key: string
  readonly #hooks: HealthHooks

  constructor(key: string, hooks: HealthHooks) {
    this.key = key
    this.#hooks = hooks
  }

  readonly replied = (): void => {
    this.inFlight--
    this.silentChecks = 0
    this.isFailing = false
    this.#hooks.replies.lastAt = monotonicNow()
  }

  /** What becomes of a reply: the same function for all, because each command needs one. */
  readonly received = (reply: unknown): unknown => {
    this.replied()
    return this.selfTest === undefined ? reply : this.#whenTested(reply)
  }

  readonly rejected = (error: unknown): never => {
    this.failed(error)
    throw error
  }

  readonly failed = (error: unknown): void => {
    if (this.#hooks.isErrorReply(error)) {
      this.replied()
      if (isDemotion(error)) this.#hooks.onDemotion()
      return
    }
    this.inFlight--
    this.isFailing = true
  }

  async #whenTested(reply: unknown): Promise<unknown> {
    while (this.selfTest !== undefined) {
      if (!(await this.selfTest)) throw new Error(this.isMixedUp ? MIXED_UP : 'the connection was lost again')
    }
    return reply
  }
}
