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
  inTurn: ONE,
  measure: (bench, library) => bench.loop(library, ONE),
  count: async (bench, library) => ({ commandsPerSection: await bench.commandsPerSection(library, ONE) }),
  goals: ({ holdfast, ratioToFloor, ratioOf }) => [
    atLeast('rate, of the floor', 0.92, ratioToFloor),
    atLeast('rate of withLock, of the floor', 0.92, ratioOf('holdfast-with-lock', 'floor')),
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
  inTurn: MANY,
  measure: (bench, library) => bench.loop(library, MANY),
  count: async (bench, library) => ({ commandsPerSection: await bench.commandsPerSection(library, MANY) }),
  goals: ({ ratioToBest, ratioToFloor, ratioOf }) => [
    atLeast('rate, of the floor', 1.7, ratioToFloor),
    atLeast('rate, of the best', 1.7, ratioToBest),
    atLeast('rate of withLock, of the floor', 1.7, ratioOf('holdfast-with-lock', 'floor')),
  ],
}
