// Keeps a lock for atLeastMs after a run.
import type { LateCopies } from '../delivery/late-copies.js'
import type { Owner } from '../wire/holder.js'
import type { Context } from './context.js'
import type { LockKind } from './kinds/lock-kind.js'

interface KeptLease {
  readonly context: Context
  readonly kind: LockKind
  readonly key: string
  readonly holder: string
  readonly leaseEndsAt: number
  readonly owner: Owner
  readonly field: string
  readonly copies: LateCopies
  releaseInBackground(): void
}

/**
 * `atLeastMs`: how long a lock stays taken from its grant, whatever becomes of its holds. The lease was requested for that
 * long; but renewals, or a nested hold, may have made it longer.
 */
export class AtLeast {
  readonly #lease: KeptLease
  /** Latest time at which Redis can have granted it, on the clock; possibly long after the command was sent. */
  readonly #grantedBy: number
  readonly #untilAt: number

  /**
   * The work has started.
   * @param grantedBy  when the reply to the grant arrived, on the clock
   */
  constructor(lease: KeptLease, grantedBy: number, atLeastMs: number) {
    this.#lease = lease
    this.#grantedBy = grantedBy
    this.#untilAt = grantedBy + atLeastMs
  }

  get isRunning(): boolean {
    return this.#lease.context.clock.now() < this.#untilAt
  }

  /** Remaining time, ms; not positive: it is over. */
  get leftMs(): number {
    return this.#untilAt - this.#lease.context.clock.now()
  }

  /** Remaining time by the clock of Redis, which may be slower than this one, ms: see `leasedUntil`. */
  get #leftInRedisMs(): number {
    return Math.max(1, Math.ceil(this.leftMs + (this.#lease.context.clock.now() - this.#grantedBy) / 100))
  }

  /**
   * Leaves the lock to its lease, which is cut if it is too long. Resolves after the first try; the command is repeated in the
   * background until there is a reply. Copies of the command that took the lock may take it once more, and nobody else would
   * release that.
   */
  async leaveToLease(): Promise<void> {
    const { context, kind, key, holder, owner, field, leaseEndsAt, copies } = this.#lease
    owner.retire(field)
    if (copies.until > 0) context.clock.after(this.#leftInRedisMs, () => this.#lease.releaseInBackground(), false)
    if (leaseEndsAt <= this.#untilAt) return
    const shorten = async (timeoutMs?: number): Promise<unknown> => {
      const isOver = context.clock.now() >= leaseEndsAt
      return isOver ? 0 : await context.scripts.run(kind.shorten(key, holder, this.#leftInRedisMs), timeoutMs)
    }
    await shorten().catch(() => void context.backgroundRetries.retryInBackground(shorten, leaseEndsAt))
  }
}
