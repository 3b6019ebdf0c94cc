import { type Branch, Model } from './model.js'
import { LEASE_TIMES_S, type Lease, type Nesting, type Operation, type Spell, type Take } from './operations.js'

/** A holder that is not one of the clients under test. */
export const STRANGER = 'stranger'

/** A target: some cells, which are locks or the values of a group. */
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
  readonly leaseS: number
}

const EVERYTHING = 'everything'

/** Locks that one owner can hold at a time, and values of a group. */
export class CellsModel extends Model {
  readonly traits: CellTraits
  cells: readonly (Cell | undefined)[]
  /** The waiters, in the order of Redis. */
  queued: readonly string[] = []
  /** The leases that have a fencing token, in that order. */
  tokens: readonly string[] = []

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

  protected acquire(lease: Lease, leaseS: number): boolean {
    const { cells } = this.target(lease.target)
    const [first = lease.id] = this.queued
    if (first !== lease.id || cells.some((cell) => this.cells[cell])) return false
    this.#set(cells, { holder: lease.id, count: 1, leaseS })
    if (this.traits.isFenced) this.tokens = [...this.tokens, lease.id]
    return true
  }

  protected setCount(lease: Lease, leaseS: number, count: number): boolean {
    const { cells } = this.target(lease.target)
    if (!this.#hasAll(lease)) return false
    for (const cell of cells) {
      this.#set([cell], { holder: lease.id, count, leaseS: Math.max(leaseS, this.cells[cell]?.leaseS ?? 0) })
    }
    return true
  }

  protected renew(lease: Lease, leaseS: number): boolean {
    return this.setCount(lease, leaseS, this.cells[this.target(lease.target).cells[0] as number]?.count ?? 0)
  }

  protected free(lease: Lease): boolean {
    const hadAll = this.#hasAll(lease)
    this.abandon(lease)
    return hadAll
  }

  protected override abandon(lease: Lease): void {
    const mine = this.target(lease.target).cells.filter((cell) => this.cells[cell]?.holder === lease.id)
    this.#set(mine, undefined)
  }

  protected override leavesPartOf(target: number, lease: Lease): boolean {
    return this.target(lease.target).cells.length > 1 && this.overlap(target, lease.target)
  }

  protected override overlap(first: number, second: number): boolean {
    const { cells } = this.target(second)
    return this.target(first).cells.some((cell) => cells.includes(cell))
  }

  countOf(lease: Lease): number {
    return this.#hasAll(lease) ? lease.holds.length : 0
  }

  protected force(target: number): boolean {
    const { cells } = this.target(target)
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
    const { cells } = this.target(target)
    if (this.queued.length > 0 || cells.some((cell) => this.cells[cell])) return false
    this.#set(cells, { holder: STRANGER, count: 1, leaseS: LEASE_TIMES_S[1] })
    return true
  }

  protected override adoptAs(_from: Lease, to: Lease, leaseS: number): void {
    this.#set(this.target(to.target).cells, { holder: to.id, count: 1, leaseS })
    if (this.traits.isFenced) this.tokens = [...this.tokens, to.id]
  }

  protected holdersOf(target: number): { counts: ReadonlyMap<string, number>; leaseS: number } {
    const counts = new Map<string, number>()
    let longest = 0
    for (const index of this.target(target).cells) {
      const cell = this.cells[index]
      if (!cell) continue
      counts.set(cell.holder, this.traits.form === 'string' ? 1 : cell.count)
      longest = Math.max(longest, cell.leaseS)
    }
    return { counts, leaseS: longest }
  }

  protected override inspectionNote(): string {
    return this.traits.isFenced ? `, token ${this.tokens.length}` : ''
  }

  protected keys(spell: Spell): Record<string, string> {
    const { form, cells: names, isFenced } = this.traits
    const keys: Record<string, string> = {}
    const held: string[] = []
    for (const [index, cell] of this.cells.entries()) {
      const name = names[index] as string
      if (!cell) continue
      if (form === 'group') held.push(`${name}=${spell(cell.holder)}×${cell.count} ${cell.leaseS} s`)
      else if (form === 'string') keys[name] = `string ${spell(cell.holder)}, ${cell.leaseS} s`
      else keys[name] = `hash ${spell(cell.holder)}=${cell.count}, ${cell.leaseS} s`
    }
    if (held.length > 0) keys['group'] = held.join(' ')
    if (this.queued.length > 0) keys['queue'] = this.queued.map(spell).join(' ')
    if (isFenced && this.tokens.length > 0) keys['token'] = String(this.tokens.length)
    return keys
  }

  protected override isSame(one: number, other: number): boolean {
    const [first, second] = [this.target(one).cells, this.target(other).cells]
    return first.length === second.length && first.every((cell) => second.includes(cell))
  }

  protected nesting(target: number, held: number): Nesting {
    const [inner, outer] = [this.target(target).cells, this.target(held).cells]
    if (!inner.some((cell) => outer.includes(cell))) return 'apart'
    return this.isSame(target, held) && !this.traits.isNonReentrant ? 'inside' : 'deadlock'
  }

  protected excludes(target: number, held: number): boolean {
    return this.target(target).cells.some((cell) => this.target(held).cells.includes(cell))
  }

  protected waitQueueOf({ target }: Take): string {
    return this.target(target).cells.toSorted().join()
  }

  protected override queue(waiter: string): void {
    if (this.traits.isFair) this.queued = [...this.queued, waiter]
  }

  protected override leave(waiter: string): void {
    this.queued = this.queued.filter((other) => other !== waiter)
  }

  override forcedBy(client: number, target: number): readonly string[] {
    const { cells } = this.target(target)
    const isMeant = (held: number): boolean => this.target(held).cells.some((cell) => cells.includes(cell))
    return super.forcedBy(client, target).filter((id) => isMeant((this.leases.get(id) as Lease).target))
  }

  override holderAt(target: number): string | undefined {
    return this.cells[this.target(target).cells[0] as number]?.holder
  }

  protected override remark(hold: string, spell: Spell): string {
    const { id } = this.leaseOf(hold)
    const token = this.tokens.indexOf(id) + 1
    return super.remark(hold, spell) + (token > 0 ? `, token ${token}` : '')
  }

  protected override take(take: Take): readonly Branch[] {
    const branches = super.take(take)
    if (!this.traits.isFair || take.how !== 'soon' || take.position.is !== 'outside') return branches
    // Another waiter of the same turn may have been ahead of it in the queue until both gave up.
    return [...branches, [this.clone(), 'refused']]
  }

  override apply(operation: Operation): readonly Branch[] {
    const branches = super.apply(operation) as readonly [CellsModel, string][]
    if (operation.do !== 'abort' || !this.traits.isFenced) return branches
    // The late grant of an aborted wait is released, and its token is used up.
    const spent = branches.map(([after, outcome]) => [after.clone(), outcome] as const)
    for (const [after] of spent) after.tokens = [...after.tokens, operation.waiter]
    return [...branches, ...spent]
  }

  /** The cells of a target. */
  protected target(index: number): CellTarget {
    return this.traits.targets[index] as CellTarget
  }

  #hasAll(lease: Lease): boolean {
    return this.target(lease.target).cells.every((cell) => this.cells[cell]?.holder === lease.id)
  }

  #set(indexes: readonly number[], cell: Cell | undefined): void {
    if (indexes.length === 0) return
    this.cells = this.cells.map((before, index) => (indexes.includes(index) ? cell : before))
  }
}
