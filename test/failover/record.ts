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

export interface Overlap {
  readonly lock: string
  readonly first: Belief
  readonly second: Belief
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
    const { lock } = second
    const first = latest.get(lock)
    if (first && second.from < first.to) {
      found.push({ lock, first, second, ms: Math.min(first.to, second.to) - second.from })
    }
    if (!first || second.to > first.to) latest.set(lock, second)
  }
  return found
}

/** Grants of a fenced lock whose token is not higher than all before it. */
export function staleTokensIn(beliefs: readonly Belief[]): string[] {
  const found: string[] = []
  const highest = new Map<string, bigint>()
  for (const { lock, token, way } of inOrder(beliefs)) {
    if (token === undefined) continue
    const before = highest.get(lock) ?? 0n
    if (BigInt(token) <= before) found.push(`${lock}: ${way} got ${token} after ${before}`)
    else highest.set(lock, BigInt(token))
  }
  return found
}

function inOrder(beliefs: readonly Belief[]): Belief[] {
  return [...beliefs].sort((one, other) => one.from - other.from)
}
