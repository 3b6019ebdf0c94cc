import type { Loop } from '../bench.js'
import type { Library } from '../library.js'
import { atLeast, atMost } from '../workload.js'
import { looped } from './looped.js'

export const RESTING: Loop = { processes: 1, tasks: 50, sectionMs: 1, restMs: 10 }
export const FLEET: Loop = { processes: 8, tasks: 4, sectionMs: 1, restMs: 10 }

export const contended = {
  isContended: true,
  skips: ({ waits }: Library) => (waits === 'not at all' ? 'does not wait' : undefined),
} as const

export const w3 = looped({
  ...contended,
  id: 'w3',
  title: '50 tasks, one lock, empty section',
  loop: { processes: 1, tasks: 50 },
  shows: ['commandsPerSection', 'jain', 'handOffP50', 'handOffP99', 'refused', 'overlaps'],
  goals: ({ holdfast, ratioToBest }) => [
    atLeast('rate, of the best', 15, ratioToBest),
    atMost('commands per section', 0.1, holdfast['commandsPerSection']),
    atLeast('fairness (Jain)', 0.99, holdfast['jain']),
  ],
})

export const w3b = looped({
  ...contended,
  id: 'w3b',
  title: '50 tasks, one lock, section of 1 ms, rests between',
  loop: RESTING,
  shows: ['commandsPerSection', 'handOffP50', 'handOffP99', 'jain', 'cores', 'refused', 'overlaps'],
  goals: ({ holdfast, ratioToBest }) => [
    atLeast('rate, of the best', 1.8, ratioToBest),
    atMost('hand-off p99, ms', 1, holdfast['handOffP99']),
  ],
})

export const w4 = looped({
  ...contended,
  id: 'w4',
  title: '8 processes with 4 tasks each, one lock, section of 1 ms, rests between',
  loop: FLEET,
  shows: ['commandsPerSection', 'cores', 'redisCores', 'starved', 'jain', 'p99', 'refused', 'overlaps'],
  goals: ({ holdfast, ratioToBest }) => [
    atLeast('rate, of the best', 1.4, ratioToBest),
    atMost('commands per section', 0.6, holdfast['commandsPerSection']),
    atMost('starved tasks', 0, holdfast['starved']),
    atLeast('fairness (Jain)', 0.95, holdfast['jain']),
  ],
})
