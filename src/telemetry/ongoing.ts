// Counts what has begun and not ended, with the start of the oldest.
import { type Sample, Tally } from './tally.js'

interface Entry {
  readonly counted: { value: number }
  /** On the clock, ms. */
  readonly since: number
  previous: Entry | undefined
  next: Entry | undefined
}

/** Counts what has begun and not ended, and knows when the oldest began. A list by start from which any entry can leave. */
export class Ongoing {
  readonly tally: Tally
  #first: Entry | undefined
  #last: Entry | undefined
  /** The property in which a hold or a request keeps its entry. */
  readonly #entry = Symbol('ongoing')

  /** @param names  of the attributes */
  constructor(...names: readonly string[]) {
    this.tally = new Tally(...names)
  }

  /** @param values  of the attributes */
  begin(what: object, since: number, ...values: readonly (string | undefined)[]): void {
    const counted = this.tally.of(...values)
    counted.value++
    const entry: Entry = { counted, since, previous: this.#last, next: undefined }
    if (this.#last) this.#last.next = entry
    else this.#first = entry
    this.#last = entry
    ;(what as Record<symbol, Entry | undefined>)[this.#entry] = entry
  }

  /** Without effect if it began before anybody measured. */
  end(what: object): void {
    const entry = (what as Record<symbol, Entry | undefined>)[this.#entry]
    if (!entry) return
    ;(what as Record<symbol, Entry | undefined>)[this.#entry] = undefined
    const { counted, previous, next } = entry
    counted.value--
    if (previous) previous.next = next
    else this.#first = next
    if (next) next.previous = previous
    else this.#last = previous
  }

  /** How old the oldest one is, s; 0 if there is none. */
  ages(now: number): Iterable<Sample> {
    const oldest = new Map<{ value: number }, number>()
    for (let entry = this.#first; entry; entry = entry.next) {
      oldest.set(entry.counted, Math.min(entry.since, oldest.get(entry.counted) ?? now))
    }
    return this.tally.samples.map((counted) => ({
      attributes: counted.attributes,
      value: (now - (oldest.get(counted) ?? now)) / 1_000,
    }))
  }
}
