import assert from 'node:assert/strict'
import type { Hold } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'

/** How long after a command its caller learns of it, ms. */
const LATE_MS = 3_000

/** Whoever holds something, as the caller believes. */
interface Belief {
  readonly resource: string
  readonly isShared: boolean
  readonly since: number
  /** More than one, if it is one lock on several servers; a server whose reply is late adds one. */
  owners(): readonly object[]
  /** How often the lease had gone from caller to caller. */
  readonly handOffs: number
  readonly holder: string
  isLive(): boolean
}

/** What callers believe to hold, and the check that no two beliefs contradict each other. */
export class Beliefs {
  readonly #now: () => number
  readonly #beliefs = new Set<Belief>()
  /** That were wrong as they may be after a failover. */
  readonly excused = new Set<object>()
  /** By resource: beliefs that began before this were ended by force, which their holders may not know yet. */
  readonly #forcedUntil = new Map<string, number>()
  /** By resource: how many are ending beliefs by force right now. */
  readonly #forcing = new Map<string, number>()
  /** By resource and holder: when its lease was extended in vain. */
  readonly #extendedInVain = new Map<string, number>()
  readonly #tokens = new Map<string, { readonly last: bigint; readonly lease: object }>()
  /** By resource: how many may hold it at once, where that is not one. */
  readonly #limits: ReadonlyMap<string, number>

  constructor(now: () => number, limits: ReadonlyMap<string, number>) {
    this.#now = now
    this.#limits = limits
  }

  /**
   * @param isWhole   it is one lock although it has members, like a red lock
   * @param isInside  whether nobody else may have it although the hold was lost
   */
  holds(hold: Hold, resources: readonly string[], isShared = false, isWhole = false, isInside = () => false): void {
    if (!hold.isLive) return // lost before its caller got it
    if (!isWhole && hold.members.length > 1) {
      for (const member of hold.members) this.holds(member, [member.lockName], isShared)
      return
    }
    const owners = (): readonly object[] => hold.members.map(({ lease }) => (lease as Lease).owner)
    const { handOffs = 0 } = hold.lease as Partial<Lease>
    for (const resource of resources) {
      this.#rises(resource, hold.fencingToken, hold.lease)
      const { holder } = hold
      this.#add({ resource, isShared, owners, handOffs, holder, isLive: () => hold.isLive || isInside() })
    }
  }

  /** Something without a lease. @returns to be called when the caller is about to give it back */
  enters(resource: string, who: string): () => void {
    let isInside = true
    this.#add({ resource, isShared: false, owners: () => [], handOffs: 0, holder: who, isLive: () => isInside })
    return () => {
      isInside = false
    }
  }

  /** Beliefs may be wrong from now on. @returns to be called when that is over, with the time until which they still may be */
  forcing(resource: string): (untilMs: number) => void {
    this.#forcing.set(resource, (this.#forcing.get(resource) ?? 0) + 1)
    return (untilMs) => {
      this.#forcing.set(resource, (this.#forcing.get(resource) ?? 0) - 1)
      this.#forcedUntil.set(resource, Math.max(untilMs, this.#forcedUntil.get(resource) ?? 0))
    }
  }

  /** Whether a holder may be wrong, because it does not know yet that its lock was freed by force. */
  isForced(resource: string, since: number): boolean {
    if ((this.#forcing.get(resource) ?? 0) > 0) return true
    return since <= (this.#forcedUntil.get(resource) ?? Number.NEGATIVE_INFINITY)
  }

  /** A lease was extended at a server that did not count, or at none for long: its holder may not know that it ended. */
  extendedInVain(resource: string, holders: readonly string[]): void {
    for (const holder of holders) this.#extendedInVain.set(`${resource} ${holder}`, this.#now())
  }

  #isExtendedInVain({ resource, since, holder }: Belief): boolean {
    return since <= (this.#extendedInVain.get(`${resource} ${holder}`) ?? Number.NEGATIVE_INFINITY) + LATE_MS
  }

  check(isHeldInRedis: (resource: string, holder: string) => boolean): void {
    const present = new Map<string, Belief[]>()
    for (const belief of this.#beliefs) {
      if (!belief.isLive()) this.#beliefs.delete(belief)
      else if (!this.isForced(belief.resource, belief.since)) {
        const { resource, holder } = belief
        const isInRedis = isHeldInRedis(resource, holder)
        if (this.#isExtendedInVain(belief)) {
          if (!isInRedis) this.excused.add(belief)
          continue
        }
        assert(isInRedis, `${holder} believes to hold ${resource}, and does not in Redis`)
        present.set(resource, [...(present.get(resource) ?? []), belief])
      }
    }
    for (const [resource, beliefs] of present) this.#checkTogether(resource, beliefs)
  }

  #checkTogether(resource: string, beliefs: readonly Belief[]): void {
    const limit = this.#limits.get(resource)
    const all = beliefs.map(({ holder, handOffs }) => `${holder} (hand-off ${handOffs})`).join(' and ')
    if (limit !== undefined) assert(beliefs.length <= limit, `${beliefs.length} hold ${resource}, not ${limit}: ${all}`)
    else {
      for (const [index, one] of beliefs.entries())
        for (const other of beliefs.slice(index + 1)) assert(!excludes(one, other), `${all} hold ${resource}`)
    }
  }

  /** Tokens rise with each grant; the holds of one lease have the same. */
  #rises(resource: string, token: bigint | undefined, lease: object): void {
    if (token === undefined || this.isForced(resource, this.#now())) return
    const before = this.#tokens.get(resource)
    const isRisen = before === undefined || token > before.last || (token === before.last && lease === before.lease)
    assert(isRisen, `the fencing token of ${resource} went from ${before?.last} to ${token}`)
    this.#tokens.set(resource, { last: token, lease })
  }

  #add(belief: Omit<Belief, 'since'>): void {
    this.#beliefs.add({ ...belief, since: this.#now() })
  }
}

function excludes(one: Belief, other: Belief): boolean {
  const others = other.owners()
  if (one.owners().some((owner) => others.includes(owner)))
    return !one.isShared && !other.isShared && one.handOffs !== other.handOffs
  return !one.isShared || !other.isShared
}
