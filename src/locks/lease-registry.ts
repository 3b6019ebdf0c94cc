import { DenseSet, NameMap } from '../util/collections.js'

/** All that a client holds. */
export class LeaseRegistry<L extends { readonly lockName: string }> {
  readonly #all: DenseSet<L>
  readonly #byName = new NameMap<L[]>()

  /** @param onReleased  called when one has ended */
  constructor(onReleased: () => void) {
    this.#all = new DenseSet(onReleased)
  }

  get size(): number {
    return this.#all.size
  }

  /** Those of one name now, whatever is done to them meanwhile. */
  named(lockName: string): readonly L[] {
    return this.#byName.get(lockName)?.slice() ?? []
  }

  add(lease: L): void {
    if (this.#all.has(lease)) return
    this.#all.add(lease)
    const { lockName } = lease
    const others = this.#byName.get(lockName)
    if (others) others.push(lease)
    else this.#byName.set(lockName, [lease])
  }

  delete(lease: L): void {
    const { lockName } = lease
    const others = this.#byName.get(lockName)
    if (!others || !this.#all.has(lease)) return
    if (others.length === 1) this.#byName.delete(lockName)
    else others.splice(others.indexOf(lease), 1)
    this.#all.delete(lease)
  }

  [Symbol.iterator](): Iterator<L> {
    return this.#all[Symbol.iterator]()
  }
}
