/** Known defects of the locks that are made of several, and of the spin lock: see `defects.test.ts`. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { getMultiLock, getRedLock } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { recordMessages } from '../support/key-contents.js'
import { setUpLab } from '../support/lab.js'
import { startRedis } from '../support/redis-server.js'
import { renewed } from '../support/renewed.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** Less than any poll: who is served by then was woken. */
const WOKEN_MS = 3_000

describe('known defects of the multi-lock and the red lock', () => {
  const lab = setUpLab()

  async function expectLease(name: string, leaseMs: number): Promise<void> {
    const left = await lab.server.admin.pttl(name)
    assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `PTTL of ${name} is ${left}, not about ${leaseMs}`)
  }

  async function exists(name: string): Promise<boolean> {
    return (await lab.server.admin.exists(name)) === 1
  }

  it('M1: rounds that fail leave the lease what it is', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const busy = await other.getSpinLock('b').lock()
    // Spin locks are taken one after the other.
    const waiting = getMultiLock(client.getSpinLock('a'), client.getSpinLock('b')).lock({ leaseTimeMs: 20_000 })
    for (let look = 0; look < 100; look++) {
      const left = await lab.server.admin.pttl('a')
      assert(left <= 20_050 && (left === -2 || left > 10_000), `PTTL of a is ${left}`)
    }
    await sleep(300)
    assert.equal(await exists('a'), false, 'a round failed')
    await busy.unlock()
    const hold = await waiting
    await expectLease('a', 20_000)
    await expectLease('b', 20_000)
    assert(hold.remainingMs() <= 20_000)
    await hold.unlock()
  })

  it('M2: a member that cannot be released leaves no other one locked', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await getMultiLock(...['a', 'b', 'c'].map((name) => client.getLock(name))).lock()
    await other.getLock('a').forceUnlock()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(await lab.server.admin.keys('*'), [])
  })

  it('M3: a member that was taken away meanwhile is not counted, and who has it keeps its lease', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const { client: slow, proxy } = await lab.connectThroughProxy()
    await slow.getLock('b').withLock(() => {})
    proxy.delay(1_500)
    const waiting = getMultiLock(client.getLock('a'), slow.getLock('b')).lock({ leaseTimeMs: 60_000 })
    await waitUntil(() => exists('a'))
    await other.getLock('a').forceUnlock()
    const stranger = await other.getLock('a').lock({ leaseTimeMs: 10_000 })
    await waitUntil(() => exists('b'))
    proxy.pass()

    assert.equal(await Promise.race([waiting, sleep(1_500)]), undefined, 'it waits for the stranger')
    await expectLease('a', 10_000)
    await stranger.unlock()
    await (await waiting).unlock()
  })

  it('M4: what is taken first does not end while the rest is waited for; the lease begins when all are taken', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const busy = await other.getLock('b').lock({ leaseTimeMs: 1_400 })
    const multi = getMultiLock(client.getLock('a'), client.getLock('b'))
    const hold = await multi.lock({ leaseTimeMs: 600, waitTimeMs: 10_000 })
    hold.assertHeld()
    for (const name of ['a', 'b']) assert((await lab.server.admin.pttl(name)) > 100, `${name} is held`)
    assert(hold.remainingMs() <= 600)
    await waitUntil(() => hold.signal.aborted)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await assert.rejects(busy.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('M5: an abort ends the wait at once with its reason, and what was taken is given back', async () => {
    const client = await lab.connect()
    const { client: slow, proxy } = await lab.connectThroughProxy()
    await slow.getLock('b').withLock(() => {})
    proxy.delay(1_500)
    const abort = new AbortController()
    const waiting = getMultiLock(client.getLock('a'), slow.getLock('b')).lock({ signal: abort.signal })
    await waitUntil(() => exists('a'))
    const startedAt = performance.now()
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    assert(performance.now() - startedAt < 1_000)
    await waitUntil(async () => !(await exists('a')))
    proxy.pass()
    await waitUntil(async () => (await lab.server.admin.dbsize()) === 0)
  })

  it('M5: an abort ends the wait for plain locks, and none of them was taken', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const busy = await other.getLock('b').lock()
    const abort = new AbortController()
    const waiting = getMultiLock(client.getLock('a'), client.getLock('b')).lock({ signal: abort.signal })
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    assert.equal(await exists('a'), false)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await busy.unlock()
  })

  it('M6: whatever a member fails with, the others are given back', async () => {
    const client = await lab.connect()
    await lab.server.admin.set('b', 'no lock')
    const multi = getMultiLock(client.getLock('a'), client.getLock('b'))
    await assert.rejects(multi.lock(), /WRONGTYPE/)
    await assert.rejects(multi.tryLock({ waitTimeMs: 5_000 }), /WRONGTYPE/)
    assert.equal(await exists('a'), false)
    await lab.server.admin.del('b')
  })

  it('M7: the time that asking took is no part of what is left of a red lock, and a lease shorter than that is no hold', async () => {
    const { client: slow, proxy } = await lab.connectThroughProxy()
    const red = getRedLock(...['a', 'b', 'c'].map((name) => slow.getLock(name)))
    proxy.delay(200)
    const hold = await red.lock({ leaseTimeMs: 5_000 })
    assert(hold.remainingMs() <= 4_800, `${hold.remainingMs()} ms are left`)
    await hold.unlock()
    const tooShort = red.tryLock({ leaseTimeMs: 100 })
    await assert.rejects(tooShort, { code: 'LOCK_QUORUM' })
    proxy.pass()
    await waitUntil(async () => (await lab.server.admin.dbsize()) === 0)
  })

  it('M8: a grant that comes after the majority joins the hold, and is released with it', async () => {
    const [client, { client: slow, proxy }] = [await lab.connect(), await lab.connectThroughProxy()]
    const red = getRedLock(client.getLock('a'), client.getLock('b'), slow.getLock('c'))
    await (await red.lock()).unlock()
    proxy.delay(1_500)
    const startedAt = performance.now()
    const hold = await red.lock()
    assert(performance.now() - startedAt < 1_400, 'the majority was enough')
    await waitUntil(() => exists('c'))
    await sleep(2_000) // the answer needs 1500 ms
    proxy.pass()
    await hold.unlock()
    assert.equal(await exists('c'), false)
  })

  it('M9: two that name the same locks in opposite order do not get in each other’s way', async () => {
    const clients = [await lab.connect(), await lab.connect()]
    const startedAt = performance.now()
    await Promise.all(
      clients.map(async (client, index) => {
        const names = index === 0 ? ['a', 'b'] : ['b', 'a']
        for (let round = 0; round < 50; round++)
          await getMultiLock(...names.map((name) => client.getLock(name))).withLock(() => {})
      }),
    )
    const tookMs = performance.now() - startedAt
    assert(tookMs < 10_000, `${tookMs} ms for 100 sections; one round that fails takes up to 3000`)
  })

  it('M9: two red locks that split the votes do not do so again and again', async () => {
    const servers = [await startRedis(), await startRedis()]
    for (const server of servers) lab.onEnd(() => server.stop())
    const urls = [lab.server.url, ...servers.map(({ url }) => url)]
    let [inside, sections] = [0, 0]
    const sell = async (): Promise<void> => {
      const clients = await Promise.all(urls.map((url) => lab.connect({}, url)))
      const red = getRedLock(...clients.map((client) => client.getLock('a')))
      for (let round = 0; round < 5; round++) {
        await red.withLock(async () => {
          assert.equal(++inside, 1)
          await sleep(5)
          inside--
          sections++
        })
      }
    }
    await Promise.all([sell(), sell(), sell()])
    assert.equal(sections, 15)
  })
})

describe('known defects of the multi-lock of values', () => {
  const lab = setUpLab()

  it('X1: of values of which some were lost the others are released, their waiters woken, and the holder is told', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getFasterMultiLock('order', ['a', 'b']).lock()
    await other.getFasterMultiLock('order', ['a']).forceUnlock()
    const waiting = other.getFasterMultiLock('order', ['b']).lock({ waitTimeMs: WOKEN_MS })
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await (await waiting).unlock()
    assert.equal(await lab.server.admin.exists('order'), 0)
  })

  it('X2: values are held or free whatever else of the group is', async () => {
    const client = await lab.connect()
    const [first, second] = ['a', 'b'].map((value) => client.getFasterMultiLock('order', [value]))
    assert.ok(first && second)
    await client.runInScope(async () => {
      await first.lock()
      assert.equal(await first.isLocked(), true)
      assert.equal(await first.isHeldByCurrentOwner(), true)
      assert.equal(await second.isLocked(), false)
      assert.equal(await second.isHeldByCurrentOwner(), false)
      assert.equal(await client.getFasterMultiLock('order', ['b', 'a']).isLocked(), true)
      await first.unlock()
    })
  })

  it('X3: a forced release frees what is locked, though not all of it is, and says so', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getFasterMultiLock('order', ['b', 'c']).lock()
    assert.equal(await other.getFasterMultiLock('order', ['a', 'b', 'c']).forceUnlock(), true)
    assert.equal(await other.getFasterMultiLock('order', ['a', 'b', 'c']).forceUnlock(), false)
    assert.equal(await lab.server.admin.exists('order'), 0)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('X4: what an owner left whose lease ended adds to no count, and is cleared away', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lock = client.getFasterMultiLock('order', ['a'])
    const keepsTheGroup = await other.getFasterMultiLock('order', ['z']).lock()
    // For this client it is over before it is for Redis: the release finds what was left, however slow the machine is.
    const terms = { leaseTimeMs: 30_000, maxHoldMs: 300 }
    const hold = await lock.lock(terms)
    const again = await lock.lock({ within: hold, ...terms })
    const fields = Object.keys(await lab.server.admin.hgetall('order')).filter((field) => field.includes(hold.holder))
    assert.equal(fields.length, 2) // when its lease ends, and its count
    await waitUntil(() => hold.signal.aborted && again.signal.aborted)

    // As Redisson takes it over: it leaves these where they are.
    const value = String(fields[0]?.split(':')[0])
    await lab.server.admin.hset('order', value, keepsTheGroup.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await waitUntil(async () => {
      const left = Object.keys(await lab.server.admin.hgetall('order'))
      return !left.some((field) => field.includes(hold.holder)) && left.includes(value)
    })
    await lab.server.admin.hdel('order', value)
    await keepsTheGroup.unlock()
  })

  it('X5: who had to wait has a whole lease, and is renewed', async () => {
    const [client, other] = [await lab.connect({ lockWatchdogTimeoutMs: 2_400 }), await lab.connect()]
    const busy = await other.getFasterMultiLock('order', ['a']).lock()
    const waiting = client.getFasterMultiLock('order', ['a', 'b']).lock({ waitTimeMs: 10_000 })
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    await busy.unlock()
    const hold = await waiting
    await renewed([hold])
    assert.equal(await hold.isHeld(), true)
    assert.equal(await other.getFasterMultiLock('order', ['b']).tryLock(), null)
    await hold.unlock()
  })

  it('X6: a release wakes those who want what it frees, whoever else of the group waits', async () => {
    const clients = [await lab.connect(), await lab.connect(), await lab.connect()] as const
    const a = await clients[0].getFasterMultiLock('order', ['a']).lock()
    const b = await clients[0].getFasterMultiLock('order', ['b']).lock()
    const waitsForA = clients[1].getFasterMultiLock('order', ['a']).lock()
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    const waitsForB = [1, 2].map((n) => clients[n]?.getFasterMultiLock('order', ['b']).lock({ waitTimeMs: WOKEN_MS }))
    await sleep(200)
    await b.unlock()
    await Promise.all(waitsForB.map(async (waiting) => await (await waiting)?.unlock()))
    await a.unlock()
    await (await waitsForA).unlock()
  })

  it('X7: the clock of a process does not matter, an abort ends a wait, and what freed nothing is told to nobody', async (t) => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lock = other.getFasterMultiLock('order', ['a'])
    const hold = await client.getFasterMultiLock('order', ['a']).lock()
    const now = Date.now
    t.mock.method(Date, 'now', () => now() + 3_600_000)
    assert.equal(await lock.tryLock(), null)
    t.mock.restoreAll()

    const abort = new AbortController()
    const waiting = lock.lock({ signal: abort.signal })
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)

    await lab.server.admin.del('order')
    const messages = await recordMessages(lab)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(await messages(), [])
  })

  it('X8: an acquire or a release whose reply was lost is sent again without harm', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    const lock = client.getFasterMultiLock('order', ['a', 'b'])
    await lock.withLock(() => {})
    proxy.dropNextReply((request) => request.startsWith('EVALSHA'))
    const hold = await lock.lock()
    await proxy.dropped
    const counts = Object.entries(await lab.server.admin.hgetall('order')).filter(([field]) =>
      /:lock_count$/.test(field),
    )
    assert.deepEqual(
      counts.map(([, count]) => count),
      ['1', '1'],
    )
    proxy.dropNextReply((request) => request.startsWith('EVALSHA'))
    await hold.unlock()
    await proxy.dropped
    assert.equal(await lab.server.admin.exists('order'), 0)
  })
})

describe('known defects of the spin lock', () => {
  const lab = setUpLab()

  it('P1: attempts that are refused change no lease, neither of the holder nor of who comes next', async () => {
    const client = await lab.connect()
    const lock = client.getSpinLock('a')
    const hold = await lock.lock()
    assert.equal(await lock.tryLock({ leaseTimeMs: 500 }), null)
    assert.equal(await lock.tryLock({ leaseTimeMs: 500, waitTimeMs: 100 }), null)
    const waiting = lock.lock({ waitTimeMs: 10_000 })
    const refused = lock.tryLock({ leaseTimeMs: 500, waitTimeMs: 100 })
    assert.equal(await refused, null)
    for (const held of [hold, waiting]) {
      const live = await held
      const left = await lab.server.admin.pttl('a')
      assert(left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS + 50, `PTTL is ${left}`)
      await live.unlock()
    }
  })

  it('P2: a wait ends when its time is over, however long the next sleep would be', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await other.getSpinLock('a').lock()
    const lock = client.getSpinLock('a', { backOff: { type: 'constant', delayMs: 60_000 } })
    const startedAt = performance.now()
    assert.equal(await lock.tryLock({ waitTimeMs: 300 }), null)
    assert(performance.now() - startedAt < 10_000)
    await hold.unlock()
  })

  it('P2: the back-off keeps attempts rare', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await other.getSpinLock('a').lock()
    const count = await countCommands(lab.server, async () => {
      assert.equal(await client.getSpinLock('a').tryLock({ waitTimeMs: 2_000 }), null)
    })
    assert(count.scripts <= 30, `${count.scripts} attempts in 2 s; at 128 ms that is 16, and a few at first`)
    await hold.unlock()
  })
})
