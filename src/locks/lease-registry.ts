import { Bag, Directory } from '../util/collections.js'
import type { Possession } from './lease.js'

/** All that a client holds. */
export class Possessions {
  readonly #all: Bag<Possession>
  readonly #byName = new Directory<Possession[]>()

  /** @param onReleased  called when one has ended */
  constructor(onReleased: () => void) {
    this.#all = new Bag(onReleased)
  }

  get size(): number {
    return this.#all.size
  }

  /** Those of one name now, whatever is done to them meanwhile. */
  named(lockName: string): readonly Possession[] {
    return this.#byName.get(lockName)?.slice() ?? []
  }

  add(possession: Possession): void {
    if (this.#all.has(possession)) return
    this.#all.add(possession)
    const { lockName } = possession
    const others = this.#byName.get(lockName)
    if (others) others.push(possession)
    else this.#byName.set(lockName, [possession])
  }

  delete(possession: Possession): void {
    const { lockName } = possession
    const others = this.#byName.get(lockName)
    if (!others || !this.#all.has(possession)) return
    if (others.length === 1) this.#byName.delete(lockName)
    else others.splice(others.indexOf(possession), 1)
    this.#all.delete(possession)
  }

  [Symbol.iterator](): Iterator<Possession> {
    return this.#all[Symbol.iterator]()
  }
}
