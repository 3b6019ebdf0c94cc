// Randomness, replaceable in tests.
import { randomUuid } from '../platform.js'

/** The source of randomness, replaceable in tests. */
export interface Random {
  /** A random version-4 UUID in canonical form. */
  uuid(): string
  /** A number in [0, 1). */
  fraction(): number
}

export const systemRandom: Random = {
  uuid: randomUuid,
  fraction: () => Math.random(),
}
