// Randomness, replaceable in tests.
import { randomUUID } from 'node:crypto'

/** The source of randomness, replaceable in tests. */
export interface Random {
  /** A random version-4 UUID in canonical form. */
  uuid(): string
  /** A number in [0, 1). */
  fraction(): number
}

export const systemRandom: Random = {
  // Without the cache, which is part of a start-up snapshot (`node --build-snapshot`): two processes started from one
  // snapshot would get the same id, and each could re-enter the other's locks.
  uuid: () => randomUUID({ disableEntropyCache: true }),
  fraction: () => Math.random(),
}
