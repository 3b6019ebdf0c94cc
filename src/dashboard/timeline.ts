/** History of the holders and waiters of a lock, as far as one sample a second shows it. */
import type { HolderInfo, LockInfo, WaiterInfo } from '../fleet/lock-info.js'
import type { Segment } from './api.js'

export const HISTORY_MS = 15 * 60_000
const MAX_SEGMENTS = 100
/** Maximum number of holders, and of waiters, of one lock in one sample. */
const MAX_OPEN = 20
/** Two readings of one start may differ by this, ms. */
const SAME_START_MS = 1_000

interface Span extends Omit<Segment, 'startedAgoMs' | 'endedAgoMs'> {
  readonly startedAt: number
  /** Whether `startedAt` comes from the client, not from when it was first seen. */
  readonly isExact: boolean
  endedAt?: number
}

export class Timeline {
  #spans: Span[] = []

  /** @param at  when it was read, ms of the clock */
  update(info: LockInfo, at: number): void {
    const present = [
      ...info.holders.slice(0, MAX_OPEN).map((holder) => spanOf('holds', holder.holder, holder, holder.heldMs, at)),
      ...info.waiters.slice(0, MAX_OPEN).map((waiter) => spanOf('waits', whoOf(waiter), waiter, waiter.waitedMs, at)),
    ]
    const open = this.#spans.filter((span) => span.endedAt === undefined)
    for (const span of present) {
      const index = open.findIndex((known) => isSame(known, span))
      if (index >= 0) open.splice(index, 1)
      else this.#spans.push(span)
    }
    for (const span of open) span.endedAt = at
    const oldest = at - HISTORY_MS
    this.#spans = this.#spans.filter((span) => (span.endedAt ?? at) >= oldest).slice(-MAX_SEGMENTS)
  }

  read(now: number): Segment[] {
    return this.#spans.map(({ startedAt, endedAt, isExact: _, ...span }) => ({
      ...span,
      startedAgoMs: Math.max(now - startedAt, 0),
      endedAgoMs: endedAt === undefined ? null : Math.max(now - endedAt, 0),
    }))
  }
}

function spanOf(
  role: Segment['role'],
  who: string,
  { client, label, status }: HolderInfo | WaiterInfo,
  forMs: number | undefined,
  at: number,
): Span {
  return {
    role,
    who,
    ...(client && { client }),
    ...(label !== undefined && { label }),
    status,
    startedAt: at - (forMs ?? 0),
    isExact: forMs !== undefined,
  }
}

/** A hand-off leaves the holder as it is, but the hold is another one. */
function isSame(known: Span, span: Span): boolean {
  if (known.role !== span.role || known.who !== span.who) return false
  if (!known.isExact || !span.isExact) return true
  return known.label === span.label && Math.abs(known.startedAt - span.startedAt) <= SAME_START_MS
}

function whoOf({ holder, client, wait, position }: WaiterInfo): string {
  return holder ?? (client ? `${client.id} ${wait}` : `#${position ?? '?'}`)
}
