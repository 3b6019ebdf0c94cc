import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { ioredis } from '../../src/adapters/ioredis.js'
import { type Client, type ClientClosedError, connect, type Semaphore } from '../../src/index.js'
import { semaphoreAcquire } from '../../src/lua/generated.js'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpLab } from '../support/lab.js'
import { listening, RECEIPTS, WOKEN_MS } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const BAD_COUNTS: readonly unknown[] = [Number.NaN, 1.5, -1, 2 ** 31, Number.POSITIVE_INFINITY, '1', null, {}, 1n, true]

/** Lets a random part of a round trip pass. */
async function moment(): Promise<void> {
  const until = performance.now() + Math.random() * 1.5
  while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
}

for (const driver of drivers) {
  describe(`a semaphore, through ${driver.name}`, () => {
    const lab = setUpLab(driver)

    /** The semaphore `a` with so many permits, which is deleted after the test. */
    async function semaphoreWith(permits: number): Promise<{ client: Client; semaphore: Semaphore }> {
      lab.onEnd(() => lab.server.admin.del('a'))
      const client = await lab.connect()
      const semaphore = client.getSemaphore('a')
      assert.equal(await semaphore.trySetPermits(permits), true)
      return { client, semaphore }
    }

    it('is created once, and has none before', async () => {
      const client = await lab.connect()
      const semaphore = client.getSemaphore('a')
      assert.equal(semaphore.name, 'a')
      assert.equal(await semaphore.availablePermits(), 0)
      assert.equal(await semaphore.tryAcquire(), false)
      assert.equal(await semaphore.trySetPermits(3), true)
      assert.equal(await semaphore.trySetPermits(5), false)
      assert.equal(await semaphore.availablePermits(), 3)
      assert.equal(await semaphore.delete(), true)
      assert.equal(await semaphore.delete(), false)
      assert.equal(await semaphore.trySetPermits(0), true)
      assert.equal(await semaphore.tryAcquire(), false)
      assert.equal(await semaphore.delete(), true)
    })

    it('gives permits as long as there are enough, to whoever asks', async () => {
      const { semaphore } = await semaphoreWith(3)
      const other = (await lab.connect()).getSemaphore('a')
      await semaphore.acquire()
      assert.equal(await other.tryAcquire({ permits: 3 }), false)
      await other.acquire({ permits: 2 })
      assert.equal(await semaphore.tryAcquire(), false)
      assert.equal(await semaphore.availablePermits(), 0)
      await other.release(3)
      assert.equal(await semaphore.availablePermits(), 3)
    })

    it('takes and releases no permits without a word to Redis', async () => {
      const { semaphore } = await semaphoreWith(0)
      const count = await countCommands(lab.server, async () => {
        await semaphore.acquire({ permits: 0 })
        assert.equal(await semaphore.tryAcquire({ permits: 0 }), true)
        await semaphore.release(0)
        assert.equal(await semaphore.releaseIfExists(0), false)
        await semaphore.addPermits(0)
        await semaphore.reducePermits(0)
        await sleep(80) // what was to be forgotten of its creation
      })
      assert.equal(count.calls['incrby'], undefined)
      assert(count.scripts <= 1, `${count.scripts} commands`)
    })

    it('can have more permits, fewer, fewer than none, or be drained', async () => {
      const { semaphore } = await semaphoreWith(2)
      await semaphore.addPermits(3)
      assert.equal(await semaphore.availablePermits(), 5)
      await semaphore.reducePermits(4)
      assert.equal(await semaphore.availablePermits(), 1)
      await semaphore.reducePermits(3)
      assert.equal(await semaphore.availablePermits(), -2)
      assert.equal(await semaphore.tryAcquire(), false)
      await semaphore.release(2)
      assert.equal(await semaphore.tryAcquire(), false)
      await semaphore.release(4)
      assert.equal(await semaphore.drainPermits(), 4)
      assert.equal(await semaphore.drainPermits(), 0)
      assert.equal(await semaphore.tryAcquire(), false)
    })

    it('may end by itself, and is not created again by releaseIfExists', async () => {
      const semaphore = (await lab.connect()).getSemaphore('a')
      assert.equal(await semaphore.trySetPermits(1, { timeToLiveMs: 300 }), true)
      await semaphore.acquire()
      assert.equal(await semaphore.releaseIfExists(), true)
      await semaphore.acquire()
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 0)
      assert.equal(await semaphore.releaseIfExists(), false)
      assert.equal(await lab.server.admin.exists('a'), 0)
      await semaphore.release() // what does not exist is created
      assert.equal(await semaphore.availablePermits(), 1)
      await semaphore.delete()
    })

    it('wakes one who waits in another process as soon as there are enough', async () => {
      const { semaphore } = await semaphoreWith(0)
      const other = (await lab.connect()).getSemaphore('a')
      const waiting = other.acquire({ permits: 2 })
      await listening(lab)
      await semaphore.release()
      assert.equal(await semaphore.availablePermits(), 1)
      const releasedAt = performance.now()
      await semaphore.release()
      await waiting
      assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
      assert.equal(await semaphore.availablePermits(), 0)
    })

    it('serves as many of those who wait, here and elsewhere, as permits come at once', async () => {
      const { client, semaphore } = await semaphoreWith(0)
      const other = await lab.connect()
      let served = 0
      const waiting = [client, other, client, other, client, other].map(async (each) => {
        await each.getSemaphore('a').acquire()
        served++
      })
      await waitUntil(async () => (await lab.server.admin.pubsub('NUMSUB', 'redisson_sc:{a}'))[1] === 2)
      const releasedAt = performance.now()
      await semaphore.release(4)
      await waitUntil(() => served === 4)
      await semaphore.addPermits(2)
      await Promise.all(waiting)
      assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
      assert.equal(await semaphore.availablePermits(), 0)
    })

    it('wakes those who wait for it to be created', async () => {
      lab.onEnd(() => lab.server.admin.del('a'))
      const [client, other] = [await lab.connect(), await lab.connect()]
      const waiting = client.getSemaphore('a').acquire()
      await listening(lab)
      const createdAt = performance.now()
      await other.getSemaphore('a').trySetPermits(1)
      await waiting
      assert(performance.now() - createdAt < WOKEN_MS, 'woken, not polling')
    })

    it('refuses when the wait time is over, and has taken nothing', async () => {
      const { semaphore } = await semaphoreWith(1)
      for (const waitTimeMs of [0, 150]) {
        const askedAt = performance.now()
        assert.equal(await semaphore.tryAcquire({ permits: 2, waitTimeMs }), false)
        assert(performance.now() - askedAt >= waitTimeMs - 2)
        await assert.rejects(semaphore.acquire({ permits: 2, waitTimeMs }), {
          code: 'LOCK_WAIT_TIMEOUT',
          lockName: 'a',
          waitTimeMs,
          message: /^Semaphore "a" had not enough permits within/,
        })
      }
      const asked = await settlesWithin(semaphore.tryAcquire({ permits: 2, waitTimeMs: undefined }), 3_000)
      assert.deepEqual(asked, { status: 'fulfilled', value: false })
      assert.equal(await semaphore.availablePermits(), 1)
    })

    it('ends a wait by a signal at once, with its reason, and leaves nothing', async () => {
      const { semaphore } = await semaphoreWith(0)
      const reason = new Error('the request was aborted')
      await assert.rejects(semaphore.acquire({ signal: AbortSignal.abort(reason) }), reason)
      const abort = new AbortController()
      const waiting = [
        semaphore.acquire({ signal: abort.signal }),
        semaphore.tryAcquire({ waitTimeMs: 60_000, signal: abort.signal }),
      ]
      const settled = Promise.allSettled(waiting)
      await listening(lab)
      abort.abort(reason)
      assert.deepEqual(await settled, [
        { status: 'rejected', reason },
        { status: 'rejected', reason },
      ])
      await listening(lab, 0)
      await semaphore.release()
      assert.equal(await semaphore.availablePermits(), 1)
    })

    it('loses no permit to an abort that races with the grant', async () => {
      const { semaphore } = await semaphoreWith(2)
      const other = (await lab.connect()).getSemaphore('a')
      const outcomes = { taken: 0, aborted: 0 }
      const settle = async (taking: Promise<void>): Promise<void> => {
        const { status } = await settlesWithin(taking, 5_000)
        if (status === 'fulfilled') await semaphore.release(2)
        outcomes[status === 'fulfilled' ? 'taken' : 'aborted']++
      }
      for (let round = 0; round < 80; round++) {
        const abort = new AbortController()
        const taking = settle(semaphore.acquire({ permits: 2, signal: abort.signal }))
        await moment()
        abort.abort()
        await taking
        await waitUntil(async () => (await other.availablePermits()) === 2)
      }
      for (let round = 0; round < 40; round++) {
        const abort = new AbortController()
        await other.acquire({ permits: 2 })
        const taking = settle(semaphore.acquire({ permits: 2, signal: abort.signal }))
        await listening(lab)
        const released = other.release(2)
        await moment()
        abort.abort()
        await Promise.all([taking, released])
        await waitUntil(async () => (await other.availablePermits()) === 2)
      }
      assert(outcomes.aborted > 0, 'some were aborted')
    })

    it('runs a function with permits, and gives them back however it ends', async () => {
      const { semaphore } = await semaphoreWith(2)
      assert.equal(await semaphore.withPermit(() => 'done'), 'done')
      const value = await semaphore.withPermit({ permits: 2 }, async (signal) => {
        assert.equal(signal.aborted, false)
        assert.equal(await semaphore.availablePermits(), 0)
        assert.deepEqual(await semaphore.tryWithPermit(() => 'never'), { ran: false })
        assert.deepEqual(await semaphore.tryWithPermit({ permits: 2, waitTimeMs: 50 }, () => 'never'), { ran: false })
        return 7
      })
      assert.equal(value, 7)
      assert.deepEqual(await semaphore.tryWithPermit({ permits: 2 }, () => 'done'), { ran: true, value: 'done' })
      await assert.rejects(
        semaphore.withPermit(() => Promise.reject(new Error('body'))),
        { message: 'body' },
      )
      await assert.rejects(
        semaphore.tryWithPermit(() => {
          throw new Error('body')
        }),
        { message: 'body' },
      )
      await assert.rejects(
        semaphore.withPermit({ permits: 3, waitTimeMs: 20 }, () => {}),
        { code: 'LOCK_WAIT_TIMEOUT' },
      )
      assert.equal(await semaphore.availablePermits(), 2)
    })

    it('rejects waiters when the client closes, and refuses every call after it', async () => {
      const { client, semaphore } = await semaphoreWith(0)
      const waiting = Array.from({ length: 200 }, (_, n) =>
        settlesWithin(semaphore.acquire({ permits: 1 + (n % 3) }), 5_000),
      )
      await listening(lab)
      await client.close()
      for (const outcome of await Promise.all(waiting)) {
        assert(outcome.status === 'rejected')
        assert.deepEqual([outcome.reason.code, outcome.reason.lockName], ['LOCK_CLIENT_CLOSED', 'a'])
      }
      for (const call of [
        () => semaphore.acquire(),
        () => semaphore.acquire({ permits: 0 }),
        () => semaphore.tryAcquire(),
        () => semaphore.withPermit(() => {}),
        () => semaphore.release(),
        () => semaphore.releaseIfExists(),
        () => semaphore.trySetPermits(1),
        () => semaphore.addPermits(1),
        () => semaphore.reducePermits(1),
        () => semaphore.drainPermits(),
        () => semaphore.availablePermits(),
        () => semaphore.delete(),
      ]) {
        await assert.rejects(call, { code: 'LOCK_CLIENT_CLOSED' })
      }
    })

    it('lets sections end by themselves for drainMs, and gives the permits of the others back then', async () => {
      const { client, semaphore } = await semaphoreWith(5)
      const steps: string[] = []
      let reason: ClientClosedError | undefined
      let running = 0
      const ends = semaphore.withPermit({ permits: 2 }, async (signal) => {
        running++
        await sleep(100)
        steps.push(signal.aborted ? 'cut' : 'drained')
      })
      const goesOn = settlesWithin(
        semaphore.withPermit({ permits: 3 }, async (signal) => {
          running++
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          reason = signal.reason
          await waitUntil(async () => (await lab.server.admin.get('a')) === '5')
          return 'too late'
        }),
        5_000,
      )
      await waitUntil(() => running === 2)
      await client.close({ drainMs: 400 })
      await ends
      assert.deepEqual(steps, ['drained'])
      assert.equal(await lab.server.admin.get('a'), '5')
      assert.equal(reason?.code, 'LOCK_CLIENT_CLOSED')
      const outcome = await goesOn
      assert.equal(outcome.status === 'rejected' && outcome.reason, reason)
      assert.equal(await lab.server.admin.get('a'), '5', 'given back once')
    })

    it('gives back what is granted while the client closes', async () => {
      lab.onEnd(() => lab.server.admin.del('a'))
      for (let round = 0; round < 5; round++) {
        await lab.server.admin.set('a', '40')
        const client = await lab.connect()
        const semaphore = client.getSemaphore('a')
        await semaphore.availablePermits()
        let ran = 0
        const calls = Array.from({ length: 10 }, () => [
          semaphore.tryAcquire(),
          semaphore.acquire(),
          semaphore.tryWithPermit(() => ran++),
          semaphore.withPermit(() => ran++),
        ])
        const settled = Promise.allSettled(calls.flat())
        await client.close()
        for (const outcome of await settled) {
          assert(outcome.status === 'rejected', 'nobody has a permit of a closed client')
          assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
        }
        assert.equal(ran, 0)
        assert.equal(await lab.server.admin.get('a'), '40')
      }
    })
  })
}

describe('a semaphore', () => {
  const lab = setUpLab()

  it('refuses what cannot work by name and value, and sends nothing', async () => {
    const client = await lab.connect()
    const semaphore = client.getSemaphore('a')
    const refusal = (path: string) => ({ code: 'LOCK_CONFIG', path, lockName: 'a' })
    const count = await countCommands(lab.server, async () => {
      for (const value of BAD_COUNTS) {
        const permits = value as number
        for (const call of [
          () => semaphore.acquire({ permits }),
          () => semaphore.tryAcquire({ permits }),
          () => semaphore.withPermit({ permits }, () => {}),
          () => semaphore.tryWithPermit({ permits }, () => {}),
          () => semaphore.release(permits),
          () => semaphore.releaseIfExists(permits),
          () => semaphore.trySetPermits(permits),
          () => semaphore.addPermits(permits),
          () => semaphore.reducePermits(permits),
        ]) {
          await assert.rejects(call, refusal('permits'), `${typeof value} ${String(value)}`)
        }
      }
      for (const value of [Number.NaN, -1, 0.5, '10', null]) {
        const ms = value as number
        await assert.rejects(semaphore.acquire({ waitTimeMs: ms }), refusal('waitTimeMs'))
        await assert.rejects(semaphore.tryAcquire({ waitTimeMs: ms }), refusal('waitTimeMs'))
        await assert.rejects(semaphore.acquire({ warnAfterMs: ms }), refusal('warnAfterMs'))
        await assert.rejects(semaphore.trySetPermits(1, { timeToLiveMs: ms }), refusal('timeToLiveMs'))
      }
      await assert.rejects(semaphore.trySetPermits(1, { timeToLiveMs: 0 }), refusal('timeToLiveMs'))
      await assert.rejects(semaphore.acquire({ signal: {} as AbortSignal }), refusal('signal'))
      await assert.rejects(semaphore.acquire({ label: 7 as unknown as string }), refusal('label'))
      await assert.rejects(semaphore.acquire({ permit: 1 } as object), refusal('permit'))
      await assert.rejects(semaphore.acquire({ leaseTimeMs: 1_000 } as object), refusal('leaseTimeMs'))
      await assert.rejects(semaphore.acquire(null as unknown as object), refusal('options'))
      await assert.rejects(semaphore.trySetPermits(1, { ttl: 1 } as object), refusal('ttl'))
      await assert.rejects(semaphore.withPermit({}, undefined as unknown as () => void), refusal('fn'))
      await assert.rejects(semaphore.tryWithPermit({}, 'fn' as unknown as () => void), refusal('fn'))
    })
    assert.equal(count.total, 0)
    for (const name of ['', 7, null, 'a\ud800', 'a'.repeat(2 ** 20 + 1)]) {
      assert.throws(() => client.getSemaphore(name as string), { code: 'LOCK_CONFIG', path: 'semaphore name' })
    }
  })

  it('costs two commands for an acquire and a release, and a few for all that Redis may forget then', async () => {
    lab.onEnd(() => lab.server.admin.del('a'))
    const semaphore = (await lab.connect()).getSemaphore('a')
    await semaphore.trySetPermits(1)
    await semaphore.withPermit(() => {}) // Redis knows the scripts from here on
    await sleep(100)
    const startedAt = performance.now()
    const count = await countCommands(lab.server, async () => {
      for (let n = 0; n < 200; n++) {
        await semaphore.acquire()
        await semaphore.release()
      }
    })
    const batches = Math.ceil((performance.now() - startedAt) / 50) + 1
    assert(
      count.scripts >= 400 && count.scripts <= 400 + batches,
      `${count.scripts} commands, ${batches} batches at most`,
    )
  })

  it('lets a thousand wait at the price of one, and none of them be missed', async () => {
    lab.onEnd(() => lab.server.admin.del('a'))
    const [client, other] = [await lab.connect(), await lab.connect()]
    const semaphore = client.getSemaphore('a')
    await other.getSemaphore('a').trySetPermits(0)
    let [inside, most] = [0, 0]
    const count = await countCommands(lab.server, async () => {
      const waiting = Array.from({ length: 1_000 }, () =>
        semaphore.withPermit(async () => {
          most = Math.max(most, ++inside)
          await sleep(2)
          inside--
        }),
      )
      await listening(lab)
      await other.getSemaphore('a').addPermits(10)
      await Promise.all(waiting)
    })
    assert(most <= 10 && most > 1, `${most} at once`)
    assert.equal(count.calls['subscribe'], 1)
    assert.equal(count.calls['unsubscribe'], 1)
    assert(count.scripts / 1_000 < 4, `${count.scripts / 1_000} commands a section`)
    assert.equal(await semaphore.availablePermits(), 10)
  })

  it('reports a long wait', async () => {
    lab.onEnd(() => lab.server.admin.del('a'))
    const client = await lab.connect()
    const waits: unknown[] = []
    client.on('longWait', (wait) => waits.push(wait))
    const options = { waitTimeMs: 300, warnAfterMs: 100, label: 'import' }
    assert.equal(await client.getSemaphore('a').tryAcquire(options), false)
    assert.deepEqual(waits, [{ lockName: 'a', label: 'import', waitedMs: 100 }])
  })

  it('keeps its value and its permits when data of another type is at its name', async () => {
    const semaphore = (await lab.connect()).getSemaphore('a')
    await lab.server.admin.lpush('a', 'my data')
    for (const call of [
      () => semaphore.acquire(),
      () => semaphore.release(),
      () => semaphore.addPermits(1),
      () => semaphore.drainPermits(),
      () => semaphore.availablePermits(),
    ]) {
      await assert.rejects(call, { message: /WRONGTYPE/ })
    }
    assert.equal(await semaphore.trySetPermits(1), false)
    assert.equal(await semaphore.delete(), true)
  })
})

describe('a semaphore whose client is closed in the middle of a release', () => {
  const lab = setUpLab(undefined, [], { keysThatStay: RECEIPTS })

  it('is settled before close() resolves', async () => {
    lab.onEnd(() => lab.server.admin.del('a'))
    await lab.server.admin.set('a', '1')
    const client = await connect(lab.server.url)
    const semaphore = client.getSemaphore('a')
    await semaphore.acquire()
    await lab.server.admin.replicaof('127.0.0.1', 1)
    const released = settlesWithin(semaphore.release(), 5_000)
    await sleep(20)
    await lab.server.admin.replicaof('NO', 'ONE')
    await client.close()
    await released
    assert.equal(await lab.server.admin.get('a'), '1')
  })
})

describe('a semaphore whose client is closed right after a grant', () => {
  const lab = setUpLab()

  it('has all its permits again, however soon that is, and nobody runs on without one', async () => {
    const { admin, url } = lab.server
    lab.onEnd(() => admin.del('a'))
    await admin.set('a', '1')
    const acquire = semaphoreAcquire('', '', 1, 1).script
    for (let turns = 0; turns < 25; turns++) {
      const redis = new Redis(url)
      const port = ioredis(redis)
      const send = port.send.bind(port)
      let closing: Promise<void> | undefined
      port.send = async (command, key) => {
        const reply = await send(command, key)
        const isGrant = reply === 1 && (command[1] === acquire.sha1 || command[1] === acquire.text)
        if (isGrant) void afterTurns(turns).then(() => (closing = client.close()))
        return reply
      }
      const client = await connect({ client: port })
      const semaphore = client.getSemaphore('a')
      let isRunning = false
      const ended = settlesWithin(
        semaphore.withPermit(async (signal) => {
          isRunning = true
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          isRunning = false
        }),
        5_000,
      )
      const outcome = await ended
      assert(outcome.status === 'rejected' && outcome.reason.code === 'LOCK_CLIENT_CLOSED', `after ${turns} turns`)
      await closing
      assert.equal(isRunning, false)
      assert.equal(await admin.get('a'), '1', `closed ${turns} turns after the grant`)
      redis.disconnect()
    }
  })
})

/** Lets so many turns of the queue of promises pass. */
async function afterTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await null
}
