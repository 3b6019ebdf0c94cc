import type { Loop } from '../bench.js'
import type { Workload } from '../workload.js'

type Own = 'id' | 'title' | 'shows' | 'isContended' | 'kind' | 'skips' | 'goals'

export interface Looped extends Pick<Workload, Own>, Partial<Pick<Workload, 'by' | 'unit' | 'isLessBetter'>> {
  readonly loop: Loop
  /** Measured in turn with the other libraries, in short slices. */
  readonly isInTurn?: boolean
}

/** Tasks that acquire a lock repeatedly: by their rate, unless told otherwise. */
export function looped({ loop, isInTurn = false, ...workload }: Looped): Workload {
  return {
    by: 'rate',
    unit: 'sections/s',
    ...workload,
    isInCluster: loop.where === 'cluster',
    ...(isInTurn && { inTurn: loop }),
    measure: (bench, library) => bench.loop(library, loop),
    count: async (bench, library) => ({ commandsPerSection: await bench.commandsPerSection(library, loop) }),
  }
}
