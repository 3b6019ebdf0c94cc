import type { Fixture } from './fixture.js'
import { FAIR_WAIT_MS, keyNames } from './redisson-twin/twin.js'
import { waitUntil } from './wait-until.js'

/** The queue of one fair lock, read and changed from outside. */
export interface FairQueue {
  /** Resolves when exactly these holders are queued, in this order. */
  queued(...holders: string[]): Promise<void>
  /** The deadline of a waiter, epoch ms. */
  deadlineOf(holder: string): Promise<number>
  /** Queues a waiter that is no client of this library, with a deadline `inMs` from now, which it returns. */
  enqueue(holder: string, inMs?: number): Promise<number>
  /** Queues a waiter that is subscribed but never comes: its process is stalled. */
  enqueueFrozen(holder: string): Promise<void>
}

export function fairQueue(fixture: Fixture, name: string): FairQueue {
  const { queue, deadlines, fairChannel } = keyNames(name)

  async function enqueue(holder: string, inMs = FAIR_WAIT_MS): Promise<number> {
    const deadline = Date.now() + inMs
    await fixture.server.admin.zadd(deadlines, deadline, holder)
    await fixture.server.admin.rpush(queue, holder)
    return deadline
  }

  return {
    async queued(...holders) {
      let present: readonly string[] = []
      const areQueued = async (): Promise<boolean> => {
        present = await fixture.server.admin.lrange(queue, 0, -1)
        return present.join() === holders.join()
      }
      await waitUntil(areQueued, { message: () => `${holders.join()} are queued, but ${present.join()} are` })
    },
    async deadlineOf(holder) {
      return Number(await fixture.server.admin.zscore(deadlines, holder))
    },
    enqueue,
    async enqueueFrozen(holder) {
      const listener = fixture.server.admin.duplicate()
      fixture.onEnd(() => listener.disconnect())
      await listener.subscribe(fairChannel(holder))
      await enqueue(holder)
    },
  }
}
