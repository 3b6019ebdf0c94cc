import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, type Figures, measured } from '../bench.js'
import type { Library } from '../library.js'
import { sum } from '../statistics.js'
import { atMost, type Workload } from '../workload.js'

const LEASE_MS = 3_000
const LOCKS = 10_000

export const w6: Workload = {
  id: 'w6',
  title: `${LOCKS} locks held and renewed, lease ${LEASE_MS / 1_000} s`,
  by: 'scriptsPerSecond',
  unit: 'scripts/s',
  isLessBetter: true,
  shows: ['cores', 'redisCores', 'lost', 'loopDelayMs'],
  isContended: false,
  skips: ({ keeps }) => (keeps ? undefined : 'does not renew by itself'),
  measure: (bench, library) => watched(bench, library, LOCKS),
  goals: ({ holdfast }) => [
    atMost('scripts/s', 110, holdfast['scriptsPerSecond']),
    atMost('cores', 0.04, holdfast['cores']),
    atMost('lost', 0, holdfast['lost']),
    atMost('event loop late by, ms', 20, holdfast['loopDelayMs']),
  ],
}

/** One process holds `locks` locks for four leases. */
export async function watched(bench: Bench, library: Library, locks: number): Promise<Figures> {
  const ms = Math.max(bench.ms, 4 * LEASE_MS)
  return await bench.contend(library, { do: 'hold', locks }, { leaseMs: LEASE_MS, keep: true }, async (contenders) => {
    await Promise.all(contenders.map((contender) => contender.start()))
    await sleep(LEASE_MS) // by now the effects of acquiring are over, and every lock has been renewed
    const [scripts, redisCpuMs] = [await bench.place.scripts(), await bench.place.cpuMs()]
    const results = await measured(contenders, ms)
    return {
      scriptsPerSecond: ((await bench.place.scripts()) - scripts) / (ms / 1_000),
      cores: sum(results.map(({ cpuMs }) => cpuMs)) / ms,
      redisCores: ((await bench.place.cpuMs()) - redisCpuMs) / ms,
      lost: Math.max(0, locks - (await bench.place.admin.dbsize())),
      ...(library.program === undefined && { loopDelayMs: Math.max(...results.map(({ loopDelayMs }) => loopDelayMs)) }),
    }
  })
}
