import { measured } from '../bench.js'
import { sum } from '../statistics.js'
import { STOCK_KEY } from '../work.js'
import { atMost, type Workload } from '../workload.js'

const UNITS = 1_000
const TASKS = 4
const PROCESSES = 8

export const w5: Workload = {
  id: 'w5',
  title: `Flash sale: ${PROCESSES} processes with ${TASKS} tasks each sell ${UNITS} units of one stock`,
  by: 'ms',
  unit: 'ms',
  isLessBetter: true,
  shows: ['oversold'],
  isContended: true,
  skips: ({ waits }) => (waits === 'not at all' ? 'does not wait' : undefined),
  measure: (bench, library) =>
    bench.contend(library, { do: 'sell', tasks: TASKS }, { processes: PROCESSES }, async (contenders) => {
      await bench.place.admin.set(STOCK_KEY, UNITS)
      await Promise.all(contenders.map((contender) => contender.start()))
      const results = await measured(contenders, 0)
      return {
        ms:
          Math.max(...results.map(({ lastSoldAt }) => lastSoldAt)) -
          Math.min(...results.map(({ startedAt }) => startedAt)),
        oversold: sum(results.map(({ sold }) => sold)) - UNITS,
      }
    }),
  goals: ({ holdfast, ratioToBest }) => [
    atMost('time, of the best', 0.55, ratioToBest),
    atMost('oversold', 0, holdfast['oversold']),
  ],
}
