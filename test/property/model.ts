import { isDeepStrictEqual } from 'node:util'
import { ModelState } from './model-state.js'
import { type HoldState, isTry, type Lease, type Operation, type Take, type Waiter } from './operations.js'

/** A state that an operation leads to, and the result of the call. */
export type Branch = readonly [after: Model, outcome: string]

/**
 * What locks promise, without Redis and without time: the holders, the waiters and the losses. This class knows what
 * clients know; the kinds know what Redis knows.
 */
export abstract class Model extends ModelState {
  /**
   * What else an operation may find because of another one of the same turn: what is left of a lease that was lost, or
   * granted to an attempt in flight of a waiter that was aborted, is released a moment later.
   */
  inPassing(operation: Operation, before: Model): readonly Branch[] {
    const isTry = operation.do === 'take' && operation.how === 'now'
    const isForce = operation.do === 'force'
    const isFreeing = isForce || operation.do === 'expire' || operation.do === 'unlock'
    const late: Branch[] = isFreeing ? this.#lateGrants(operation, before) : []
    // Whom it saw has left by then, and it ends nobody else. Of a holder of some values it is not known whether it had left.
    if (isForce) late.push([this.clone(), 'false'], [this.clone(), 'true'])
    if (!isTry && !isForce) return late
    const isAborted = this.#abortedSince(before).some(({ take }) => this.overlap(operation.target, take.target))
    if (isAborted) return [...late, [this.clone(), isTry ? 'refused' : 'true']]
    const isLeft = [...this.leases.values()].some(
      (lease) => lease.isLost && !before.leases.get(lease.id)?.isLost && this.leavesPartOf(operation.target, lease),
    )
    if (!isLeft) return late
    if (isTry) return [[this.clone(), 'refused']]
    return [...late, ...this.apply(operation).map(([after]): Branch => [after, 'true'])]
  }

  /**
   * After an operation that frees locks: an attempt in flight of an aborted waiter was granted, so that its client knows
   * what it has lost, now or unnoticed in an earlier turn, and was released.
   */
  #lateGrants(operation: Operation, before: Model): Branch[] {
    const late: Branch[] = []
    for (const [state, outcome] of this.apply(operation)) {
      for (const waiter of this.#abortedSince(before)) {
        for (const after of state.served(waiter)) {
          if (after.fates.get(waiter.take.id) !== 'granted') continue
          after.unlock(waiter.take.id)
          after.forget(waiter.take.id)
          after.fates.set(waiter.take.id, 'aborted')
          late.push([after, outcome])
        }
      }
    }
    return late
  }

  #abortedSince(before: Model): readonly Waiter[] {
    return before.waiters.filter(({ take }) => this.fates.get(take.id) === 'aborted')
  }

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
        if (!wasHeld) return [[next, 'false']]
        for (const id of operation.forced) next.lose(id)
        // What was granted since was requested before it, and is lost, or after it, and the client does not know yet.
        const after = next.clone()
        for (const id of after.forcedBy(operation.client, operation.target)) after.lose(id)
        return [
          [next, 'true'],
          [after, 'true'],
        ]
      }
      case 'hand over':
        return [[next, next.#handOver(operation.hold)]]
      case 'adopt':
        return [[next, next.#adopt(operation)]]
      case 'inspect': {
        const { counts, leaseS } = next.holdersOf(operation.target)
        const holders = [...counts].map(([id, count]) => `#${id}×${count}`)
        return [[next, `${holders.join(' ') || 'free'} ${leaseS} s${next.inspectionNote()}`]]
      }
      case 'inspect hold':
        return [[next, String(next.isHeld(operation.hold))]]
      case 'inspect count':
        return [[next, String(next.#countIn(operation.scope, operation.target))]]
      case 'renew':
        for (const lease of next.leases.values()) {
          if (lease.client !== operation.client || lease.holds.length === 0) continue
          if (!next.renew(lease, next.owedTo(lease))) next.lose(lease.id)
        }
        return [[next, 'ok']]
      case 'expire':
        next.expire(operation.what)
        return [[next, 'ok']]
      case 'intrude':
        return [[next, String(next.intrude(operation.target))]]
    }
  }

  /** The states in which one of the waiters has acquired it, or is one step further. */
  moves(): readonly Model[] {
    const queues = new Set<string>()
    const moved: Model[] = []
    for (const waiter of this.waiters) {
      const queue = `${waiter.take.client} ${this.waitQueueOf(waiter.take)}`
      if (queues.has(queue)) continue
      queues.add(queue)
      moved.push(...this.served(waiter))
    }
    return moved
  }

  protected take(take: Take): readonly Branch[] {
    const { position, how } = take
    const branches: Branch[] = []
    const enclosing = 'lease' in position ? (this.leases.get(position.lease) as Lease) : undefined
    const end = (outcome: string): void => void branches.push([this.clone(), outcome])
    const takeAs = (owner: string | undefined): void => {
      const next = this.clone()
      branches.push([next, next.#takeAs(take, owner)])
    }
    if (position.is === 'ended') end(position.outcome)
    else if (position.is === 'outside') takeAs(undefined)
    else if (position.is === 'beside') {
      takeAs(enclosing?.owner)
      // The sibling was to be re-entered.
      if (this.#beside(take, enclosing?.owner).some(({ isLost }) => isLost)) end('lost')
    } else if (position.is === 'deadlock') end(isTry(take) ? 'refused' : 'deadlock')
    else if (enclosing && enclosing.holds.length > 0) {
      const next = this.clone()
      branches.push([next, next.reenter(take, enclosing)])
    } else {
      end('not held')
      if (enclosing?.isLost) end('lost')
    }
    // What it was called inside of may have been released in the same turn, before this call.
    if (position.is !== 'ended' && take.within !== undefined && this.stateOf(take.within) !== 'live') end('not held')
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

  /** Takes a new lease. @param owner  of the lease that it joins */
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
  #beside({ target }: Take, owner: string | undefined): readonly Lease[] {
    return [...this.leases.values()].filter((other) => other.owner === owner && other.target === target)
  }

  /** @returns undefined if it is not free */
  #attempt({ take, owner }: Waiter): string | undefined {
    const siblings = this.#beside(take, owner)
    const sibling = siblings.find(({ holds }) => holds.length > 0)
    if (sibling) return this.reenter(take, sibling)
    if (siblings.some(({ isLost }) => isLost)) return 'not held'
    const lease = newLease(take, owner)
    if (!this.acquire(lease, take.leaseS)) return undefined
    this.begin(take, lease)
    return 'granted'
  }

  #isBehind(own: Take): boolean {
    const queue = this.waitQueueOf(own)
    return (
      own.how !== 'now' &&
      this.waiters.some(({ take }) => take.client === own.client && this.waitQueueOf(take) === queue)
    )
  }

  /** The states in which a waiter that is first in its queue has acquired it. */
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

  protected begin(take: Take, lease: Lease): void {
    for (const other of this.leases.values()) {
      const isOfClient = other.client === lease.client && other.owner !== lease.owner
      if (isOfClient && other.holds.length > 0 && this.excludes(lease.target, other.target)) this.lose(other.id)
    }
    this.leases.set(lease.id, lease)
    this.addHold(take, lease)
  }

  protected reenter(take: Take, lease: Lease): string {
    if (!this.setCount(lease, take.leaseS, lease.holds.length + 1)) {
      this.lose(lease.id)
      return 'lost'
    }
    this.addHold(take, lease)
    return 'granted'
  }

  protected addHold({ id, leaseS, scope, within }: Take, lease: Lease): void {
    this.leases.set(lease.id, { ...lease, holds: [...lease.holds, id] })
    this.holds.set(id, { lease: lease.id, leaseS, state: 'live' })
    if (scope === undefined || within !== undefined) return
    this.scopes = this.scopes.map((holds, index) => (index === scope ? [...holds, id] : holds))
  }

  /** The longest lease time that its holds need, s. */
  protected owedTo({ holds }: Lease): number {
    return Math.max(...holds.map((id) => (this.holds.get(id) as HoldState).leaseS))
  }

  unlock(id: string): string {
    const hold = this.holds.get(id) as HoldState
    const { state, leaseS } = hold
    this.holds.set(id, { ...hold, isUnlocked: true })
    if (state !== 'live') return state === 'lost' ? 'lost' : 'ok'
    const lease = this.leaseOf(id)
    const rest = { ...lease, holds: lease.holds.filter((other) => other !== id) }
    for (const other of rest.holds) {
      const left = this.holds.get(other) as HoldState
      this.holds.set(other, { ...left, leaseS: Math.max(left.leaseS, leaseS) })
    }
    const wasThere =
      rest.holds.length > 0 ? this.setCount(rest, this.owedTo(rest), rest.holds.length) : this.free(lease)
    if (!wasThere) {
      this.lose(lease.id)
      return 'lost'
    }
    this.leases.set(rest.id, rest)
    this.#end(id, 'released')
    return 'ok'
  }

  /** Its client has noticed the loss. Of several states that look alike, it may have been held in another one only. */
  protected lose(id: string): void {
    const lease = this.leases.get(id)
    if (!lease || lease.holds.length === 0) return
    for (const hold of lease.holds) this.#end(hold, 'lost')
    this.leases.set(id, { ...lease, holds: [], isLost: true })
    this.abandon(lease)
  }

  #end(id: string, state: 'released' | 'lost'): void {
    this.holds.set(id, { ...(this.holds.get(id) as HoldState), state })
  }

  isHeld(id: string): boolean {
    if (this.stateOf(id) !== 'live') return false
    const lease = this.leaseOf(id)
    if (this.countOf(lease) > 0) return true
    this.lose(lease.id)
    return false
  }

  /** What a scope has of a target. */
  #current(scope: number, target: number): Lease | undefined {
    const hold = this.liveIn(scope).find((id) => this.isSame(target, this.leaseOf(id).target))
    return hold === undefined ? undefined : this.leaseOf(hold)
  }

  /** A hold that was lost is found, too, until it has been released. */
  #unlockCurrent(scope: number, target: number): string {
    const innermost = (this.scopes[scope] ?? []).findLast(
      (id) => this.isOpen(id) && this.isSame(target, this.leaseOf(id).target),
    )
    if (innermost === undefined) return 'not held'
    return this.unlock(
      this.stateOf(innermost) === 'live' ? (this.leaseOf(innermost).holds.at(-1) as string) : innermost,
    )
  }

  #countIn(scope: number, target: number): number {
    const lease = this.#current(scope, target)
    if (!lease) return 0
    const count = this.countOf(lease)
    if (count === 0) this.lose(lease.id)
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
    const lease = this.leaseOf(id)
    for (const hold of lease.holds) this.#end(hold, 'released')
    this.leases.set(lease.id, { ...lease, holds: [] })
    return 'ok'
  }

  #adopt({ id, client, target, from, isThere, leaseS }: Operation & { do: 'adopt' }): string {
    if (!isThere) return 'not held'
    const take: Take = {
      do: 'take',
      id,
      how: 'now',
      client,
      target,
      leaseS,
      isRenewed: false,
      position: { is: 'outside' },
    }
    const lease = newLease(take, id)
    this.adoptAs(this.leases.get(from) as Lease, lease, leaseS)
    this.begin(take, lease)
    return 'granted'
  }

  /** One inside the other, and both released; the result has the hold counts seen inside. */
  #nest({ id, target, inner, leaseS, position, client, scope }: Operation & { do: 'nest' }): string {
    const [outerId, innerId] = [`${id} outer`, `${id} inner`]
    const terms = { do: 'take', how: 'now', client, leaseS, isRenewed: false } as const
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

  /** Removes a hold as if it had never existed. */
  protected forget(hold: string): void {
    this.holds.delete(hold)
  }
}

function newLease({ id, client, target }: Take, owner: string): Lease {
  return { id, client, owner, target, holds: [], isLost: false }
}
