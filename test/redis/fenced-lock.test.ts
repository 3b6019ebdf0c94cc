/** The tokens and leases of a fenced lock. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { getMultiLock, type Lock } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { WOKEN_MS } from '../support/subscribers.js'
import { waitUntil } from '../support/wait-until.js'

/** Each test shows that a known defect of Redisson’s RedissonFencedLock does not occur here. */
describe('a fenced lock', () => {
  const fixture = setUpFixture()
  const TOKENS = 'redisson_lock_token:{a}'

  function forgetTokens(): void {
    fixture.onEnd(() => fixture.server.admin.del(TOKENS))
  }

  it('tryLock() of a fenced lock without a wait time resolves at once', async () => {
    forgetTokens()
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFencedLock('a').lock()
    const startedAt = performance.now()
    assert.equal(await other.getFencedLock('a').tryLock(), null)
    assert(performance.now() - startedAt < WOKEN_MS)
    await hold.unlock()
  })

  it('lock() of a fenced lock with a lease keeps that lease and is not renewed', async () => {
    forgetTokens()
    const lock = (await fixture.connect({ lockWatchdogTimeoutMs: 300 })).getFencedLock('a')
    const hold = await lock.lock({ leaseTimeMs: 1_000 })
    const left = await fixture.server.admin.pttl('a')
    assert(left > 0 && left <= 1_050, `${left} ms`)
    await waitUntil(() => hold.signal.aborted)
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
  })

  it('a fenced lock without an expiry counts as held: nobody is granted the token -1', async () => {
    const lock = (await fixture.connect()).getFencedLock('a')
    await fixture.server.admin.hset('a', 'somebody:1', '1')
    assert.equal(await lock.tryLock(), null)
    assert.equal(await lock.tryLock({ waitTimeMs: 200 }), null)
    assert.deepEqual(await fixture.server.admin.keys('*'), ['a'])
    await fixture.server.admin.del('a')
  })

  it('the counter of fencing tokens never expires: not by a lease, a multi-lock or a forced release', async () => {
    forgetTokens()
    const client = await fixture.connect()
    const fenced = client.getFencedLock('a')
    await (await fenced.lock({ leaseTimeMs: 1_000 })).unlock()
    const multi = await getMultiLock(fenced as unknown as Lock, client.getLock('b')).lock({ leaseTimeMs: 1_000 })
    assert.equal(await fixture.server.admin.pttl(TOKENS), -1)
    await multi.unlock()
    await fenced.lock()
    await fenced.forceUnlock()
    assert.equal(await fixture.server.admin.pttl(TOKENS), -1)
    const hold = await fenced.lock()
    assert.equal(hold.fencingToken, 4n)
    await hold.unlock()
  })

  it('a re-entry has the fencing token of the outer hold', async () => {
    forgetTokens()
    const lock = (await fixture.connect()).getFencedLock('a')
    await lock.withLock(async (outer) => {
      await lock.withLock(async (inner) => assert.equal(inner.fencingToken, outer.fencingToken))
      assert.equal(await lock.getToken(), outer.fencingToken)
    })
  })

  it('fencing tokens do not go back when Redis loses data: the client continues above its highest and warns', async () => {
    forgetTokens()
    const client = await fixture.connect()
    const warnings: string[] = []
    client.on('warning', (warning) => warnings.push(String((warning as { code?: string }).code)))
    const lock = client.getFencedLock('a')
    for (let n = 0; n < 3; n++) await (await lock.lock()).unlock()
    await fixture.server.admin.set(TOKENS, '1') // what a replica may have that missed two of them
    const hold = await lock.lock()
    assert.equal(hold.fencingToken, 4n)
    assert.deepEqual(warnings, ['FENCING_TOKENS_WENT_BACK'])
    await hold.unlock()
  })

  it('an owner that asks again, because a new master missed its release, gets a higher token', async () => {
    forgetTokens()
    const client = await fixture.connect()
    const lock = client.getFencedLock('a')
    await client.runInScope(async () => {
      const first = await lock.lock()
      const before = await fixture.server.admin.dumpBuffer('a')
      await first.unlock()
      await fixture.server.admin.restore('a', 30_000, before) // as a replica has it that the release did not reach
      const again = await lock.lock()
      assert.deepEqual([first.fencingToken, again.fencingToken], [1n, 2n])
      await again.unlock()
    })
  })

  it('a hold keeps its fencing token after the next token is drawn', async () => {
    forgetTokens()
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const lost = await client.getFencedLock('a').lock()
    await other.getFencedLock('a').forceUnlock()
    const hold = await other.getFencedLock('a').lock()
    assert.deepEqual([lost.fencingToken, hold.fencingToken], [1n, 2n])
    assert.equal(await client.getFencedLock('a').getToken(), 2n)
    await hold.unlock()
  })
})
