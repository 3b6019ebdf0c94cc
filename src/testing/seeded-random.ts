// Randomness that follows from a seed.
import type { Random } from '../util/random.js'

/** Numbers that follow from a seed (mulberry32): the same seed gives the same run. */
export class SeededRandom implements Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  uuid(): string {
    return 'xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'.replace(/x/g, () => Math.floor(16 * this.fraction()).toString(16))
  }
}
