import type { Workload } from '../workload.js'
import { looped } from './looped.js'
import { contended, FLEET, RESTING } from './one-lock.js'
import { MANY, ONE } from './uncontended.js'

const where = 'cluster'
const shows = ['p50', 'p99', 'commandsPerSection', 'cores', 'redisCores']

/** Some of the others, on three masters with a replica each. Holdfast waits for the replica, except as `holdfast-unacknowledged`. */
export const CLUSTER_WORKLOADS: readonly Workload[] = [
  looped({
    id: 'c1',
    title: 'Cluster: one task',
    loop: { ...ONE, where },
    shows,
    isContended: false,
    isInTurn: true,
  }),
  looped({
    id: 'c2',
    title: 'Cluster: 100 tasks, a lock each',
    loop: { ...MANY, where },
    shows,
    isContended: false,
    isInTurn: true,
  }),
  looped({
    ...contended,
    id: 'c3b',
    title: 'Cluster: 50 tasks, one lock, section of 1 ms, rests between',
    loop: { ...RESTING, where },
    shows: [...shows, 'jain'],
  }),
  looped({
    ...contended,
    id: 'c4',
    title: 'Cluster: 8 processes with 4 tasks each, one lock, section of 1 ms, rests between',
    loop: { ...FLEET, where },
    shows: [...shows, 'jain'],
  }),
]
