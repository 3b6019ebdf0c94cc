import type { Loop } from '../bench.js'
import { atLeast, atMost } from '../workload.js'
import { looped } from './looped.js'

export const ONE: Loop = { processes: 1, tasks: 1 }
export const MANY: Loop = { processes: 1, tasks: 100, each: true }

export const w1 = looped({
  id: 'w1',
  title: 'One task, lock and unlock',
  loop: ONE,
  shows: ['p50', 'p99', 'commandsPerSection'],
  isContended: false,
  isInTurn: true,
  goals: ({ holdfast, ratioToFloor, ratioOf }) => [
    atLeast('rate, of the floor', 0.92, ratioToFloor),
    atLeast('rate of withLock, of the floor', 0.92, ratioOf('holdfast-with-lock', 'floor')),
    // The count includes part of the last section.
    atMost('commands per section', 2.05, holdfast['commandsPerSection']),
  ],
})

export const w2 = looped({
  id: 'w2',
  title: '100 tasks, a lock each',
  loop: MANY,
  shows: ['p50', 'p99', 'commandsPerSection', 'cores'],
  isContended: false,
  isInTurn: true,
  goals: ({ ratioToBest, ratioToFloor, ratioOf }) => [
    atLeast('rate, of the floor', 1.7, ratioToFloor),
    atLeast('rate, of the best', 1.7, ratioToBest),
    atLeast('rate of withLock, of the floor', 1.7, ratioOf('holdfast-with-lock', 'floor')),
  ],
})
