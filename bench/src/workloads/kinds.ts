import type { Workload } from '../workload.js'
import { looped } from './looped.js'

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
    const who = tasks === 1 ? 'one task' : `${tasks} tasks on the same one${isSemaphore ? `, ${permits} permits` : ''}`
    return looped({
      id: `${kind}-${tasks}`,
      title: `${NAMES[kind]}: ${who}`,
      loop: { processes: 1, tasks, kind, permits },
      kind,
      shows: ['p50', 'p99', 'commandsPerSection', ...(tasks > 1 ? ['jain'] : []), 'cores'],
      isContended: tasks > 1,
    })
  }),
)
