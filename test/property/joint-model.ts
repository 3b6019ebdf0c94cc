import { CellsModel } from './cells-model.js'
import type { Branch, Model } from './model.js'
import type { Caller, HoldState, Operation, Position, Spell, Take, Waiter } from './operations.js'

interface Joint {
  readonly members: readonly string[]
  readonly needed: number
}

/** The progress of a waiter for several locks. */
interface Round {
  /** By cell, the members that are taken. */
  readonly taken: ReadonlyMap<number, string>
  /** The cell in whose queue it is; undefined: it is about to request all that it still needs. */
  readonly at?: number | undefined
}

const FIRST_ROUND: Round = { taken: new Map() }

/** Locks that can be taken one by one, and several as one. */
export class JointModel extends CellsModel {
  joints = new Map<string, Joint>()
  /** What the waiters for several locks have already, and in which queue they are. */
  rounds = new Map<string, Round>()

  protected override blank(): this {
    return new JointModel(this.traits, this.scopes.length) as this
  }

  protected override waitQueueOf({ id, client, target, position }: Take): string {
    const { cells, needed } = this.target(target)
    if (needed === undefined) return cells.toSorted().join()
    if (this.#isRed(target)) return 'red'
    const cell = this.#roundOf(id).at
    if (cell === undefined) return `${id} in no queue`
    return this.#isInside({ client, position }, cell) ? `${id} inside` : String(cell)
  }

  #roundOf(waiter: string): Round {
    return this.rounds.get(waiter) ?? FIRST_ROUND
  }

  /** Whether a caller for several locks is inside a hold on one of them. */
  #isInside({ client, position }: Pick<Take, 'client' | 'position'>, cell: number): boolean {
    const { scope, enclosing } = position as Position & { is: 'outside' }
    return this.positionOf({ client, scope }, cell, enclosing).is !== 'outside'
  }

  override isMember(hold: string): boolean {
    return hold.includes('/')
  }

  protected override membersOf(hold: string): readonly string[] {
    return this.joints.get(hold)?.members ?? super.membersOf(hold)
  }

  protected override isHidden(hold: string): boolean {
    return this.isMember(hold) && !this.joints.has(hold.split('/')[0] as string)
  }

  override isJoint(target: number): boolean {
    return this.target(target).needed !== undefined
  }

  override isJointHold(hold: string): boolean {
    return this.joints.has(hold)
  }

  override isPolled(target: number): boolean {
    return this.#isRed(target)
  }

  override sizeOf(hold: string): number {
    return this.joints.has(hold) ? 1 : super.sizeOf(hold)
  }

  protected override remark(hold: string, spell: Spell): string {
    return this.joints.has(hold) ? '' : super.remark(hold, spell)
  }

  override apply(operation: Operation): readonly Branch[] {
    const branches = super.apply(operation) as readonly [JointModel, string][]
    for (const [after] of branches) after.#noticeLosses()
    return branches
  }

  protected override lose(id: string): void {
    super.lose(id)
    this.#noticeLosses()
  }

  #lostMoreThan(before: JointModel): boolean {
    return [...this.leases.values()].some(({ id, isLost }) => isLost && before.leases.get(id)?.isLost === false)
  }

  #noticeLosses(): void {
    for (const [id, { members, needed }] of this.joints) {
      const hold = this.holds.get(id) as HoldState
      const live = members.filter((member) => this.stateOf(member) === 'live').length
      if (hold.state === 'live' && live < needed) this.holds.set(id, { ...hold, state: 'lost' })
    }
  }

  override positionOf(caller: Caller, target: number, within?: string) {
    return this.isJoint(target)
      ? ({ is: 'outside', scope: caller.scope, enclosing: within } as const)
      : super.positionOf(caller, target, within)
  }

  override take(take: Take): readonly Branch[] {
    if (!this.isJoint(take.target)) return super.take(take)
    const next = this.clone()
    if (take.how !== 'wait') return next.#takeRounds(take)
    next.waiters = [...next.waiters, { take, owner: take.id }]
    next.fates.set(take.id, 'waiting')
    return [[next, 'waiting']]
  }

  /** Where a lock turns out to be lost that was to be re-entered, there is another round if time allows. */
  #takeRounds(take: Take): Branch[] {
    const before = this.clone()
    const outcome = this.#takeAll(take)
    if (this.#isRed(take.target) && take.how === 'soon' && outcome === 'granted')
      return [[this, outcome], ...before.#runOutOfTime(take)]
    // It waits first for a lock for which other callers of its client wait, and then has touched none of the others.
    const isBehind = take.how === 'soon' && before.#queuesAround(take).length > 0
    if (outcome !== 'lost')
      return isBehind
        ? [
            [this, outcome],
            [before, 'refused'],
          ]
        : [[this, outcome]]
    return [[this, 'refused'], ...(take.how === 'soon' ? this.clone().#takeRounds(take) : [])]
  }

  /**
   * The wait time may be over before a required server replies. What any of the servers grants, even late, is released, and
   * shows the client what it has lost there.
   */
  #runOutOfTime(take: Take): Branch[] {
    const states = [this.clone()]
    for (const cell of this.target(take.target).cells) {
      for (const state of [...states]) {
        const next = state.clone()
        if (next.#takeOne(take, cell) === 'granted') next.#releaseAll([memberOf(take, this.traits.cells[cell])])
        states.push(next)
      }
    }
    return states.map((state) => [state, 'refused'])
  }

  /** Takes all that are needed at once, or nothing. */
  #takeAll(take: Take): string {
    const { cells, needed = 0 } = this.target(take.target)
    const isRed = this.#isRed(take.target)
    const taken: string[] = []
    let outcome = 'refused'
    for (const [index, cell] of cells.toSorted().entries()) {
      const rest = cells.toSorted().slice(index)
      // One command takes what is left, all or nothing, unless something in it is re-entered.
      const isOneCommand = !isRed && rest.length > 1 && !rest.some((at) => this.#isInside(take, at))
      outcome = isOneCommand && rest.some((at) => this.cells[at]) ? 'refused' : this.#takeOne(take, cell)
      if (outcome === 'granted') taken.push(memberOf(take, this.traits.cells[cell]))
      else if (!isRed) break
    }
    if (taken.length >= needed) return this.#join(take, taken)
    this.#releaseAll(taken)
    return isRed ? 'refused' : outcome
  }

  #takeOne(take: Take, cell: number): string {
    const { client, how, position } = take
    const { scope, enclosing } = position as Position & { is: 'outside' }
    const [[after, outcome]] = super.take({
      ...take,
      id: memberOf(take, this.traits.cells[cell]),
      target: cell,
      // A red lock requests it from all servers at once, without a queue.
      how: how === 'wait' || this.#isRed(take.target) ? 'now' : how,
      scope: undefined,
      position: this.positionOf({ client, scope }, cell, enclosing),
    }) as readonly [Branch]
    Object.assign(this, after)
    return outcome
  }

  #join({ id, target, leaseS, scope }: Take, members: readonly string[]): string {
    for (const member of members) {
      this.holds.set(member, { ...(this.holds.get(member) as HoldState), leaseS })
      this.renew(this.leaseOf(member), leaseS)
    }
    this.joints.set(id, { members, needed: this.target(target).needed ?? 0 })
    this.holds.set(id, { lease: this.leaseOf(members[0] as string).id, leaseS, state: 'live' })
    this.scopes = this.scopes.map((holds, index) => (index === scope ? [...holds, ...members] : holds))
    return 'granted'
  }

  #releaseAll(members: readonly string[]): void {
    for (const member of members) {
      this.unlock(member)
      this.forget(member)
      this.leases.delete(member) // but not what was held before, and only held once more
    }
  }

  /** In addition, a caller that has some of several locks and waits for another one soon releases them. */
  override moves(): readonly Model[] {
    const released: Model[] = []
    for (const { take } of this.waiters) {
      const { taken, at } = this.#roundOf(take.id)
      if (taken.size === 0 || at === undefined) continue
      const next = this.clone()
      next.#releaseAll([...taken.values()])
      next.rounds.set(take.id, { taken: new Map(), at })
      released.push(next)
    }
    return [...super.moves(), ...released]
  }

  protected override served(waiter: Waiter): readonly Model[] {
    const { take } = waiter
    if (!this.isJoint(take.target)) return super.served(waiter)
    const next = this.clone()
    if (this.#isRed(take.target)) {
      // A round that fails still makes the client notice what it has lost.
      if (next.#takeAll(take) !== 'granted') return next.#lostMoreThan(this) ? [next] : []
      next.endWait(take.id, 'granted')
      return [next]
    }
    const { taken, at } = this.#roundOf(take.id)
    if (at === undefined) return this.#request(waiter, taken)
    const outcome = next.#takeOne(take, at)
    if (outcome === 'refused') return []
    if (outcome === 'granted') next.#proceed(take, new Map(taken).set(at, memberOf(take, this.traits.cells[at])))
    else {
      // It was to be re-entered, and is lost: now it is waited for.
      next.#noticeLosses()
      next.#enqueue(waiter, { taken, at })
    }
    return [next]
  }

  /** The locks of a joint one that its caller is not inside of, and for which others of its client wait. */
  #queuesAround(take: Take): readonly number[] {
    const { cells } = this.target(take.target)
    return cells.filter((cell) => !this.#isInside(take, cell) && this.#isWaitedFor(take, cell))
  }

  #isWaitedFor({ client }: Take, cell: number): boolean {
    return this.waiters.some(({ take }) => take.client === client && this.waitQueueOf(take) === String(cell))
  }

  /** Moves a waiter to the end of a queue. */
  #enqueue(waiter: Waiter, round: Round): void {
    this.rounds.set(waiter.take.id, round)
    this.waiters = [...this.waiters.filter((other) => other !== waiter), waiter]
  }

  /** A caller requests the missing locks: all in one command, unless some of them are held already. */
  #request(waiter: Waiter, taken: ReadonlyMap<number, string>): readonly Model[] {
    const { take } = waiter
    const { cells } = this.target(take.target)
    const rest = cells.toSorted().filter((cell) => !taken.has(cell))
    const queues = rest.filter((cell) => this.#isWaitedFor(take, cell))
    if (rest.length < 2 || rest.some((cell) => this.#isInside(take, cell))) {
      if (queues.length === 0) queues.push(rest[0] as number)
    } else {
      const busy = rest.filter((cell) => this.cells[cell])
      if (queues.length === 0 && busy.length === 0) return [this.#takeRest(take, taken, rest)]
      queues.push(...busy)
    }
    return queues.map((at) => {
      const next = this.clone()
      next.#enqueue(waiter, { taken, at })
      return next
    })
  }

  #takeRest(take: Take, taken: ReadonlyMap<number, string>, rest: readonly number[]): Model {
    const next = this.clone()
    const members = new Map(taken)
    for (const cell of rest) {
      next.#takeOne(take, cell)
      members.set(cell, memberOf(take, this.traits.cells[cell]))
    }
    next.#proceed(take, members)
    return next
  }

  #proceed(take: Take, taken: ReadonlyMap<number, string>): void {
    const { cells } = this.target(take.target)
    if (taken.size < cells.length) {
      this.rounds.set(take.id, { taken })
      return
    }
    this.#join(
      take,
      cells.toSorted().map((cell) => taken.get(cell) as string),
    )
    this.rounds.delete(take.id)
    this.endWait(take.id, 'granted')
  }

  protected override endWait(waiter: string, fate: string): void {
    this.#releaseAll([...this.#roundOf(waiter).taken.values()])
    this.rounds.delete(waiter)
    super.endWait(waiter, fate)
  }

  override unlock(id: string): string {
    const joint = this.joints.get(id)
    if (!joint) return super.unlock(id)
    const hold = this.holds.get(id) as HoldState
    if (hold.state === 'released') return 'ok'
    const lost = joint.members.filter((member) => this.unlock(member) === 'lost').length
    const isLost = hold.state === 'lost' || (lost > 0 && joint.members.length - lost < joint.needed)
    this.holds.set(id, { ...hold, state: isLost ? 'lost' : 'released' })
    return isLost ? 'lost' : 'ok'
  }

  protected override forget(hold: string): void {
    for (const member of this.joints.get(hold)?.members ?? []) super.forget(member)
    this.joints.delete(hold)
    super.forget(hold)
  }

  override isHeld(id: string): boolean {
    const joint = this.joints.get(id)
    if (!joint || this.stateOf(id) !== 'live') return super.isHeld(id)
    return joint.members.filter((member) => this.isHeld(member)).length >= joint.needed
  }

  #isRed(target: number): boolean {
    const { cells, needed } = this.target(target)
    return needed !== undefined && needed < cells.length
  }
}

function memberOf({ id }: Take, cell: string | undefined): string {
  return `${id}/${cell}`
}
