// Sets and maps that do not leak under churn.
/*
 * Collections for entries that come and go with every lock. As a `Map` or `Set` of V8 changes, it abandons its old
 * tables, each with a reference to the next one. Once one of them is in the old generation, all later ones are
 * promoted, with everything they ever held, until the next full garbage collection. With 100 tasks that lock and
 * unlock, this took a fifth of the processor time.
 */

type Indexed = Record<symbol, number>

/** A `Set` without an order. */
export class DenseSet<T extends object> {
  readonly #items: T[] = []
  /** The property in which an item keeps its index. */
  readonly #index = Symbol('index')
  readonly #onDeleted: (() => void) | undefined

  /** @param onDeleted  called when an item was deleted */
  constructor(onDeleted?: () => void) {
    this.#onDeleted = onDeleted
  }

  get size(): number {
    return this.#items.length
  }

  has(item: T): boolean {
    return this.#items[(item as Indexed)[this.#index] ?? -1] === item
  }

  add(item: T): void {
    if (!this.has(item)) this.#put(item, this.#items.length)
  }

  delete(item: T): void {
    if (!this.has(item)) return
    const index = (item as Indexed)[this.#index] as number
    const last = this.#items.pop() as T
    if (last !== item) this.#put(last, index)
    this.#onDeleted?.()
  }

  clear(): void {
    this.#items.length = 0
  }

  /** Iterates over a snapshot: items may be added and deleted meanwhile. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#items].values()
  }

  #put(item: T, index: number): void {
    this.#items[index] = item
    ;(item as Indexed)[this.#index] = index
  }
}

/** A `Map` from names, without an order. */
export class NameMap<T> {
  readonly #entries: Record<PropertyKey, T> = Object.create(null)

  get(name: PropertyKey): T | undefined {
    return this.#entries[name]
  }

  set(name: PropertyKey, entry: T): void {
    this.#entries[name] = entry
  }

  delete(name: PropertyKey): void {
    delete this.#entries[name]
  }

  values(): T[] {
    return Reflect.ownKeys(this.#entries).map((name) => this.#entries[name] as T)
  }
}
