import type { Caller, HoldState, Lease, Nesting, Position, Spell, Take, Waiter } from './operations.js'

/**
 * What clients and Redis know at one moment. Leases are long and only compared; the end of a lease is an operation of
 * another program. A hold has the name of the operation that acquired it, and a lease that of its first hold.
 */
export abstract class ModelState {
  /** All leases, ended ones included. */
  leases = new Map<string, Lease>()
  /** All holds, ended ones included. */
  holds = new Map<string, HoldState>()
  /** For each scope the holds that were taken in it. */
  scopes: readonly (readonly string[])[]
  waiters: readonly Waiter[] = []
  /** The outcomes of the waiters. */
  fates = new Map<string, string>()

  constructor(scopes: number) {
    this.scopes = new Array<readonly string[]>(scopes).fill([])
  }

  // What Redis knows.

  /** Acquires it for a caller that does not hold it, if it is free for that caller. */
  protected abstract acquire(lease: Lease, leaseS: number): boolean
  /** These three return whether the lease was still there. */
  protected abstract setCount(lease: Lease, leaseS: number, count: number): boolean
  protected abstract free(lease: Lease): boolean
  protected abstract renew(lease: Lease, leaseS: number): boolean
  /** The hold count; 0 if it is not there. */
  abstract countOf(lease: Lease): number
  /** @returns whether it was held */
  protected abstract force(target: number): boolean
  protected abstract expire(what: string): void
  abstract readonly expirable: readonly string[]
  protected abstract holdersOf(target: number): {
    readonly counts: ReadonlyMap<string, number>
    readonly leaseS: number
  }
  /** Keys and their contents. */
  protected abstract keys(spell: Spell): Record<string, string>

  // What differs between kinds.

  abstract readonly targets: readonly string[]
  /** Whether two targets are the same lock. */
  protected isSame(one: number, other: number): boolean {
    return one === other
  }
  /** How a request for a target relates to holding another one. */
  protected abstract nesting(target: number, held: number): Nesting
  /** Whether a grant of `target` proves that no other owner still has `held`. */
  protected abstract excludes(target: number, held: number): boolean
  /** The wait queue of its client that a request joins: waiters in one queue are served in order. */
  protected abstract waitQueueOf(take: Take): string
  protected queue(_waiter: string): void {}
  protected leave(_waiter: string): void {}
  protected intrude(_target: number): boolean {
    return false
  }
  protected adoptAs(_from: Lease, _to: Lease, _lease: number): void {}
  /** What is left of a lease that was lost in parts. */
  protected abandon(_possession: Lease): void {}
  /** What is compared of a live hold besides its existence. */
  protected remark(hold: string, spell: Spell): string {
    return `, as ${spell(this.leaseOf(hold).id)}`
  }
  /** What the result of `inspect` has in addition. */
  protected inspectionNote(): string {
    return ''
  }

  /** A model in its initial state. */
  protected abstract blank(): this

  clone(): this {
    const copy = this.blank()
    for (const [name, value] of Object.entries(this)) {
      Object.assign(copy, { [name]: value instanceof Map ? new Map(value) : (value as unknown) })
    }
    return copy
  }

  // For the generators of operations.

  leaseOf(hold: string): Lease {
    return this.leases.get((this.holds.get(hold) as HoldState).lease) as Lease
  }

  stateOf(hold: string): string | undefined {
    return this.holds.get(hold)?.state
  }

  /** Whether its caller has still to release it, also if it was lost. */
  protected isOpen(hold: string): boolean {
    const { state, isUnlocked } = this.holds.get(hold) ?? {}
    return isUnlocked !== true && (state === 'live' || state === 'lost')
  }

  /** How many holds its owner has, this one included. */
  sizeOf(hold: string): number {
    return this.leaseOf(hold).holds.length
  }

  /** The live holds that a caller can release, oldest first. */
  get live(): readonly string[] {
    return this.known.filter((id) => this.stateOf(id) === 'live')
  }

  /** All holds that a caller has or had, oldest first. */
  get known(): readonly string[] {
    return [...this.holds.keys()].filter((id) => !this.isMember(id))
  }

  /** A hold that a hold on several locks is made of. */
  isMember(_hold: string): boolean {
    return false
  }

  /** What a hold is made of; else itself. */
  protected membersOf(hold: string): readonly string[] {
    return [hold]
  }

  /** A hold that is not visible yet. */
  protected isHidden(_hold: string): boolean {
    return false
  }

  /** The position of a caller that is inside a hold, by `within` or by `withLock`, as well as in its scope. */
  positionOf({ scope }: Caller, target: number, within?: string): Position {
    if (within !== undefined && this.stateOf(within) !== 'live') {
      return { is: 'ended', outcome: this.stateOf(within) === 'lost' ? 'lost' : 'not held' }
    }
    const enclosing = scope === undefined ? [] : this.liveIn(scope)
    if (within !== undefined) enclosing.unshift(...this.membersOf(within))
    let beside: Position | undefined
    let deadlock: Position | undefined
    for (const hold of enclosing) {
      const lease = this.leaseOf(hold)
      const is = this.nesting(target, lease.target)
      if (is === 'inside') return { is, lease: lease.id }
      if (is === 'beside') beside ??= { is, lease: lease.id }
      if (is === 'deadlock') deadlock ??= { is, lease: lease.id }
    }
    return beside ?? deadlock ?? { is: 'outside' }
  }

  /** The leases that a client ends when it forces a target. */
  forcedBy(client: number, _target: number): readonly string[] {
    const held = [...this.leases.values()].filter((other) => other.client === client && other.holds.length > 0)
    return held.map(({ id }) => id)
  }

  /** Whether what is left of a lease that lost a part of itself keeps others from a target. */
  protected leavesPartOf(_target: number, _possession: Lease): boolean {
    return false
  }

  /** Whether one of two targets excludes the other. */
  protected overlap(_first: number, _second: number): boolean {
    return true
  }

  /** Whether a target is several locks. */
  isJoint(_target: number): boolean {
    return false
  }

  /** Whether a hold is one on several locks. */
  isJointHold(_hold: string): boolean {
    return false
  }

  /** Whether the waiters for a target keep acquiring and releasing a part of it. */
  isPolled(_target: number): boolean {
    return false
  }

  /** Whether a scope holds what a hold is about. */
  isInScope(hold: string, scope: number | undefined): boolean {
    const { holds } = this.leaseOf(hold)
    return scope !== undefined && holds.some((other) => this.scopes[scope]?.includes(other))
  }

  /** The lease that holds a target alone. */
  holderAt(_target: number): string | undefined {
    return undefined
  }

  protected liveIn(scope: number): string[] {
    return (this.scopes[scope] ?? []).filter((id) => this.stateOf(id) === 'live').reverse()
  }

  /** Everything that distinguishes this state from others. The order of events matters only within a queue. */
  get fingerprint(): string {
    const byQueue = new Map<string, string[]>()
    for (const { take } of this.waiters) {
      const queue = `${take.client} ${this.waitQueueOf(take)}`
      byQueue.set(queue, [...(byQueue.get(queue) ?? []), take.id])
    }
    return JSON.stringify([this, byQueue], (name, value: unknown) => {
      if (name === 'traits' || name === 'waiters') return undefined
      return value instanceof Map ? [...value].sort(([one], [other]) => (one < other ? -1 : 1)) : value
    })
  }

  /** What can be seen of this state, in Redis and in the clients. */
  lines(spell: Spell): Record<string, string> {
    const lines: Record<string, string> = {}
    for (const [key, content] of Object.entries(this.keys(spell))) lines[`key ${key}`] = content
    for (const [id, { state }] of this.holds)
      if (!this.isHidden(id)) lines[`hold ${id}`] = this.#lineOf(id, state, spell)
    for (const [id, fate] of this.fates) lines[`wait ${id}`] = fate
    return lines
  }

  #lineOf(id: string, state: string, spell: Spell): string {
    if (state !== 'live') return state
    return `live, 1 of ${this.sizeOf(id)}${this.remark(id, spell)}`
  }
}
