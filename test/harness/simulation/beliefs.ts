import assert from 'node:assert/strict'
import type { Hold } from '../../../src/index.js'
import type { Lease } from '../../../src/locks/lease.js'

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
  /** More than one, if it is one lock on several servers. */
  holder(): string
  isLive(): boolean
}

/** What callers believe to hold, and the check that no two beliefs contradict each other. */
export class Beliefs {
  readonly #now: () => number
  readonly #beliefs = new Set<Belief>()
  /** That were wrong as they may be after a failover. */
  readonly excused = new Set<object>()
  /** By resource: until when whoever was forced may not know it yet. */
  readonly #forcedUntil = new Map<string, number>()
  /** What is being freed by force right now, of one holder or of anyone. */
  readonly #forcing = new Set<{ readonly resource: string; readonly isOfAnyone: boolean }>()
  /** By resource: who had it meanwhile, and may have been meant. Nobody else may lose it by force. */
  readonly #forced = new Map<string, Set<string>>()
  /** By resource and holder: when its lease was extended in vain. */
  readonly #extendedInVain = new Map<string, number>()
  /** By resource: the last one, and those of leases. */
  readonly #tokens = new Map<string, { last: bigint; readonly of: WeakMap<object, bigint> }>()
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
      // A red lock outlives a member that was lost.
      const ofLiveMembers = (): string => hold.members.flatMap((one) => (one.isLive ? one.holder : [])).join(', ')
      const holder = (): string => (isWhole ? ofLiveMembers() : hold.holder)
      this.#add({ resource, isShared, owners, handOffs, holder, isLive: () => hold.isLive || isInside() })
    }
  }

  /** Something without a lease. @returns to be called when the caller is about to give it back */
  enters(resource: string, who: string): () => void {
    let isInside = true
    this.#add({ resource, isShared: false, owners: () => [], handOffs: 0, holder: () => who, isLive: () => isInside })
    return () => {
      isInside = false
    }
  }

  /**
   * Beliefs may be wrong from now on: those of one holder, or of whoever has it while this lasts.
   * @returns to be called when that is over, with the time until which they still may be
   */
  forcing(resource: string, holder?: string): (untilMs: number) => void {
    if (holder !== undefined) this.#addForced(resource, [holder])
    const inProgress = { resource, isOfAnyone: holder === undefined }
    this.#forcing.add(inProgress)
    return (untilMs) => {
      this.#forcing.delete(inProgress)
      this.#forcedUntil.set(resource, Math.max(untilMs, this.#forcedUntil.get(resource) ?? 0))
    }
  }

  /** Whether a holder may be wrong, because its lock may be freed by force without its knowledge. */
  isForced(resource: string, holder: string): boolean {
    const forced = this.#forced.get(resource)
    // A red lock has a holder on each server.
    return forced !== undefined && holder.split(', ').some((one) => forced.has(one))
  }

  /** Whether somebody rightly believes to hold it. */
  isCertain(resource: string, holder: string): boolean {
    for (const belief of this.#beliefs) {
      const isIts = belief.resource === resource && belief.holder().split(/, ?/).includes(holder) && belief.isLive()
      if (isIts && !this.isForced(resource, belief.holder()) && !this.#isExtendedInVain(belief)) return true
    }
    return false
  }

  /** Whether someone is ending beliefs by force, or was until just now. */
  #isBeingForced(resource: string): boolean {
    for (const one of this.#forcing) if (one.resource === resource) return true
    return this.#now() <= (this.#forcedUntil.get(resource) ?? Number.NEGATIVE_INFINITY)
  }

  /** A lease was extended at a server that did not count, or at none for long: its holder may not know that it ended. */
  extendedInVain(resource: string, holders: readonly string[]): void {
    for (const holder of holders) this.#extendedInVain.set(`${resource} ${holder}`, this.#now())
  }

  #addForced(resource: string, holders: readonly string[]): void {
    const forced = this.#forced.get(resource) ?? new Set()
    this.#forced.set(resource, forced)
    for (const holder of holders) forced.add(holder)
  }

  #isExtendedInVain({ resource, since, holder }: Belief): boolean {
    if (this.#extendedInVain.size === 0) return false
    return since <= (this.#extendedInVain.get(`${resource} ${holder()}`) ?? Number.NEGATIVE_INFINITY) + LATE_MS
  }

  /** @param holdersOf  those of a resource */
  check(
    isHeldInRedis: (resource: string, holder: string) => boolean,
    holdersOf: (resource: string) => readonly string[],
  ): void {
    for (const { resource, isOfAnyone } of this.#forcing) {
      if (isOfAnyone) this.#addForced(resource, holdersOf(resource))
    }
    const present = new Map<string, Belief[]>()
    for (const belief of this.#beliefs) {
      if (!belief.isLive()) this.#beliefs.delete(belief)
      else {
        const { resource } = belief
        const holder = belief.holder()
        if (this.isForced(resource, holder)) continue
        const isInRedis = isHeldInRedis(resource, holder)
        if (this.#isExtendedInVain(belief)) {
          if (!isInRedis) this.excused.add(belief)
          continue
        }
        if (!isInRedis) assert.fail(`${holder} believes to hold ${resource}, and does not in Redis`)
        const others = present.get(resource)
        if (others) others.push(belief)
        else present.set(resource, [belief])
      }
    }
    for (const [resource, beliefs] of present) if (beliefs.length > 1) this.#checkTogether(resource, beliefs)
  }

  #checkTogether(resource: string, beliefs: readonly Belief[]): void {
    const limit = this.#limits.get(resource)
    const all = (): string => beliefs.map(({ holder, handOffs }) => `${holder()} (hand-off ${handOffs})`).join(' and ')
    if (limit !== undefined) {
      if (beliefs.length > limit) assert.fail(`${beliefs.length} hold ${resource}, not ${limit}: ${all()}`)
      return
    }
    for (const [index, one] of beliefs.entries())
      for (const other of beliefs.slice(index + 1)) if (excludes(one, other)) assert.fail(`${all()} hold ${resource}`)
  }

  /**
   * Tokens rise with each grant; the holds of one lease have the same. Whether a lease may still be re-entered when there is a
   * later one is for the other check to say.
   */
  #rises(resource: string, token: bigint | undefined, lease: object): void {
    if (token === undefined || this.#isBeingForced(resource)) return
    const tokens = this.#tokens.get(resource) ?? { last: -1n, of: new WeakMap() }
    this.#tokens.set(resource, tokens)
    if (tokens.of.get(lease) === token) return
    assert(token > tokens.last, `the fencing token of ${resource} went from ${tokens.last} to ${token}`)
    tokens.last = token
    tokens.of.set(lease, token)
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
