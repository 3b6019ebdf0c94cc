/** What clients of several processes believed, and what must never be found in it. */

/** A client believed that it held a lock: from the grant until it released the lock or learned that it had lost it. */
export interface Belief {
  readonly lock: string
  /** On the machine's monotonic clock, ms, as is `to`. */
  readonly from: number
  readonly to: number
  /** Others may hold it, too, if they share it. */
  readonly isShared?: boolean
  /** Of fenced locks. */
  readonly token?: string
}

/** Two beliefs in one lock that cannot both be right. */
export interface Pair<B extends Belief = Belief> {
  readonly first: B
  readonly second: B
}

export interface Overlap<B extends Belief = Belief> extends Pair<B> {
  /** For how long both believed it. */
  readonly ms: number
}

/** On one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Beliefs that began while another client still believed that it held the same lock, unless both share it. */
export function overlapsIn<B extends Belief>(beliefs: readonly B[]): Overlap<B>[] {
  const found: Overlap<B>[] = []
  const inside = new Map<string, B[]>()
  for (const second of inOrder(beliefs)) {
    const others = (inside.get(second.lock) ?? []).filter(({ to }) => second.from < to)
    const [first] = others
      .filter(({ isShared }) => !(isShared && second.isShared))
      .sort((one, other) => other.to - one.to)
    if (first) found.push({ first, second, ms: Math.min(first.to, second.to) - second.from })
    inside.set(second.lock, [...others, second])
  }
  return found
}

/** Grants of a fenced lock whose token is not higher than all before it, each with the grant that had the highest. */
export function staleTokensIn<B extends Belief>(beliefs: readonly B[]): Pair<B>[] {
  const found: Pair<B>[] = []
  const highest = new Map<string, B>()
  for (const second of inOrder(beliefs)) {
    if (second.token === undefined) continue
    const first = highest.get(second.lock)
    if (first && BigInt(second.token) <= BigInt(first.token ?? 0)) found.push({ first, second })
    else highest.set(second.lock, second)
  }
  return found
}

/** Beliefs that began while as many others were inside as may be, each with how many there were then. */
export function crowdsIn<B extends Belief>(beliefs: readonly B[], most: number): { belief: B; inside: number }[] {
  const found: { belief: B; inside: number }[] = []
  let others: B[] = []
  for (const belief of inOrder(beliefs)) {
    others = others.filter(({ to }) => belief.from < to)
    others.push(belief)
    if (others.length > most) found.push({ belief, inside: others.length })
  }
  return found
}

function inOrder<B extends Belief>(beliefs: readonly B[]): B[] {
  return [...beliefs].sort((one, other) => one.from - other.from)
}
