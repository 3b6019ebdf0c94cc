/** Semaphores in order: who waits for whom, and what the dead, the frozen and those who leave cost the others. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, type OrderOptions, QueueFullError } from '../../src/index.js'
import { INBOX_PREFIX, orderedClients, orderedQueue } from '../../src/wire/keys.js'
import { setUpFixture } from '../support/fixture.js'
import { measureLateness } from '../support/lateness.js'
import { openSynchronizerTwin } from '../support/redisson-twin/twin-synchronizers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const QUEUE = orderedQueue('a')
const KEYS = ['a', '{a}:timeout', QUEUE, orderedClients('a')]
/** A waiter that was called has so long to ask, ms. */
const CALL_MS = 900

interface Request {
  readonly permits?: number
  readonly priority?: number
  readonly waitTimeMs?: number
  readonly signal?: AbortSignal
}

/** What both semaphores have. */
interface Common {
  trySetPermits(permits: number): Promise<boolean>
  addPermits(permits: number): Promise<void>
  availablePermits(): Promise<number>
  /** @returns releases them; undefined: refused */
  take(request?: Request): Promise<(() => Promise<void>) | undefined>
  tryTake(): Promise<boolean>
}

const SEMAPHORES: Readonly<Record<string, (client: Client, options?: OrderOptions) => Common>> = {
  'a semaphore in order': (client, options = { order: 'fifo' }) => {
    const semaphore = client.getSemaphore('a', options)
    return Object.assign(semaphore, {
      take: async ({ permits = 1, ...rest }: Request = {}) => {
        if (!(await semaphore.tryAcquire({ permits, waitTimeMs: 60_000, ...rest }))) return undefined
        return async () => await semaphore.release(permits)
      },
      tryTake: async () => await semaphore.tryAcquire(),
    })
  },
  'a permit-expirable semaphore in order': (client, options = { order: 'fifo' }) => {
    const semaphore = client.getPermitExpirableSemaphore('a', options)
    return Object.assign(semaphore, {
      take: async (request: Request = {}) => {
        const permit = await semaphore.tryAcquire({ waitTimeMs: 60_000, ...request })
        return permit ? async () => await permit.unlock() : undefined
      },
      tryTake: async () => (await semaphore.tryAcquire()) !== null,
    })
  },
}

for (const [title, semaphoreOf] of Object.entries(SEMAPHORES)) {
  describe(title, () => {
    const fixture = setUpFixture()

    const queued = async (count: number): Promise<void> => {
      await waitUntil(async () => (await fixture.server.admin.zcard(QUEUE)) === count, {
        message: `${count} are queued`,
      })
    }

    /** Two clients, and who has all of its permits. */
    async function open(permits: number) {
      const [one, two] = [await fixture.connect(), await fixture.connect()]
      const [first, second] = [semaphoreOf(one), semaphoreOf(two)]
      assert(await first.trySetPermits(permits))
      fixture.onEnd(() => fixture.server.admin.del(...KEYS))
      const release = await first.take({ permits })
      assert(release)
      return { one, two, first, second, release }
    }

    /** Lets a caller wait behind `count` others. */
    async function queue<T>(count: number, ask: () => Promise<T>): Promise<{ taken: Promise<T> }> {
      const taken = ask()
      taken.catch(() => {})
      await queued(count + 1)
      return { taken }
    }

    /** Takes and releases in the order of requests. @returns the numbers of the requests in the order of the grants */
    async function orderOf(requests: readonly Request[], permits: number): Promise<number[]> {
      const { first, second, release } = await open(permits)
      const order: number[] = []
      const sections: Promise<void>[] = []
      for (const [index, request] of requests.entries()) {
        const ask = async (): Promise<void> => {
          const end = await (index % 2 ? first : second).take(request)
          order.push(index)
          await sleep(5)
          await end?.()
        }
        const { taken } = await queue(index, ask)
        sections.push(taken)
      }
      await release()
      await Promise.all(sections)
      assert.equal(await first.availablePermits(), permits)
      assert.deepEqual(await fixture.server.admin.exists(QUEUE, orderedClients('a')), 0)
      return order
    }

    it(`${title} grants permits in the order of requests, one that wants many before a later one that wants few`, async () => {
      const wanted = [2, 3, 2, 2, 3, 2].map((permits) => ({ permits }))
      assert.deepEqual(await orderOf(wanted, 3), [0, 1, 2, 3, 4, 5])
    })

    it(`${title} grants a higher priority first, and equal ones in order`, async () => {
      const wanted = [0, -1, 5, 1_000, 5, -1_000].map((priority) => ({ priority }))
      assert.deepEqual(await orderOf(wanted, 1), [3, 2, 4, 0, 1, 5])
    })

    it(`who waits for ${title} is listed in order, with the number of permits and the priority`, async () => {
      const { one, first, second, release } = await open(3)
      const requests = [{ permits: 2, priority: -3 }, { permits: 3, priority: 1 }, {}]
      const takes: Promise<(() => Promise<void>) | undefined>[] = []
      for (const [n, request] of requests.entries()) {
        takes.push((await queue(n, () => (n % 2 ? first : second).take(request))).taken)
      }
      const { waiters } = await one.fleet.inspect('a')
      assert.deepEqual(
        waiters.map(({ position, permits, priority, holder }) => [position, permits, priority, holder]),
        [
          [1, 3, 1, undefined],
          [2, 1, undefined, undefined],
          [3, 2, -3, undefined],
        ],
      )
      await release()
      await (await takes[1])?.()
      for (const taken of [takes[0], takes[2]]) await (await taken)?.()
    })

    it(`${title} serves as many waiters at once as there are permits for`, async () => {
      const { first, second, release } = await open(8)
      const takes: Promise<unknown>[] = []
      for (let n = 0; n < 8; n++) takes.push((await queue(n, () => (n % 2 ? first : second).take())).taken)
      await release()
      await Promise.all(takes)
      assert.equal(await first.availablePermits(), 0)
    })

    it(`${title} grants nothing to one that only tries while those who wait need all there is`, async () => {
      const { first, second, release } = await open(2)
      const { taken } = await queue(0, () => second.take({ permits: 3 }))
      await release()
      assert.equal(await first.tryTake(), false)
      await first.addPermits(2)
      await taken
      assert.equal(await first.tryTake(), true)
    })

    it(`${title} with maxWaiters refuses at once what finds a full queue`, async () => {
      const { one, two, release, second } = await open(1)
      const limit = (client: Client, maxWaiters: number) => semaphoreOf(client, { order: 'fifo', maxWaiters })
      const isFull = (waiters: number) => (error: unknown) => {
        assert(error instanceof QueueFullError)
        assert.equal(error.waiters, waiters)
        assert.match(error.message, /^Semaphore "a" already has/)
        return true
      }
      await assert.rejects(limit(one, 0).take(), isFull(0))
      const { taken } = await queue(0, () => second.take())
      await assert.rejects(limit(two, 1).take(), isFull(1))
      await release()
      await (await taken)?.()
      await (await limit(one, 0).take())?.()
    })

    it(`a caller of ${title} that gives up lets those behind it in`, async () => {
      const { first, second, release } = await open(2)
      const controller = new AbortController()
      const { taken: aborted } = await queue(0, () => second.take({ permits: 3, signal: controller.signal }))
      const { taken: late } = await queue(1, () => second.take({ permits: 3, waitTimeMs: 700 }))
      const { taken } = await queue(2, () => first.take())
      await release()
      controller.abort(new Error('not any more'))
      await assert.rejects(aborted, /not any more/)
      assert.equal(await late, undefined)
      await (await taken)?.()
      assert.equal(await first.availablePermits(), 2)
      assert.equal(await fixture.server.admin.exists(QUEUE), 0)
    })

    /** @returns how long a waiter waits behind those of a lost client after a release, and how late timers were, ms */
    async function waitBehind(client: string): Promise<{ tookMs: number; lateMs: number }> {
      const { second, release } = await open(1)
      const { admin } = fixture.server
      const seconds = Number((await admin.time())[0])
      for (let n = 1; n <= 300; n++) await admin.zadd(QUEUE, n, `${client}:${n}:1`)
      await admin.zadd(orderedClients('a'), seconds * 1_000 + 13_000, client)
      const { taken } = await queue(300, () => second.take())
      const latenessMs = measureLateness()
      const releasedAt = performance.now()
      await release()
      const end = await taken
      const tookMs = performance.now() - releasedAt
      await end?.()
      return { tookMs, lateMs: latenessMs() }
    }

    it(`waiters of a dead client cost the next one for ${title} nothing, however many there are`, async () => {
      const { tookMs, lateMs } = await waitBehind('dead')
      assert(tookMs < 200 + lateMs, `${tookMs} ms`)
    })

    it(`waiters of a frozen client cost the next one for ${title} 1 s in all, however many there are`, async () => {
      const frozen = fixture.server.admin.duplicate()
      fixture.onEnd(() => frozen.disconnect())
      await frozen.subscribe(`${INBOX_PREFIX}frozen`)
      const { tookMs, lateMs } = await waitBehind('frozen')
      assert(tookMs > CALL_MS && tookMs < CALL_MS + 500 + lateMs, `${tookMs} ms`)
    })

    it(`a waiter that a living client has forgotten costs the next one for ${title} 1 s`, async () => {
      const { one, first, second, release } = await open(1)
      const { taken: next } = await queue(0, () => second.take())
      const { taken: last } = await queue(1, () => first.take()) // so that its client receives the calls
      await fixture.server.admin.zadd(QUEUE, -5, `${one.id}:gone:1`)
      const latenessMs = measureLateness()
      const releasedAt = performance.now()
      await release()
      const end = await next
      const tookMs = performance.now() - releasedAt
      assert(tookMs > CALL_MS && tookMs < CALL_MS + 500 + latenessMs(), `${tookMs} ms`)
      await end?.()
      await (await last)?.()
    })

    it(`callers of ${title} whose queue is lost return to it in their old order`, async () => {
      const { first, second, release } = await open(1)
      const order: number[] = []
      const sections: Promise<void>[] = []
      for (const index of [0, 1, 2, 3]) {
        const ask = async (): Promise<void> => {
          const end = await (index % 2 ? first : second).take()
          order.push(index)
          await end?.()
        }
        sections.push((await queue(index, ask)).taken)
      }
      await fixture.server.admin.del(QUEUE)
      await waitUntil(async () => (await fixture.server.admin.zcard(QUEUE)) === 4, { timeoutMs: 10_000 })
      await release()
      await Promise.all(sections)
      assert.deepEqual(order, [0, 1, 2, 3])
    })

    it(`a priority without an order is refused before a command, and so is an order that ${title} does not have`, async () => {
      const client = await fixture.connect()
      await assert.rejects(semaphoreOf(client, {}).take({ priority: 1 }), { code: 'LOCK_CONFIG', path: 'priority' })
      await assert.rejects(semaphoreOf(client).take({ priority: 1.5 }), { code: 'LOCK_CONFIG', path: 'priority' })
      assert.throws(() => semaphoreOf(client, { order: 'lifo' as 'fifo' }), { code: 'LOCK_CONFIG', path: 'order' })
      assert.throws(() => semaphoreOf(client, { maxWaiters: 1 }), { code: 'LOCK_CONFIG', path: 'maxWaiters' })
    })
  })
}

describe('permits in order beside others', () => {
  const fixture = setUpFixture()

  it('a semaphore without an order lets one that wants few go before one that wants many', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const [first, second] = [one.getSemaphore('a'), two.getSemaphore('a')]
    await first.trySetPermits(1)
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const waiting = second.acquire({ permits: 2 })
    await waitUntil(async () => Number((await fixture.server.admin.pubsub('NUMSUB', 'redisson_sc:{a}'))[1]) > 0)
    assert.equal(await first.tryAcquire(), true)
    await first.release(2)
    await waiting
  })

  it('a waiter for permits in order gets those that Redisson gives back', async () => {
    const [client, peer] = [await fixture.connect(), await openSynchronizerTwin(fixture)]
    const semaphore = client.getSemaphore('a', { order: 'fifo' })
    await semaphore.trySetPermits(1)
    fixture.onEnd(() => fixture.server.admin.del('a'))
    await semaphore.acquire()
    const waiting = semaphore.acquire()
    const channel = 'redisson_sc:{a}'
    await waitUntil(async () => Number((await fixture.server.admin.pubsub('NUMSUB', channel))[1]) > 0)
    const latenessMs = measureLateness()
    const releasedAt = performance.now()
    await peer.release('a')
    await waiting
    const tookMs = performance.now() - releasedAt
    assert(tookMs < 500 + latenessMs(), `${tookMs} ms`)
  })
})
