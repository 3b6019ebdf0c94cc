import type { Loop } from '../bench.js'
import { atLeast, atMost, type Workload } from '../workload.js'

const ONE: Loop = { processes: 1, tasks: 1 }
const MANY: Loop = { processes: 1, tasks: 100, each: true }

export const w1: Workload = {
  id: 'w1',
  title: 'One task, lock and unlock',
  by: 'rate',
  unit: 'sections/s',
  shows: ['p50', 'p99', 'commandsPerSection'],
  isContended: false,
  measure: (bench, library) => bench.loop(library, ONE),
  count: async (bench, library) => ({ commandsPerSection: await bench.commandsPerSection(library, ONE) }),
  goals: ({ holdfast, floor, ratioToFloor }) => [
    atLeast('rate, of the floor', 0.95, ratioToFloor),
    atMost('p99, of the floor', 1.1, (holdfast['p99'] ?? Number.NaN) / (floor['p99'] ?? Number.NaN)),
    // The count includes part of the last section.
    atMost('commands per section', 2.05, holdfast['commandsPerSection']),
  ],
}

export const w2: Workload = {
  id: 'w2',
  title: '100 tasks, a lock each',
  by: 'rate',
  unit: 'sections/s',
  shows: ['p50', 'p99', 'commandsPerSection', 'cores'],
  isContended: false,
  measure: (bench, library) => bench.loop(library, MANY),
  count: async (bench, library) => ({ commandsPerSection: await bench.commandsPerSection(library, MANY) }),
  goals: ({ holdfast, bestOwnerChecking, ratioToFloor }) => [
    atLeast('rate, of the floor', 1, ratioToFloor),
    atLeast(
      'rate, of the best that checks the owner',
      1,
      (holdfast['rate'] ?? Number.NaN) / (bestOwnerChecking['rate'] ?? Number.NaN),
    ),
  ],
}
