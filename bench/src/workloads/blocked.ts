import type { Bench } from '../bench.js'
import type { Library } from '../library.js'
import { atLeast, atMost, type Workload } from '../workload.js'

const LEASE_MS = 1_000
const BLOCK_MS = 3 * LEASE_MS

export const w7: Workload = {
  id: 'w7',
  title: 'The event loop of the holder is blocked for 3 leases: does a second process get in?',
  by: 'entered',
  unit: 'of one',
  isLessBetter: true,
  shows: ['enteredPastMaxBlock'],
  isContended: false,
  skips({ keeps, program }) {
    if (program !== undefined) return 'has threads, and no event loop'
    return keeps ? undefined : 'does not renew by itself'
  },
  async measure(bench, library) {
    const entered = await entersABlocked(bench, library, {})
    if (library.name !== 'holdfast-thread') return { entered }
    return { entered, enteredPastMaxBlock: await entersABlocked(bench, library, { maxBlockMs: LEASE_MS }) }
  },
  goals: ({ of }) => [
    atMost('entered, with the thread', 0, of('holdfast-thread')['entered']),
    atLeast('entered, with the thread, once maxBlockMs is over', 1, of('holdfast-thread')['enteredPastMaxBlock']),
  ],
}

async function entersABlocked(bench: Bench, library: Library, more: { maxBlockMs?: number }): Promise<number> {
  const setting = { leaseMs: LEASE_MS, keep: true, ...more }
  return await bench.contend(library, { do: 'block' }, setting, async ([holder]) => {
    await holder?.start()
    return await bench.alongside(library, { do: 'enter' }, setting, async ([intruder]) => {
      await intruder?.start()
      const [blocked, entry] = await Promise.all([holder?.measure(BLOCK_MS), intruder?.measure(BLOCK_MS)])
      const at = entry?.enteredAt ?? Number.POSITIVE_INFINITY
      return blocked && at > blocked.from && at < blocked.until ? 1 : 0
    })
  })
}
