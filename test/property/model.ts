/**
 * What locks promise, without Redis and without time: the holders, the waiters and the losses. Leases are long and only
 * compared; the end of a lease is an operation of another program.
 *
 * A hold has the name of the operation that acquired it, and a possession that of its first hold. This class knows what
 * clients know; the kinds know what Redis knows.
 */

import { isDeepStrictEqual } from 'node:util'

/** Leases, s. The first is the watchdog's. */
export const LEASES = [60, 120, 240] as const

/** The caller: a client, and which of its scopes; without a scope it is a new owner each time. */
export interface Caller {
  readonly client: number
  readonly scope?: number | undefined
}

/** How asking goes with what the caller holds, as seen when the call is made. */
export type Position =
  /** With the scope and the hold inside which several locks are taken. */
  | { readonly is: 'outside'; readonly scope?: number | undefined; readonly enclosing?: string | undefined }
  | { readonly is: 'inside'; readonly possession: string }
  | { readonly is: 'beside'; readonly possession: string }
  | { readonly is: 'deadlock'; readonly possession: string }
  | { readonly is: 'ended'; readonly outcome: string }

export type Nesting = 'inside' | 'beside' | 'deadlock' | 'apart'

export interface Take extends Caller {
  readonly do: 'take'
  readonly id: string
  /** `now`: refused at once; `soon`: after some ms; `wait`: as long as it takes; `abandon`: aborted in the same turn. */
  readonly how: 'now' | 'soon' | 'wait' | 'abandon'
  readonly target: number
  readonly lease: number
  /** Whether the watchdog renews it, or it has a fixed lease. */
  readonly isRenewed: boolean
  /** The hold that is re-entered by hand. */
  readonly within?: string | undefined
  readonly position: Position
}

export type Operation =
  | Take
  | (Caller & { do: 'nest'; id: string; target: number; inner: number; lease: number; position: Position })
  /** `isRepeated`: another call for the same hold is made in the same turn, before it. */
  | { do: 'unlock'; hold: string; isRepeated: boolean }
  | { do: 'unlock current'; client: number; scope: number; target: number }
  | { do: 'abort'; waiter: string }
  | { do: 'force'; client: number; target: number; condemned: readonly string[] }
  | { do: 'hand over'; hold: string }
  | { do: 'adopt'; id: string; client: number; target: number; from: string; isThere: boolean; lease: number }
  | { do: 'ask'; client: number; target: number }
  | { do: 'ask hold'; hold: string }
  | { do: 'ask count'; client: number; scope: number; target: number }
  /** The watchdog of a client renews everything it holds. */
  | { do: 'renew'; client: number }
  /** Somebody else deletes keys. */
  | { do: 'expire'; what: string }
  /** Another program acquires the lock if it is free. */
  | { do: 'intrude'; target: number }

export interface HoldState {
  readonly possession: string
  readonly lease: number
  readonly state: 'live' | 'released' | 'lost'
}

export interface Possession {
  readonly id: string
  readonly client: number
  /** Two possessions of one owner have the same holder in Redis. */
  readonly owner: string
  readonly target: number
  readonly holds: readonly string[]
  readonly isLost: boolean
}

export interface Waiter {
  readonly take: Take
  readonly owner: string
}

/** A state that an operation leads to, and the result of the call. */
export type Branch = readonly [after: Model, outcome: string]

/** How a holder is spelled; of one that was not seen yet `#` and its id. */
export type Spell = (possession: string) => string

export abstract class Model {
  /** All there ever were. */
  possessions = new Map<string, Possession>()
  /** All there ever were. */
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

  /** Acquire it for a caller that does not hold it, if it is free for that caller. */
  protected abstract acquire(possession: Possession, lease: number): boolean
  /** Each of these: whether the possession was still there. */
  protected abstract setCount(possession: Possession, lease: number, count: number): boolean
  protected abstract free(possession: Possession): boolean
  protected abstract renew(possession: Possession, lease: number): boolean
  /** The hold count; 0 if it is not there. */
  abstract countOf(possession: Possession): number
  /** Whether anybody held it. */
  protected abstract force(target: number): boolean
  protected abstract expire(what: string): void
  abstract readonly expirable: readonly string[]
  protected abstract holdersOf(target: number): { readonly counts: ReadonlyMap<string, number>; readonly lease: number }
  /** Keys and their contents. */
  protected abstract keys(spell: Spell): Record<string, string>

  // What differs between kinds.

  abstract readonly targets: readonly string[]
  /** Whether two targets are the same lock. */
  protected isSame(one: number, other: number): boolean {
    return one === other
  }
  /** How asking for a target goes with having another. */
  protected abstract nesting(target: number, held: number): Nesting
  /** Whether a grant of `target` shows that nobody else has `held` any more. */
  protected abstract excludes(target: number, held: number): boolean
  /** Those in one line of one client are served in order. */
  protected abstract lineOf(take: Take): string
  protected queue(_waiter: string): void {}
  protected leave(_waiter: string): void {}
  protected intrude(_target: number): boolean {
    return false
  }
  protected adoptAs(_from: Possession, _to: Possession, _lease: number): void {}
  /** What is left of a possession that was lost in parts. */
  protected abandon(_possession: Possession): void {}
  /** What a live hold is besides being there. */
  protected remark(hold: string, spell: Spell): string {
    return `, as ${spell(this.possessionOf(hold).id)}`
  }
  /** Whether an `ask` has another result. */
  protected news(): string {
    return ''
  }

  /** One as it was made. */
  protected abstract blank(): this

  clone(): this {
    const copy = this.blank()
    for (const [name, value] of Object.entries(this)) {
      Object.assign(copy, { [name]: value instanceof Map ? new Map(value) : (value as unknown) })
    }
    return copy
  }

  // For the generators of operations.

  possessionOf(hold: string): Possession {
    return this.possessions.get((this.holds.get(hold) as HoldState).possession) as Possession
  }

  stateOf(hold: string): string | undefined {
    return this.holds.get(hold)?.state
  }

  /** How many holds its owner has, this one included. */
  sizeOf(hold: string): number {
    return this.possessionOf(hold).holds.length
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

  /** Where a caller stands that is inside a hold, by hand or by `withLock`, as well as in its scope. */
  positionOf({ scope }: Caller, target: number, within?: string): Position {
    if (within !== undefined && this.stateOf(within) !== 'live') {
      return { is: 'ended', outcome: this.stateOf(within) === 'lost' ? 'lost' : 'not held' }
    }
    const enclosing = scope === undefined ? [] : this.#liveIn(scope)
    if (within !== undefined) enclosing.unshift(...this.membersOf(within))
    let beside: Position | undefined
    let deadlock: Position | undefined
    for (const hold of enclosing) {
      const possession = this.possessionOf(hold)
      const is = this.nesting(target, possession.target)
      if (is === 'inside') return { is, possession: possession.id }
      if (is === 'beside') beside ??= { is, possession: possession.id }
      if (is === 'deadlock') deadlock ??= { is, possession: possession.id }
    }
    return beside ?? deadlock ?? { is: 'outside' }
  }

  /** The possessions that a client ends when it forces a target. */
  condemnedBy(client: number, _target: number): readonly string[] {
    const held = [...this.possessions.values()].filter((other) => other.client === client && other.holds.length > 0)
    return held.map(({ id }) => id)
  }

  /** Whether it is made of parts that can be lost one by one. */
  protected isDivisible(_possession: Possession): boolean {
    return false
  }

  /** Whether what is left of a possession that lost a part of itself keeps others from a target. */
  protected leavesPartOf(_target: number, _possession: Possession): boolean {
    return false
  }

  /** Whether one of two targets excludes the other. */
  protected overlap(_first: number, _second: number): boolean {
    return true
  }

  /**
   * What else an operation may find because of another one of the same turn: what is left of a lease that was lost, or
   * granted to an attempt in flight of a waiter that was aborted, is released a moment later.
   */
  inPassing(operation: Operation, before: Model): readonly Branch[] {
    const isTry = operation.do === 'take' && operation.how === 'now'
    if (!isTry && operation.do !== 'force') return []
    const isAborted = before.waiters.some(
      ({ take }) => this.fates.get(take.id) === 'aborted' && this.overlap(operation.target, take.target),
    )
    if (isAborted) return [[this.clone(), isTry ? 'refused' : 'true']]
    if (!isTry) return []
    const isLeft = [...this.possessions.values()].some(
      (possession) =>
        possession.isLost &&
        !before.possessions.get(possession.id)?.isLost &&
        this.leavesPartOf(operation.target, possession),
    )
    return isLeft ? [[this.clone(), 'refused']] : []
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
    const { holds } = this.possessionOf(hold)
    return scope !== undefined && holds.some((other) => this.scopes[scope]?.includes(other))
  }

  /** The possession that holds a target alone. */
  holderAt(_target: number): string | undefined {
    return undefined
  }

  // What operations do.

  apply(operation: Operation): readonly Branch[] {
    if (operation.do === 'take') return this.take(operation)
    const next = this.clone()
    switch (operation.do) {
      case 'nest':
        return [[next, next.#nest(operation)]]
      case 'unlock': {
        const outcome = next.unlock(operation.hold)
        // The second call may settle before the first.
        return operation.isRepeated
          ? [
              [next, outcome],
              [next, 'ok'],
            ]
          : [[next, outcome]]
      }
      case 'unlock current':
        return [[next, next.#unlockCurrent(operation.scope, operation.target)]]
      case 'abort':
        return [[next, next.#abort(operation.waiter)]]
      case 'force': {
        const wasHeld = next.force(operation.target)
        if (!wasHeld) {
          // What is left of a hold on several values that another one forced in the same turn is given back a moment later.
          const mayBeLeft = operation.condemned.some((id) => {
            const possession = next.possessions.get(id)
            return possession?.isLost && next.isDivisible(possession)
          })
          return mayBeLeft
            ? [
                [next, 'false'],
                [next, 'true'],
              ]
            : [[next, 'false']]
        }
        for (const id of operation.condemned) next.lose(id)
        // What was granted since was requested before it, and is lost, or after it, and the client does not know yet.
        const after = next.clone()
        for (const id of after.condemnedBy(operation.client, operation.target)) after.lose(id)
        return [
          [next, 'true'],
          [after, 'true'],
        ]
      }
      case 'hand over':
        return [[next, next.#handOver(operation.hold)]]
      case 'adopt':
        return [[next, next.#adopt(operation)]]
      case 'ask': {
        const { counts, lease } = next.holdersOf(operation.target)
        const holders = [...counts].map(([id, count]) => `#${id}×${count}`)
        return [[next, `${holders.join(' ') || 'free'} ${lease} s${next.news()}`]]
      }
      case 'ask hold':
        return [[next, String(next.isHeld(operation.hold))]]
      case 'ask count':
        return [[next, String(next.#countIn(operation.scope, operation.target))]]
      case 'renew':
        for (const possession of next.possessions.values()) {
          if (possession.client !== operation.client || possession.holds.length === 0) continue
          if (!next.renew(possession, next.owedTo(possession))) next.lose(possession.id)
        }
        return [[next, 'ok']]
      case 'expire':
        next.expire(operation.what)
        return [[next, 'ok']]
      case 'intrude':
        return [[next, String(next.intrude(operation.target))]]
    }
  }

  /** The states in which one of the waiters has it, or is one step further. */
  moves(): readonly Model[] {
    const lines = new Set<string>()
    const moved: Model[] = []
    for (const waiter of this.waiters) {
      const line = `${waiter.take.client} ${this.lineOf(waiter.take)}`
      if (lines.has(line)) continue
      lines.add(line)
      moved.push(...this.served(waiter))
    }
    return moved
  }

  /** Everything that distinguishes this state from others. The order of events matters only within a queue. */
  get fingerprint(): string {
    const byLine = new Map<string, string[]>()
    for (const { take } of this.waiters) {
      const line = `${take.client} ${this.lineOf(take)}`
      byLine.set(line, [...(byLine.get(line) ?? []), take.id])
    }
    return JSON.stringify([this, byLine], (name, value: unknown) => {
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

  protected take(take: Take): readonly Branch[] {
    const { position, how } = take
    const branches: Branch[] = []
    const enclosing = 'possession' in position ? (this.possessions.get(position.possession) as Possession) : undefined
    const answer = (outcome: string): void => void branches.push([this.clone(), outcome])
    const takeAs = (owner: string | undefined): void => {
      const next = this.clone()
      branches.push([next, next.#takeAs(take, owner)])
    }
    if (position.is === 'ended') answer(position.outcome)
    else if (position.is === 'outside') takeAs(undefined)
    else if (position.is === 'beside') {
      takeAs(enclosing?.owner)
      // By a sibling that was to be re-entered.
      if (this.#beside(take, enclosing?.owner).some(({ isLost }) => isLost)) answer('lost')
    } else if (position.is === 'deadlock') answer('deadlock')
    else if (enclosing && enclosing.holds.length > 0) {
      const next = this.clone()
      branches.push([next, next.reenter(take, enclosing)])
    } else {
      answer('not held')
      if (enclosing?.isLost) answer('lost')
    }
    // What it was called inside of may have been released in the same turn, before this call.
    if (position.is !== 'ended' && take.within !== undefined && this.stateOf(take.within) !== 'live') answer('not held')
    if (enclosing && take.within === undefined) {
      const now = this.positionOf(take, take.target)
      if (!isDeepStrictEqual(now, position)) branches.push(...this.take({ ...take, position: now }))
    }
    for (const [after, outcome] of branches) if (how === 'wait') after.fates.set(take.id, outcome)
    if (how !== 'abandon' || position.is === 'ended' || position.is === 'deadlock') return branches
    for (const [after, outcome] of branches) if (outcome === 'granted') after.unlock(take.id)
    return branches.map(([after]) => {
      after.forget(take.id)
      return [after, 'aborted']
    })
  }

  /** As a new lease. @param owner  of the lease that it joins */
  #takeAs(take: Take, owner: string | undefined): string {
    const waiter = { take, owner: owner ?? take.id }
    const outcome = this.#isBehind(take) ? undefined : this.#attempt(waiter)
    if (outcome !== undefined) return outcome
    if (take.how !== 'wait') return 'refused'
    this.waiters = [...this.waiters, waiter]
    this.queue(take.id)
    return 'waiting'
  }

  /** What an owner has or had of a target. */
  #beside({ target }: Take, owner: string | undefined): readonly Possession[] {
    return [...this.possessions.values()].filter((other) => other.owner === owner && other.target === target)
  }

  /** One attempt; undefined: it is not free. */
  #attempt({ take, owner }: Waiter): string | undefined {
    const siblings = this.#beside(take, owner)
    const sibling = siblings.find(({ holds }) => holds.length > 0)
    if (sibling) return this.reenter(take, sibling)
    if (siblings.some(({ isLost }) => isLost)) return 'not held'
    const possession = newPossession(take, owner)
    if (!this.acquire(possession, take.lease)) return undefined
    this.begin(take, possession)
    return 'granted'
  }

  #isBehind(own: Take): boolean {
    const line = this.lineOf(own)
    return (
      own.how !== 'now' && this.waiters.some(({ take }) => take.client === own.client && this.lineOf(take) === line)
    )
  }

  /** The states in which a waiter that is first in its queue has it. */
  protected served(waiter: Waiter): readonly Model[] {
    const next = this.clone()
    const outcome = next.#attempt(waiter)
    if (outcome === undefined) return []
    next.endWait(waiter.take.id, outcome)
    return [next]
  }

  protected endWait(waiter: string, fate: string): void {
    this.waiters = this.waiters.filter(({ take }) => take.id !== waiter)
    this.leave(waiter)
    this.fates.set(waiter, fate)
  }

  protected begin(take: Take, possession: Possession): void {
    for (const other of this.possessions.values()) {
      const isOfClient = other.client === possession.client && other.owner !== possession.owner
      if (isOfClient && other.holds.length > 0 && this.excludes(possession.target, other.target)) this.lose(other.id)
    }
    this.possessions.set(possession.id, possession)
    this.addHold(take, possession)
  }

  protected reenter(take: Take, possession: Possession): string {
    if (!this.setCount(possession, take.lease, possession.holds.length + 1)) {
      this.lose(possession.id)
      return 'lost'
    }
    this.addHold(take, possession)
    return 'granted'
  }

  protected addHold({ id, lease, scope, within }: Take, possession: Possession): void {
    this.possessions.set(possession.id, { ...possession, holds: [...possession.holds, id] })
    this.holds.set(id, { possession: possession.id, lease, state: 'live' })
    if (scope === undefined || within !== undefined) return
    this.scopes = this.scopes.map((holds, index) => (index === scope ? [...holds, id] : holds))
  }

  /** The lease that the holds of a possession need. */
  protected owedTo({ holds }: Possession): number {
    return Math.max(...holds.map((id) => (this.holds.get(id) as HoldState).lease))
  }

  unlock(id: string): string {
    const { state } = this.holds.get(id) as HoldState
    if (state !== 'live') return state === 'lost' ? 'lost' : 'ok'
    const possession = this.possessionOf(id)
    const rest = { ...possession, holds: possession.holds.filter((other) => other !== id) }
    const wasThere =
      rest.holds.length > 0 ? this.setCount(rest, this.owedTo(rest), rest.holds.length) : this.free(possession)
    if (!wasThere) {
      this.lose(possession.id)
      return 'lost'
    }
    this.possessions.set(rest.id, rest)
    this.#end(id, 'released')
    return 'ok'
  }

  /** Its client knows that it is lost. What it had in another of the states that look alike, it may not have in this one. */
  protected lose(id: string): void {
    const possession = this.possessions.get(id)
    if (!possession || possession.holds.length === 0) return
    for (const hold of possession.holds) this.#end(hold, 'lost')
    this.possessions.set(id, { ...possession, holds: [], isLost: true })
    this.abandon(possession)
  }

  #end(id: string, state: 'released' | 'lost'): void {
    this.holds.set(id, { ...(this.holds.get(id) as HoldState), state })
  }

  isHeld(id: string): boolean {
    if (this.stateOf(id) !== 'live') return false
    const possession = this.possessionOf(id)
    if (this.countOf(possession) > 0) return true
    this.lose(possession.id)
    return false
  }

  #liveIn(scope: number): string[] {
    return (this.scopes[scope] ?? []).filter((id) => this.stateOf(id) === 'live').reverse()
  }

  /** What a scope has of a target. */
  #current(scope: number, target: number): Possession | undefined {
    const hold = this.#liveIn(scope).find((id) => this.isSame(target, this.possessionOf(id).target))
    return hold === undefined ? undefined : this.possessionOf(hold)
  }

  #unlockCurrent(scope: number, target: number): string {
    const latest = this.#current(scope, target)?.holds.at(-1)
    return latest === undefined ? 'not held' : this.unlock(latest)
  }

  #countIn(scope: number, target: number): number {
    const possession = this.#current(scope, target)
    if (!possession) return 0
    const count = this.countOf(possession)
    if (count === 0) this.lose(possession.id)
    return count
  }

  #abort(waiter: string): string {
    if (this.fates.get(waiter) !== 'waiting') return 'too late'
    this.endWait(waiter, 'aborted')
    return 'ok'
  }

  #handOver(id: string): string {
    const { state } = this.holds.get(id) as HoldState
    if (state !== 'live') return state === 'lost' ? 'lost' : 'not held'
    const possession = this.possessionOf(id)
    for (const hold of possession.holds) this.#end(hold, 'released')
    this.possessions.set(possession.id, { ...possession, holds: [] })
    return 'ok'
  }

  #adopt({ id, client, target, from, isThere, lease }: Operation & { do: 'adopt' }): string {
    if (!isThere) return 'not held'
    const take: Take = {
      do: 'take',
      id,
      how: 'now',
      client,
      target,
      lease,
      isRenewed: false,
      position: { is: 'outside' },
    }
    const possession = newPossession(take, id)
    this.adoptAs(this.possessions.get(from) as Possession, possession, lease)
    this.begin(take, possession)
    return 'granted'
  }

  /** One inside the other, and both released; the result has the hold counts seen inside. */
  #nest({ id, target, inner, lease, position, client, scope }: Operation & { do: 'nest' }): string {
    const [outerId, innerId] = [`${id} outer`, `${id} inner`]
    const terms = { do: 'take', how: 'now', client, lease, isRenewed: false } as const
    const outer = this.#takeNow({ ...terms, id: outerId, target, position })
    if (outer !== 'granted') return outer
    const counts = [this.#countAt(outerId)]
    const nested = this.#takeNow({
      ...terms,
      id: innerId,
      target: inner,
      position: this.positionOf({ client, scope }, inner, outerId),
    })
    if (nested === 'granted') {
      counts.push(this.#countAt(innerId))
      this.unlock(innerId)
    }
    this.unlock(outerId)
    this.forget(outerId)
    this.forget(innerId)
    return nested === 'granted' ? counts.join(' ') : nested === 'refused' ? `${counts.join(' ')} refused` : nested
  }

  #takeNow(take: Take): string {
    const [[after, outcome]] = this.take(take) as readonly [Branch]
    Object.assign(this, after)
    return outcome
  }

  #countAt(hold: string): number {
    return this.sizeOf(hold)
  }

  /** A hold that does not exist. */
  protected forget(hold: string): void {
    this.holds.delete(hold)
  }
}

function newPossession({ id, client, target }: Take, owner: string): Possession {
  return { id, client, owner, target, holds: [], isLost: false }
}
