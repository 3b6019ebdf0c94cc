import { SeededRandom } from '../../src/testing/seeded-random.js'

/** Choices that follow from a seed. */
export class Dice extends SeededRandom {
  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.fraction() * (most - least + 1))
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.between(0, choices.length - 1)] as T
  }

  /** Some of them, in their order; at least one. */
  some<T>(choices: readonly T[]): T[] {
    const chosen = choices.filter(() => this.chance(0.5))
    return chosen.length > 0 ? chosen : [this.pick(choices)]
  }
}
