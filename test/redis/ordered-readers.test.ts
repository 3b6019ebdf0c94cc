/** A writer beside readers in other processes that have the lock without a pause: by the order in Redis, and not by the clock. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Lock } from '../../src/index.js'
import { orderedQueue, readWriteChannel } from '../../src/wire/keys.js'
import { setUpFixture } from '../support/fixture.js'
import { measureLateness } from '../support/lateness.js'
import { spawnChild } from '../support/processes/child.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

const PROCESSES = 4
const READERS_EACH = 2
const READER = new URL('../support/processes/reader-process.js', import.meta.url)
/** A busy machine is slow to start processes. */
const START_MS = 30_000
/** A writer that is offered the lock and does not ask for it in this time, ms, is overtaken, as it may be dead. */
const OFFER_MS = 900

/** What readers did between a writer's `writer waits` and its `writer in`, or the end of the log. */
function readersBeside(log: readonly string[]): { left: number; overtook: readonly string[] } {
  const from = log.indexOf('writer waits')
  const to = log.indexOf('writer in')
  const left = new Set<string>()
  const overtook: string[] = []
  for (const line of from < 0 ? [] : log.slice(from + 1, to < 0 ? undefined : to)) {
    const [reader = '', what] = line.split(' ')
    if (what === 'out')
      left.add(reader) // it asks for its next section afterwards: the writer was waiting before
    else if (left.has(reader)) overtook.push(reader)
  }
  return { left: left.size, overtook }
}

describe('a writer beside eight readers in four processes', () => {
  const fixture = setUpFixture()

  async function startReaders(order: 'fifo' | ''): Promise<() => Promise<void>> {
    const { admin, url } = fixture.server
    const processes = Array.from({ length: PROCESSES }, () => spawnChild(READER, [url, String(READERS_EACH), order]))
    for (const child of processes) fixture.onEnd(() => child.stop())
    await Promise.all(processes.map((child) => child.nextMessage(({ at }) => at === 'ready', START_MS)))
    const readers = async () => new Set((await admin.lrange('log', 0, -1)).filter((line) => line.endsWith(' in'))).size
    await waitUntil(async () => (await readers()) === PROCESSES * READERS_EACH, { message: 'all read' })
    return async () => {
      for (const child of processes) child.send({ at: 'end' })
      for (const child of processes) await settlesWithin(child.exit, START_MS)
      await admin.del('log')
    }
  }

  /** Asks for the lock, and records when it waits, as `isWaiting` tells, and when it has the lock. */
  async function write(lock: Lock, isWaiting: () => Promise<boolean>, signal?: AbortSignal): Promise<void> {
    const { admin } = fixture.server
    const asking = lock.lock({ signal })
    await Promise.race([asking, waitUntil(isWaiting)])
    await admin.rpush('log', 'writer waits')
    const hold = await asking
    await admin.rpush('log', 'writer in')
    await hold.unlock()
  }

  const isQueued = ({ id }: Client) => {
    return async () => (await fixture.server.admin.zrange(orderedQueue('a'), 0, '-1')).some((one) => one.startsWith(id))
  }

  it('no reader that asks after a writer gets into an ordered lock before it, beside eight in four processes', async (t) => {
    const { admin } = fixture.server
    const stopReaders = await startReaders('fifo')
    const client = await fixture.connect()
    const lock = client.getReadWriteLock('a', { order: 'fifo' }).writeLock()
    const lefts: number[] = []
    while (lefts.length < 20) {
      const from = await admin.llen('log')
      const latenessMs = measureLateness()
      await write(lock, isQueued(client))
      const isTooSlow = latenessMs() > OFFER_MS / 2
      const { left, overtook } = readersBeside(await admin.lrange('log', from, -1))
      if (isTooSlow) continue
      assert.deepEqual(overtook, [])
      if (left > 0) lefts.push(left) // if nobody left meanwhile, nobody could have overtaken it
    }
    t.diagnostic(`readers that left before each time: ${lefts.join(', ')}`)
    await stopReaders()
  })

  it('readers in four processes overtake a writer of a lock that is not ordered', async (t) => {
    const { admin } = fixture.server
    const stopReaders = await startReaders('')
    const client = await fixture.connect()
    const lock = client.getReadWriteLock('a').writeLock()
    const isSubscribed = async () => Number((await admin.pubsub('NUMSUB', readWriteChannel('a')))[1]) > 0
    let overtook: readonly string[] = []
    while (overtook.length === 0) {
      const from = await admin.llen('log')
      const controller = new AbortController()
      const writing = write(lock, isSubscribed, controller.signal)
      const isOver = writing.then(
        () => true,
        () => true,
      )
      // By chance all are between two sections: then once more.
      await waitUntil(async () => {
        overtook = readersBeside(await admin.lrange('log', from, -1)).overtook
        return overtook.length > PROCESSES * READERS_EACH || (await Promise.race([isOver, false]))
      })
      controller.abort()
      await isOver
    }
    t.diagnostic(`${overtook.length} sections overtook it`)
    await stopReaders()
  })
})
