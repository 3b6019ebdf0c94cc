/*
 * Collections of what comes and goes with every lock. A Map or Set of V8 leaves its old tables behind as it changes, each
 * with a reference to its successor; once one of them has grown old, all that follow grow old, with all that was ever in
 * them, until the next full garbage collection. With 100 tasks that lock and unlock this was a fifth of the processor time.
 */

type Placed = Record<symbol, number>

/** What a `Set` does, in no order. */
export class DenseSet<T extends object> {
  readonly #items: T[] = []
  /** Under which an item keeps its place. */
  readonly #place = Symbol('place')
  readonly #onDeleted: (() => void) | undefined

  /** @param onDeleted  told when something is gone */
  constructor(onDeleted?: () => void) {
    this.#onDeleted = onDeleted
  }

  get size(): number {
    return this.#items.length
  }

  has(item: T): boolean {
    return this.#items[(item as Placed)[this.#place] ?? -1] === item
  }

  add(item: T): void {
    if (!this.has(item)) this.#put(item, this.#items.length)
  }

  delete(item: T): void {
    if (!this.has(item)) return
    const place = (item as Placed)[this.#place] as number
    const last = this.#items.pop() as T
    if (last !== item) this.#put(last, place)
    this.#onDeleted?.()
  }

  clear(): void {
    this.#items.length = 0
  }

  /** Those of now, whatever is done to them meanwhile. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#items].values()
  }

  #put(item: T, place: number): void {
    this.#items[place] = item
    ;(item as Placed)[this.#place] = place
  }
}

/** What a `Map` from names does, in no order. */
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
