import type { Loop } from '../bench.js'
import type { Workload } from '../workload.js'

const NAMES = {
  fair: 'Fair lock',
  read: 'Read lock',
  write: 'Write lock',
  fenced: 'Fenced lock',
  semaphore: 'Semaphore',
  permit: 'Permit-expirable semaphore',
} as const

/** Every kind compared with Redisson: `fair-1` has one task, `fair-8` eight. */
export const KIND_WORKLOADS: readonly Workload[] = (Object.keys(NAMES) as (keyof typeof NAMES)[]).flatMap((kind) =>
  [1, 8].map((tasks): Workload => {
    const isSemaphore = kind === 'semaphore' || kind === 'permit'
    const permits = isSemaphore && tasks > 1 ? 2 : 1
    const loop: Loop = { processes: 1, tasks, kind, permits }
    const who = tasks === 1 ? 'one task' : `${tasks} tasks on the same one${isSemaphore ? `, ${permits} permits` : ''}`
    return {
      id: `${kind}-${tasks}`,
      title: `${NAMES[kind]}: ${who}`,
      by: 'rate',
      unit: 'sections/s',
      kind,
      shows: ['p50', 'p99', 'commandsPerSection', ...(tasks > 1 ? ['jain'] : []), 'cores'],
      isContended: tasks > 1,
      measure: (bench, library) => bench.loop(library, loop),
      count: async (bench, library) => ({ commandsPerSection: await bench.commandsPerSection(library, loop) }),
    }
  }),
)
