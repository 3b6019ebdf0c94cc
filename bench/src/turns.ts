import type { Bench, Figures, Loop } from './bench.js'
import type { Contender } from './contender-process.js'
import type { Library } from './library.js'
import { shuffled } from './shuffled.js'
import { quantile, sum } from './statistics.js'

/** One process of a library differs from the next by as much as 1.4 times: by how its code was compiled. */
const PROCESSES = 5
/** Short enough that a machine is as busy for one library as for the next. */
const SLICE_MS = 400
const WARM_UP_SLICES = 3

interface Runner {
  readonly library: Library
  readonly contender: Contender<'loop'>
}

/**
 * Measures libraries in turn, in short slices, in processes that stay up, so that noise on the machine hits all alike. The
 * figures of one slice of one library belong to those of the same slice of the others: their ratios are what counts.
 * @param fail  called with a library that cannot go on
 * @returns the figures of each slice of each library
 */
export async function measureInTurn(
  bench: Bench,
  libraries: readonly Library[],
  loop: Loop,
  slices: number,
  fail: (library: Library, error: unknown) => void,
): Promise<ReadonlyMap<Library, readonly Figures[]>> {
  const found = new Map<Library, Figures[]>(libraries.map((library) => [library, []]))
  for (let process = 1; process <= PROCESSES; process++) {
    console.error(
      `[${process}/${PROCESSES}] ${libraries.length} libraries in turn, ${slices} slices of ${SLICE_MS} ms each`,
    )
    const runners: Runner[] = []
    try {
      for (const library of libraries) {
        const opening = bench.looping(library, loop)
        await opening.then(
          (contender) => runners.push({ library, contender }),
          (error: unknown) => fail(library, error),
        )
      }
      for (let slice = -WARM_UP_SLICES; slice < slices; slice++) {
        const round = new Map<Library, Figures>()
        for (const runner of shuffled(runners)) {
          const { library, contender } = runner
          try {
            round.set(library, await sliceOf(contender))
          } catch (error) {
            runners.splice(runners.indexOf(runner), 1)
            contender.end()
            fail(library, error)
          }
        }
        if (slice >= 0) for (const [library, figures] of round) found.get(library)?.push(figures)
      }
    } finally {
      for (const { contender } of runners) contender.end()
    }
  }
  return found
}

async function sliceOf(contender: Contender<'loop'>): Promise<Figures> {
  const { sections, latencies, cpuMs } = await contender.measure(SLICE_MS)
  return {
    rate: sum(sections) / (SLICE_MS / 1_000),
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    cores: cpuMs / SLICE_MS,
  }
}
