import { randomUUID } from 'node:crypto'

/** The seam for randomness. */
export interface Random {
  /** A random version-4 UUID in canonical form. */
  uuid(): string
  /** A number in [0, 1). */
  fraction(): number
}

export const systemRandom: Random = {
  // Without the cache: a start-up snapshot (`node --build-snapshot`) contains it, and two processes started from one
  // snapshot would get the same id, so each could re-enter the other's locks.
  uuid: () => randomUUID({ disableEntropyCache: true }),
  fraction: () => Math.random(),
}
