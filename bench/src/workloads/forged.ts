import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, type Figures, measured } from '../bench.js'
import type { Library } from '../library.js'
import type { RedisPlace } from '../redis-place.js'
import { sum } from '../statistics.js'
import { atMost, type Workload } from '../workload.js'

const LEASE_MS = 3_000
const PER_SECOND = 1_000
const INBOXES = 'holdfast_inbox:*'
const REQUEST = JSON.stringify({ v: 1, ask: 'state', reply: `holdfast_reply:${'0'.repeat(32)}`, limit: 200 })
/** As long, and ignored: what remains is the cost of receiving messages. */
const NOTHING = '-'.repeat(REQUEST.length)

export const w8: Workload = {
  id: 'w8',
  title: `${PER_SECOND} forged requests a second to one client that holds a lock`,
  by: 'cores',
  unit: 'cores',
  isLessBetter: true,
  shows: ['receivingCores', 'idleCores'],
  isContended: false,
  skips: ({ name }) => (/^holdfast(-node-redis)?$/.test(name) ? undefined : 'cannot be asked'),
  measure: forged,
  goals: ({ holdfast: { cores = Number.NaN, receivingCores = Number.NaN } }) => [
    atMost('cores beyond those of receiving messages', 0.005, cores - receivingCores),
  ],
}

async function forged(bench: Bench, library: Library): Promise<Figures> {
  const work = { do: 'hold', locks: 1 } as const
  return await bench.contend(library, work, { leaseMs: LEASE_MS, keep: true }, async (contenders) => {
    await Promise.all(contenders.map((contender) => contender.start()))
    const inbox = await inboxOf(bench.place)
    const cores = async () => sum((await measured(contenders, bench.ms)).map(({ cpuMs }) => cpuMs)) / bench.ms
    const coresAmid = async (message: string) => {
      const flood = startFlood(bench.place, inbox, message)
      try {
        await sleep(LEASE_MS) // until the code that handles them is compiled
        return await cores()
      } finally {
        clearInterval(flood)
      }
    }
    const idleCores = await cores()
    return { idleCores, receivingCores: await coresAmid(NOTHING), cores: await coresAmid(REQUEST) }
  })
}

/** A client that holds something has one after 10 s. */
async function inboxOf({ admin }: RedisPlace): Promise<string> {
  for (;;) {
    const [inbox] = (await admin.pubsub('CHANNELS', INBOXES)) as string[]
    if (inbox !== undefined) return inbox
    await sleep(100)
  }
}

/** One message at a time: several in one packet would cost the receiver less. */
function startFlood({ admin }: RedisPlace, inbox: string, message: string): NodeJS.Timeout {
  const startedAt = performance.now()
  let sent = 0
  return setInterval(() => {
    for (; sent < ((performance.now() - startedAt) * PER_SECOND) / 1_000; sent++) void admin.publish(inbox, message)
  }, 1)
}
