import { measured } from '../bench.js'
import { atMost, type Workload } from '../workload.js'

const LOCKS = 10_000

export const w10: Workload = {
  id: 'w10',
  title: `${LOCKS} locks at once, by a process that has just started`,
  by: 'ms',
  unit: 'ms',
  isLessBetter: true,
  shows: [],
  isContended: false,
  skips: ({ program }) => (program === undefined ? undefined : 'has no such program'),
  measure: (bench, library) =>
    bench.contend(library, { do: 'burst', locks: LOCKS }, {}, async (contenders) => {
      await Promise.all(contenders.map((contender) => contender.start()))
      const [result] = await measured(contenders, 0)
      return { ms: result?.ms ?? Number.NaN }
    }),
  goals: ({ ratioToFloor }) => [atMost('time, of the floor', 1.5, ratioToFloor)],
}
