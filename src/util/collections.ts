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
   *   with it, as -1
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
    const place = (item as Placed)[this.#field] ?? -1
    // Reading an array at -1 is slow.
    return place >= 0 && this.#items[place] === item
  }

  add(item: T): void {
    const place = (item as Placed)[this.#field] ?? -1
    if (place >= 0 && this.#items[place] === item) return
    ;(item as Placed)[this.#field] = this.#items.length
    this.#items.push(item)
  }

  delete(item: T): void {
    const place = (item as Placed)[this.#field] ?? -1
    if (place < 0 || this.#items[place] !== item) return
    const last = this.#items.pop() as T
    if (last !== item) {
      this.#items[place] = last
      ;(last as Placed)[this.#field] = place
    }
    ;(item as Placed)[this.#field] = -1
    this.#onDeleted?.()
  }

  clear(): void {
    this.#items.length = 0
  }

  /** Iterates over a snapshot: items may be added and deleted meanwhile. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#items].values()
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
