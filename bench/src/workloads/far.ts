import { atMost } from '../workload.js'
import { looped } from './looped.js'
import { ONE } from './uncontended.js'

export const w9 = looped({
  id: 'w9',
  title: 'One task, over a link on which a round trip takes 1 ms more',
  loop: { ...ONE, where: 'far' },
  by: 'p50',
  unit: 'ms',
  isLessBetter: true,
  shows: ['p99', 'commandsPerSection'],
  isContended: false,
  isInTurn: true,
  goals: ({ ratioOf }) => [
    atMost('time without waiting for the release, of a PING', 1.1, ratioOf('holdfast-background', 'ping')),
    atMost('time, of a PING', 2.1, ratioOf('holdfast', 'ping')),
  ],
})
