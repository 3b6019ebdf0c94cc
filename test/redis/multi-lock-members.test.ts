/** Members of a multi-lock that are busy, lost, late or failing. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { getMultiLock } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { repliesForgotten } from '../support/synchronizers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Each test shows that a known defect of Redisson’s RedissonMultiLock does not occur here. */
describe('the members of a multi-lock', () => {
  const fixture = setUpFixture()

  async function expectLease(name: string, leaseMs: number): Promise<void> {
    const left = await fixture.server.admin.pttl(name)
    assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `PTTL of ${name} is ${left}, not about ${leaseMs}`)
  }

  async function exists(name: string): Promise<boolean> {
    return (await fixture.server.admin.exists(name)) === 1
  }

  it('failed rounds of a multi-lock do not change its lease', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const busy = await other.getSpinLock('b').lock()
    // Spin locks are taken one after the other.
    const waiting = getMultiLock(client.getSpinLock('a'), client.getSpinLock('b')).lock({ leaseTimeMs: 20_000 })
    for (let look = 0; look < 100; look++) {
      const left = await fixture.server.admin.pttl('a')
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

  it('a member of a multi-lock that cannot be released leaves no other member locked', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await getMultiLock(...['a', 'b', 'c'].map((name) => client.getLock(name))).lock()
    await other.getLock('a').forceUnlock()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await repliesForgotten(fixture)
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('a member that was taken over meanwhile does not count, and its new holder keeps its lease', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const { client: slow, proxy } = await fixture.connectThroughProxy()
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

  it('the first members of a multi-lock do not expire while it waits for the rest, and the lease begins with the last one', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const busy = await other.getLock('b').lock({ leaseTimeMs: 1_400 })
    const multi = getMultiLock(client.getLock('a'), client.getLock('b'))
    const hold = await multi.lock({ leaseTimeMs: 600, waitTimeMs: 10_000 })
    hold.assertHeld()
    for (const name of ['a', 'b']) assert((await fixture.server.admin.pttl(name)) > 100, `${name} is held`)
    assert(hold.remainingMs() <= 600)
    await waitUntil(() => hold.signal.aborted)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await assert.rejects(busy.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('an abort ends the wait for a multi-lock at once with its reason, and acquired members are released', async () => {
    const client = await fixture.connect()
    const { client: slow, proxy } = await fixture.connectThroughProxy()
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
    await waitUntil(async () => (await fixture.server.admin.dbsize()) === 0)
  })

  it('an abort ends the wait for a multi-lock of plain locks, of which none was taken', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const busy = await other.getLock('b').lock()
    const abort = new AbortController()
    const waiting = getMultiLock(client.getLock('a'), client.getLock('b')).lock({ signal: abort.signal })
    await listening(fixture)
    assert.equal(await exists('a'), false)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await busy.unlock()
  })

  it('whatever error a member of a multi-lock has, the others are released', async () => {
    const client = await fixture.connect()
    await fixture.server.admin.set('b', 'no lock')
    const multi = getMultiLock(client.getLock('a'), client.getLock('b'))
    await assert.rejects(multi.lock(), /WRONGTYPE/)
    await assert.rejects(multi.tryLock({ waitTimeMs: 5_000 }), /WRONGTYPE/)
    assert.equal(await exists('a'), false)
    await fixture.server.admin.del('b')
  })

  it('two multi-locks with the same locks in opposite order do not block each other', async () => {
    const clients = [await fixture.connect(), await fixture.connect()]
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
})
