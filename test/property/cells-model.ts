import {
  type Branch,
  type Caller,
  type HoldState,
  LEASES,
  Model,
  type Nesting,
  type Operation,
  type Place,
  type Possession,
  type Spell,
  type Take,
  type Waiter,
} from './model.js'

/** Somebody who is not one of our clients. */
export const STRANGER = 'stranger'

/** What can be asked for: some cells, which are locks or the values of a group. */
export interface CellTarget {
  readonly title: string
  /** In the order in which they are taken. */
  readonly cells: readonly number[]
  /** Several locks as one: how many of them are needed. */
  readonly needed?: number
}

/** How exclusive locks differ. */
export interface CellTraits {
  /** Names of locks, or values. */
  readonly cells: readonly string[]
  /** If there are any on several locks, the first ones are on one each. */
  readonly targets: readonly CellTarget[]
  /** How Redis has it: a hash or a string for each cell, or one hash for all of them. */
  readonly form: 'hash' | 'string' | 'group'
  readonly isNonReentrant?: boolean
  readonly isFair?: boolean
  readonly isFenced?: boolean
}

interface Cell {
  readonly holder: string
  readonly count: number
  readonly lease: number
}

interface Joint {
  readonly members: readonly string[]
  readonly needed: number
}

/** How far somebody is who waits for several locks. */
interface Round {
  /** By cell, the members that are taken. */
  readonly taken: ReadonlyMap<number, string>
  /** The cell in whose line it stands; undefined: it is about to ask for all that it still needs. */
  readonly at?: number | undefined
}

const FIRST_ROUND: Round = { taken: new Map() }

const EVERYTHING = 'everything'

/** Locks that one owner can hold at a time, values of a group, and several locks as one. */
export class CellsModel extends Model {
  readonly traits: CellTraits
  cells: readonly (Cell | undefined)[]
  /** Who waits, in Redis' order. */
  queued: readonly string[] = []
  /** The possessions that got a fencing token, in that order. */
  tokens: readonly string[] = []
  joints = new Map<string, Joint>()
  /** What those who wait for several locks have already, and in which line they stand. */
  rounds = new Map<string, Round>()

  constructor(traits: CellTraits, scopes: number) {
    super(scopes)
    this.traits = traits
    this.cells = traits.cells.map(() => undefined)
  }

  protected override blank(): this {
    return new CellsModel(this.traits, this.scopes.length) as this
  }

  get targets(): readonly string[] {
    return this.traits.targets.map(({ title }) => title)
  }

  get expirable(): readonly string[] {
    const held = this.traits.cells.filter((_, index) => this.cells[index])
    return held.length > 1 ? [...held, EVERYTHING] : held
  }

  protected acquire(possession: Possession, lease: number): boolean {
    const { cells } = this.#target(possession.target)
    const [first = possession.id] = this.queued
    if (first !== possession.id || cells.some((cell) => this.cells[cell])) return false
    this.#set(cells, { holder: possession.id, count: 1, lease })
    if (this.traits.isFenced) this.tokens = [...this.tokens, possession.id]
    return true
  }

  protected setCount(possession: Possession, lease: number, count: number): boolean {
    const { cells } = this.#target(possession.target)
    if (!this.#hasAll(possession)) return false
    for (const cell of cells) {
      this.#set([cell], { holder: possession.id, count, lease: Math.max(lease, this.cells[cell]?.lease ?? 0) })
    }
    return true
  }

  protected renew(possession: Possession, lease: number): boolean {
    return this.setCount(possession, lease, this.cells[this.#target(possession.target).cells[0] as number]?.count ?? 0)
  }

  protected free(possession: Possession): boolean {
    const hadAll = this.#hasAll(possession)
    this.abandon(possession)
    return hadAll
  }

  protected override abandon(possession: Possession): void {
    const mine = this.#target(possession.target).cells.filter((cell) => this.cells[cell]?.holder === possession.id)
    this.#set(mine, undefined)
  }

  countOf(possession: Possession): number {
    return this.#hasAll(possession) ? possession.holds.length : 0
  }

  protected force(target: number): boolean {
    const { cells } = this.#target(target)
    const wasHeld = cells.some((cell) => this.cells[cell])
    this.#set(cells, undefined)
    return wasHeld
  }

  protected expire(what: string): void {
    const isMeant = (_: string, index: number): boolean => what === EVERYTHING || this.traits.cells[index] === what
    this.#set(
      [...this.traits.cells.keys()].filter((index) => isMeant('', index)),
      undefined,
    )
  }

  protected override intrude(target: number): boolean {
    const { cells } = this.#target(target)
    if (this.queued.length > 0 || cells.some((cell) => this.cells[cell])) return false
    this.#set(cells, { holder: STRANGER, count: 1, lease: LEASES[1] })
    return true
  }

  protected override adoptAs(_from: Possession, to: Possession, lease: number): void {
    this.#set(this.#target(to.target).cells, { holder: to.id, count: 1, lease })
    if (this.traits.isFenced) this.tokens = [...this.tokens, to.id]
  }

  protected holdersOf(target: number): { counts: ReadonlyMap<string, number>; lease: number } {
    const counts = new Map<string, number>()
    let longest = 0
    for (const index of this.#target(target).cells) {
      const cell = this.cells[index]
      if (!cell) continue
      counts.set(cell.holder, this.traits.form === 'string' ? 1 : cell.count)
      longest = Math.max(longest, cell.lease)
    }
    return { counts, lease: longest }
  }

  protected override news(): string {
    return this.traits.isFenced ? `, token ${this.tokens.length}` : ''
  }

  protected keys(spell: Spell): Record<string, string> {
    const { form, cells: names, isFenced } = this.traits
    const keys: Record<string, string> = {}
    const held: string[] = []
    for (const [index, cell] of this.cells.entries()) {
      const name = names[index] as string
      if (!cell) continue
      if (form === 'group') held.push(`${name}=${spell(cell.holder)}×${cell.count} ${cell.lease} s`)
      else if (form === 'string') keys[name] = `string ${spell(cell.holder)}, ${cell.lease} s`
      else keys[name] = `hash ${spell(cell.holder)}=${cell.count}, ${cell.lease} s`
    }
    if (held.length > 0) keys['group'] = held.join(' ')
    if (this.queued.length > 0) keys['queue'] = this.queued.map(spell).join(' ')
    if (isFenced && this.tokens.length > 0) keys['token'] = String(this.tokens.length)
    return keys
  }

  protected override isSame(one: number, other: number): boolean {
    const [first, second] = [this.#target(one).cells, this.#target(other).cells]
    return first.length === second.length && first.every((cell) => second.includes(cell))
  }

  protected nesting(target: number, held: number): Nesting {
    const [asked, outer] = [this.#target(target).cells, this.#target(held).cells]
    if (!asked.some((cell) => outer.includes(cell))) return 'apart'
    return this.isSame(target, held) && !this.traits.isNonReentrant ? 'inside' : 'deadlock'
  }

  protected lineOf({ id, client, target, place }: Take): string {
    const { cells, needed } = this.#target(target)
    if (needed === undefined) return cells.toSorted().join()
    if (this.#isRed(target)) return 'red'
    const cell = this.#roundOf(id).at
    if (cell === undefined) return `${id} in no line`
    return this.#isInside({ client, place }, cell) ? `${id} inside` : String(cell)
  }

  #roundOf(waiter: string): Round {
    return this.rounds.get(waiter) ?? FIRST_ROUND
  }

  /** Whether somebody who asks for several locks is inside a hold on one of them. */
  #isInside({ client, place }: Pick<Take, 'client' | 'place'>, cell: number): boolean {
    const { scope, enclosing } = place as Place & { is: 'outside' }
    return this.placeOf({ client, scope }, cell, enclosing).is !== 'outside'
  }

  protected override queue(waiter: string): void {
    if (this.traits.isFair) this.queued = [...this.queued, waiter]
  }

  protected override leave(waiter: string): void {
    this.queued = this.queued.filter((other) => other !== waiter)
  }

  override condemnedBy(client: number, target: number): readonly string[] {
    const { cells } = this.#target(target)
    const isMeant = (held: number): boolean => this.#target(held).cells.some((cell) => cells.includes(cell))
    return super.condemnedBy(client, target).filter((id) => isMeant((this.possessions.get(id) as Possession).target))
  }

  // Holds on several locks.

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
    return this.#target(target).needed !== undefined
  }

  override isJointHold(hold: string): boolean {
    return this.joints.has(hold)
  }

  override isPolled(target: number): boolean {
    return this.#isRed(target)
  }

  override holderAt(target: number): string | undefined {
    return this.cells[this.#target(target).cells[0] as number]?.holder
  }

  override sizeOf(hold: string): number {
    return this.joints.has(hold) ? 1 : super.sizeOf(hold)
  }

  protected override remark(hold: string, spell: Spell): string {
    if (this.joints.has(hold)) return ''
    const { id } = this.possessionOf(hold)
    const token = this.tokens.indexOf(id) + 1
    return super.remark(hold, spell) + (token > 0 ? `, token ${token}` : '')
  }

  override apply(operation: Operation): readonly Branch[] {
    const branches = super.apply(operation) as readonly [CellsModel, string][]
    for (const [after] of branches) after.#noticeLosses()
    if (operation.do !== 'abort' || !this.traits.isFenced) return branches
    // What an aborted wait still brings is given back, and its token is gone.
    const spent = branches.map(([after, outcome]) => [after.clone(), outcome] as const)
    for (const [after] of spent) after.tokens = [...after.tokens, operation.waiter]
    return [...branches, ...spent]
  }

  #noticeLosses(): void {
    for (const [id, { members, needed }] of this.joints) {
      const hold = this.holds.get(id) as HoldState
      const live = members.filter((member) => this.stateOf(member) === 'live').length
      if (hold.state === 'live' && live < needed) this.holds.set(id, { ...hold, state: 'lost' })
    }
  }

  override placeOf(caller: Caller, target: number, within?: string) {
    return this.isJoint(target)
      ? ({ is: 'outside', scope: caller.scope, enclosing: within } as const)
      : super.placeOf(caller, target, within)
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
    const outcome = this.#takeAll(take)
    if (outcome !== 'lost') return [[this, outcome]]
    return [[this, 'refused'], ...(take.how === 'soon' ? this.clone().#takeRounds(take) : [])]
  }

  /** In one go: all that are needed, or nothing. */
  #takeAll(take: Take): string {
    const { cells, needed = 0 } = this.#target(take.target)
    const taken: string[] = []
    let outcome = 'refused'
    for (const cell of cells.toSorted()) {
      outcome = this.#takeOne(take, cell)
      if (outcome === 'granted') taken.push(memberOf(take, this.traits.cells[cell]))
      else if (!this.#isRed(take.target)) break
    }
    if (taken.length >= needed) return this.#join(take, taken)
    this.#giveBack(taken)
    return this.#isRed(take.target) ? 'refused' : outcome
  }

  #takeOne(take: Take, cell: number): string {
    const { client, how, place } = take
    const { scope, enclosing } = place as Place & { is: 'outside' }
    const [[after, outcome]] = super.take({
      ...take,
      id: memberOf(take, this.traits.cells[cell]),
      target: cell,
      // A red lock asks all at once, in no line.
      how: how === 'wait' || this.#isRed(take.target) ? 'now' : how,
      scope: undefined,
      place: this.placeOf({ client, scope }, cell, enclosing),
    }) as readonly [Branch]
    Object.assign(this, after)
    return outcome
  }

  #join({ id, target, lease, scope }: Take, members: readonly string[]): string {
    for (const member of members) {
      this.holds.set(member, { ...(this.holds.get(member) as HoldState), lease })
      this.renew(this.possessionOf(member), lease)
    }
    this.joints.set(id, { members, needed: this.#target(target).needed ?? 0 })
    this.holds.set(id, { possession: this.possessionOf(members[0] as string).id, lease, state: 'live' })
    this.scopes = this.scopes.map((holds, index) => (index === scope ? [...holds, ...members] : holds))
    return 'granted'
  }

  #giveBack(members: readonly string[]): void {
    for (const member of members) {
      this.unlock(member)
      this.forget(member)
      this.possessions.delete(member) // but not what was held before, and only held once more
    }
  }

  /** Besides: whoever has some of several locks, and waits for another one, releases them before long. */
  override moves(): readonly Model[] {
    const released: Model[] = []
    for (const { take } of this.waiters) {
      const { taken, at } = this.#roundOf(take.id)
      if (taken.size === 0 || at === undefined) continue
      const next = this.clone()
      next.#giveBack([...taken.values()])
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
      if (next.#takeAll(take) !== 'granted') return []
      next.endWait(take.id, 'granted')
      return [next]
    }
    const { taken, at } = this.#roundOf(take.id)
    if (at === undefined) return this.#ask(waiter, taken)
    const outcome = next.#takeOne(take, at)
    if (outcome === 'refused') return []
    if (outcome === 'granted') next.#goOn(take, new Map(taken).set(at, memberOf(take, this.traits.cells[at])))
    else {
      // It was to be re-entered, and is lost: now it is waited for.
      next.#noticeLosses()
      next.#stand(waiter, { taken, at })
    }
    return [next]
  }

  /** At the end of a line. */
  #stand(waiter: Waiter, round: Round): void {
    this.rounds.set(waiter.take.id, round)
    this.waiters = [...this.waiters.filter((other) => other !== waiter), waiter]
  }

  /** Somebody asks for the locks that are missing: for all in one command, unless some of them are held already. */
  #ask(waiter: Waiter, taken: ReadonlyMap<number, string>): readonly Model[] {
    const { take } = waiter
    const { cells } = this.#target(take.target)
    const rest = cells.toSorted().filter((cell) => !taken.has(cell))
    const isWaitedFor = (cell: number): boolean =>
      this.waiters.some((other) => other.take.client === take.client && this.lineOf(other.take) === String(cell))
    const lines = rest.filter(isWaitedFor)
    if (rest.length < 2 || rest.some((cell) => this.#isInside(take, cell))) {
      if (lines.length === 0) lines.push(rest[0] as number)
    } else {
      const busy = rest.filter((cell) => this.cells[cell])
      if (lines.length === 0 && busy.length === 0) return [this.#takeRest(take, taken, rest)]
      lines.push(...busy)
    }
    return lines.map((at) => {
      const next = this.clone()
      next.#stand(waiter, { taken, at })
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
    next.#goOn(take, members)
    return next
  }

  #goOn(take: Take, taken: ReadonlyMap<number, string>): void {
    const { cells } = this.#target(take.target)
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
    this.#giveBack([...this.#roundOf(waiter).taken.values()])
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

  #target(index: number): CellTarget {
    return this.traits.targets[index] as CellTarget
  }

  #isRed(target: number): boolean {
    const { cells, needed } = this.#target(target)
    return needed !== undefined && needed < cells.length
  }

  #hasAll(possession: Possession): boolean {
    return this.#target(possession.target).cells.every((cell) => this.cells[cell]?.holder === possession.id)
  }

  #set(indexes: readonly number[], cell: Cell | undefined): void {
    if (indexes.length === 0) return
    this.cells = this.cells.map((before, index) => (indexes.includes(index) ? cell : before))
  }
}

function memberOf({ id }: Take, cell: string | undefined): string {
  return `${id}/${cell}`
}
