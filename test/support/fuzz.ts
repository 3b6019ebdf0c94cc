import fc from 'fast-check'

const { FUZZ_RUNS: runs = '100', FUZZ_SEED: seed, FUZZ_PATH: path } = process.env

/**
 * Tries a property with random values. To repeat a failure: FUZZ_SEED=… FUZZ_PATH=… with what it printed. For more values:
 * FUZZ_RUNS=100000
 */
export async function fuzz<T>(values: fc.Arbitrary<T>, check: (value: T) => Promise<void>): Promise<void> {
  await fc.assert(fc.asyncProperty(values, check), {
    numRuns: Number(runs),
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path }),
  })
}
