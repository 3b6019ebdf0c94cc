// Sets and maps that do not leak under churn.
/*
 * Collections for entries that come and go with every lock. As a `Map` or `Set` of V8 changes, it abandons its old
 * tables, each with a reference to the next one. Once one of them is in the old generation, all later ones are
 * promoted, with everything they ever held, until the next full garbage collection. With 100 tasks that lock and
 * unlock, this took a fifth of the processor time.
 */

type Placed = Record<string, number>

/** A `Set` without an order. */
export class DenseSet<T extends object> {
  readonly #items: T[] = []
  readonly #field: string
  readonly #onDeleted: (() => void) | undefined

  /**
   * @param field  the property in which an item keeps its place. Each set has its own. It is fastest if the items are created
   *   with it, as 0
   * @param onDeleted  called when an item was deleted
   */
  constructor(field: string, onDeleted?: () => void) {
    this.#field = field
    this.#onDeleted = onDeleted
  }

  get size(): number {
    return this.#items.length
  }

  has(item: T): boolean {
    return this.#items[this.#placeOf(item)] === item
  }

  add(item: T): void {
    if (this.has(item)) return
    ;(item as Placed)[this.#field] = this.#items.length
    this.#items.push(item)
  }

  delete(item: T): void {
    if (!this.has(item)) return
    const place = this.#placeOf(item)
    const last = this.#items.pop() as T
    if (last !== item) {
      this.#items[place] = last
      ;(last as Placed)[this.#field] = place
    }
    this.#onDeleted?.()
  }

  clear(): void {
    this.#items.length = 0
  }

  /** Iterates over a snapshot: items may be added and deleted meanwhile. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#items].values()
  }

  /** Of an item that is not in this set, any place: another item is there. */
  #placeOf(item: T): number {
    return (item as Placed)[this.#field] ?? 0
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
