// Whether one server replies, and can be relied on.
import { isDemotion } from './probes.js'

interface HealthHooks {
  onReply(): void
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
    this.#hooks.onReply()
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
}
