/** Numbers from 0 to below 1 that are the same again with the same seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Whole numbers from 0 to below `n`. */
export type Random = (n: number) => number

export function randomOf(seed: number): Random {
  const next = randomFrom(seed)
  return (n) => Math.floor(next() * n)
}
