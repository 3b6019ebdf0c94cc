/** What clients believed while servers failed, and what must never be found in it. */

/** One client believed that it held a lock: from the grant until it released the lock or learned that it had lost it. */
export interface Belief {
  readonly lock: string
  /** How the client was opened. */
  readonly way: string
  /** Opened while the fault went on. */
  readonly isFresh: boolean
  /** When the lock was asked for, ms on the machine's monotonic clock, as are the others. */
  readonly askedAt: number
  readonly from: number
  readonly to: number
  /** The owner in Redis. */
  readonly holder: string
  /** Of fenced locks. */
  readonly token?: string
  /** Why it was lost, unless it was released. */
  readonly lost?: string
}

/** Two beliefs in one lock that cannot both be right. */
export interface Pair {
  readonly first: Belief
  readonly second: Belief
}

export interface Overlap extends Pair {
  /** For how long both believed it. */
  readonly ms: number
}

/** On one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Beliefs that began while another client still believed that it held the same lock. */
export function overlapsIn(beliefs: readonly Belief[]): Overlap[] {
  const found: Overlap[] = []
  const latest = new Map<string, Belief>()
  for (const second of inOrder(beliefs)) {
    const first = latest.get(second.lock)
    if (first && second.from < first.to) found.push({ first, second, ms: Math.min(first.to, second.to) - second.from })
    if (!first || second.to > first.to) latest.set(second.lock, second)
  }
  return found
}

/** Grants of a fenced lock whose token is not higher than all before it, each with the grant that had the highest. */
export function staleTokensIn(beliefs: readonly Belief[]): Pair[] {
  const found: Pair[] = []
  const highest = new Map<string, Belief>()
  for (const second of inOrder(beliefs)) {
    if (second.token === undefined) continue
    const first = highest.get(second.lock)
    if (first && BigInt(second.token) <= BigInt(first.token ?? 0)) found.push({ first, second })
    else highest.set(second.lock, second)
  }
  return found
}

function inOrder(beliefs: readonly Belief[]): Belief[] {
  return [...beliefs].sort((one, other) => one.from - other.from)
}
