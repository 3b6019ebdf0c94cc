// The holder's side of a forced release: reads marks, interrupts the holds that they name.
import { sleep } from '../../util/sleep.js'
import { inspectHolder } from '../inspection.js'
import type { Lease, LeaseContext } from '../lease.js'
import { type MarkedHolder, REACTION_MS, readMark } from './mark.js'

/** How long a client that found no mark waits before it reads the next one, ms: it might be notified in vain very often. */
const PAUSE_MS = 20

/**
 * Ends the holds of this client that operators have marked. A message says of which holder there may be a mark; anybody may
 * send such messages, so it is the mark in Redis that counts.
 */
export class ForcedMarks {
  readonly #context: LeaseContext
  /** Whose marks are to be read. */
  readonly #due = new Set<Lease>()
  #isReading = false

  constructor(context: LeaseContext) {
    this.#context = context
  }

  /** A message says that a holder is marked. */
  notified({ key, holder }: MarkedHolder): void {
    const lease = this.#context.leases.find(key, holder)
    if (!lease) return
    this.#due.add(lease)
    if (!this.#isReading) void this.#readAll()
  }

  async #readAll(): Promise<void> {
    this.#isReading = true
    for (const lease of this.#due) {
      this.#due.delete(lease) // one that is added from here on comes later in this loop
      const wasApplied = await applyMark(this.#context, lease).catch(() => false)
      if (!wasApplied) await sleep(PAUSE_MS, { clock: this.#context.clock, keepAlive: false })
    }
    this.#isReading = false
  }
}

/**
 * Ends the lease of this client with this holder, if that is marked.
 * @returns false: there is no mark, or no such lease, or the mark is too old
 * @throws as `Scripts.command`
 */
export async function applyMark(context: LeaseContext, { key, holder }: MarkedHolder): Promise<boolean> {
  const found = await readMark(context, { key, holder }, REACTION_MS)
  if (!found) return false
  const { mark, setBetween } = found
  const [earliest, latest] = setBetween
  const lease = context.leases.find(key, holder)
  // An owner may take the same lock again: a mark from before the grant was for its earlier lease.
  if (!lease?.isLive || lease.kind.isDivisible || latest < lease.grantedAt) return false
  if (context.clock.now() - earliest <= REACTION_MS) {
    lease.endGracefully(mark)
    return true
  }
  // This process was paused for so long that the operator has given up, or has freed the lock without it.
  if ((await inspectHolder(context, lease.kind, lease, lease.holder)) !== undefined || !lease.isLive) return false
  lease.endGracefully({ ...mark, graceMs: 0 }, true)
  return true
}
