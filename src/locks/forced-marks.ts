import { sleep } from '../util/sleep.js'
import { REACTION_MS, readMark } from './forced-mark.js'
import { inspectHolder } from './inspection.js'
import type { LeaseContext } from './lease.js'

/** How long a client that found no mark waits before it reads the next one, ms: it might be notified in vain very often. */
const PAUSE_MS = 20

/**
 * Ends the holds of this client that operators have marked. A message says on which lock there may be a mark; anybody may
 * send such messages, so it is the mark in Redis that counts.
 */
export class ForcedMarks {
  readonly #context: LeaseContext
  /** Locks whose marks are to be read. */
  readonly #due = new Set<string>()
  #isReading = false

  constructor(context: LeaseContext) {
    this.#context = context
  }

  /** A message says that a holder of this lock is marked. */
  notified(lockName: string): void {
    if (this.#context.leases.named(lockName).length === 0) return
    this.#due.add(lockName)
    if (!this.#isReading) void this.#readAll()
  }

  async #readAll(): Promise<void> {
    this.#isReading = true
    for (const lockName of this.#due) {
      this.#due.delete(lockName) // one that is added from here on comes later in this loop
      const isObeyed = await obeyMark(this.#context, lockName).catch(() => false)
      if (!isObeyed) await sleep(PAUSE_MS, { clock: this.#context.clock, keepAlive: false })
    }
    this.#isReading = false
  }
}

/**
 * Ends the lease of this client that the mark of a lock names.
 * @returns false: there is no mark, or it names none of them, or is too old
 * @throws as `Scripts.ask`
 */
export async function obeyMark(context: LeaseContext, lockName: string): Promise<boolean> {
  const found = await readMark(context, lockName, REACTION_MS)
  if (!found) return false
  const { mark, setBetween } = found
  const [earliest, latest] = setBetween
  const lease = context.leases.find(lockName, mark.holder)
  // An owner may take the same lock again: a mark from before the grant was for its earlier lease.
  if (!lease?.isLive || lease.kind.isDivisible || latest < lease.grantedAt) return false
  if (context.clock.now() - earliest <= REACTION_MS) {
    lease.endGracefully(mark)
    return true
  }
  // This process was paused for so long that the operator has given up, or has freed the lock without it.
  if ((await inspectHolder(context, lease.kind, lockName, lease.holder)) !== undefined || !lease.isLive) return false
  lease.endGracefully({ ...mark, graceMs: 0 }, true)
  return true
}
