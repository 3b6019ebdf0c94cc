import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { ioredis } from '../../src/adapters/ioredis/port.js'
import { connect } from '../../src/index.js'
import { semaphoreAcquire } from '../../src/lua/generated.js'
import { inTime } from '../../src/lua/variants.js'
import { idempotencyKey } from '../../src/wire/keys.js'
import { semaphoreContract } from '../contract/semaphore.js'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { STORED_REPLIES } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const BAD_COUNTS: readonly unknown[] = [Number.NaN, 1.5, -1, 2 ** 31, Number.POSITIVE_INFINITY, '1', null, {}, 1n, true]

for (const driver of drivers) {
  describe(`a semaphore, through ${driver.name}`, () => semaphoreContract(() => setUpFixture(driver)))
}

describe('a semaphore in order', () => semaphoreContract(() => setUpFixture(), { order: 'fifo' }))

describe('a semaphore', () => {
  const fixture = setUpFixture()

  it('invalid arguments are refused by name and value, and nothing is sent', async () => {
    const client = await fixture.connect()
    const semaphore = client.getSemaphore('a')
    const refusal = (path: string) => ({ code: 'LOCK_CONFIG', path, lockName: 'a' })
    const count = await countCommands(fixture.server, async () => {
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

  it('a semaphore acquire and release costs two commands, and a few to clear the idempotency keys', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const semaphore = (await fixture.connect()).getSemaphore('a')
    await semaphore.trySetPermits(1)
    await semaphore.withPermit(() => {}) // Redis knows the scripts from here on
    await sleep(100)
    const startedAt = performance.now()
    const count = await countCommands(fixture.server, async () => {
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

  it('a thousand waiters of a semaphore cost as much as one, and all of them are served', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const semaphore = client.getSemaphore('a')
    await other.getSemaphore('a').trySetPermits(0)
    let [inside, most] = [0, 0]
    const count = await countCommands(fixture.server, async () => {
      const waiting = Array.from({ length: 1_000 }, () =>
        semaphore.withPermit(async () => {
          most = Math.max(most, ++inside)
          await sleep(2)
          inside--
        }),
      )
      await listening(fixture)
      await other.getSemaphore('a').addPermits(10)
      await Promise.all(waiting)
    })
    assert(most <= 10 && most > 1, `${most} at once`)
    assert.equal(count.calls['subscribe'], 1)
    assert.equal(count.calls['unsubscribe'], 1)
    assert(count.scripts / 1_000 < 4, `${count.scripts / 1_000} commands a section`)
    assert.equal(await semaphore.availablePermits(), 10)
  })

  it('a long wait for a semaphore is reported', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const client = await fixture.connect()
    const waits: unknown[] = []
    client.on('longWait', (wait) => waits.push(wait))
    const options = { waitTimeMs: 300, warnAfterMs: 100, label: 'import' }
    assert.equal(await client.getSemaphore('a').tryAcquire(options), false)
    const heldBy = 'it does not exist, so it has no permits: create it with trySetPermits()'
    const nobody = { holders: [], position: undefined }
    assert.deepEqual(waits, [{ lockName: 'a', label: 'import', waitedMs: 100, heldBy, ...nobody }])
  })

  it('data of another type under the name of a semaphore is not changed', async () => {
    const semaphore = (await fixture.connect()).getSemaphore('a')
    await fixture.server.admin.lpush('a', 'my data')
    for (const call of [
      () => semaphore.acquire(),
      () => semaphore.release(),
      () => semaphore.addPermits(1),
      () => semaphore.drainPermits(),
      () => semaphore.availablePermits(),
      () => semaphore.delete(),
    ]) {
      await assert.rejects(call, {
        code: 'LOCK_WRONG_TYPE',
        lockName: 'a',
        found: 'list',
        message: /has a list there.*WRONGTYPE/,
      })
    }
    assert.equal(await semaphore.trySetPermits(1), false)
    assert.equal(await fixture.server.admin.del('a'), 1)
  })
})

const DAY_MS = 86_400_000

describe('a semaphore that was replaced', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: STORED_REPLIES })

  for (const [name, key] of [
    ['order', 'holdfast_generation:{order}'],
    ['{shop}:order', 'holdfast_generation:{shop}:order'],
  ] as const) {
    it(`a replaced semaphore has a new generation, in a key that lasts a day or as long as the semaphore: ${name}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del(name))
      const { admin } = fixture.server
      const semaphore = (await fixture.connect()).getSemaphore(name)
      const numbers = new Set<string | null>([null])
      const expectAnother = async (expiryMs: number, action: () => Promise<unknown>): Promise<void> => {
        await action()
        const number = await admin.get(key)
        assert(!numbers.has(number), `${number} is not new`)
        numbers.add(number)
        const left = await admin.pttl(key)
        assert(left <= expiryMs && left > expiryMs - 20_000, `it expires in ${left} ms`)
        assert.equal(Number(number) < 0, expiryMs < DAY_MS, 'a number below 0 has an expiry')
      }
      await expectAnother(DAY_MS, () => semaphore.trySetPermits(5))
      const before = await admin.get(key)
      await semaphore.acquire()
      await semaphore.release(2)
      await semaphore.addPermits(1)
      await semaphore.reducePermits(1)
      await semaphore.drainPermits()
      assert.equal(await semaphore.trySetPermits(7), false)
      assert.equal(await admin.get(key), before)
      await expectAnother(DAY_MS, () => semaphore.delete())
      await expectAnother(60_000, () => semaphore.trySetPermits(1, { timeToLiveMs: 60_000 }))
      await expectAnother(DAY_MS, () => semaphore.delete())
      await expectAnother(DAY_MS, () => semaphore.release())
      await admin.set(name, 1, 'PX', 40_000) // Redisson has deleted it, and created another one
      await expectAnother(40_000, () => semaphore.acquire())
    })
  }

  it('permits acquired from the previous semaphore for a caller that has gone are not added to the new one', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const other = (await fixture.connect()).getSemaphore('a')
    const semaphore = client.getSemaphore('a')
    for (const replace of [() => other.trySetPermits(1), async () => {}]) {
      await other.trySetPermits(1)
      await semaphore.withPermit(() => {}) // Redis knows the scripts from here on
      const abort = new AbortController()
      proxy.holdReplies()
      const taking = semaphore.acquire({ signal: abort.signal })
      await waitUntil(async () => (await fixture.server.admin.get('a')) === '0')
      await other.delete()
      await replace()
      abort.abort(new Error('enough'))
      await assert.rejects(taking, /enough/)
      proxy.pass()
      const key = idempotencyKey('a', client.id)
      await waitUntil(async () =>
        Object.values(await fixture.server.admin.hgetall(key)).every((reply) => reply === '0'),
      )
      await sleep(200)
      assert.equal(await other.availablePermits(), (await other.delete()) ? 1 : 0)
    }
  })
})

describe('a semaphore whose client is closed in the middle of a release', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: STORED_REPLIES })

  it('a release during close() completes before close() resolves', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    await fixture.server.admin.set('a', '1')
    const client = await connect(fixture.server.url)
    const semaphore = client.getSemaphore('a')
    await semaphore.acquire()
    await fixture.server.admin.replicaof('127.0.0.1', 1)
    const released = settlesWithin(semaphore.release(), 5_000)
    await sleep(20)
    await fixture.server.admin.replicaof('NO', 'ONE')
    await client.close()
    await released
    assert.equal(await fixture.server.admin.get('a'), '1')
  })
})

describe('a semaphore whose client closes right after a grant', () => {
  const fixture = setUpFixture()

  it('all permits are back after close() right after a grant, and no callback continues without one', async () => {
    const { admin, url } = fixture.server
    fixture.onEnd(() => admin.del('a'))
    await admin.set('a', '1')
    const acquire = inTime(semaphoreAcquire('', '', '', 1, 1, 0).script)
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

/** Lets `turns` turns of the microtask queue pass. */
async function afterTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await null
}
