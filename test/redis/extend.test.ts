/** `hold.extend()`: a lease of one's own, once more. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { lockOfKind } from '../../src/client.js'
import { getMultiLock, getRedLock } from '../../src/index.js'
import { KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep } from '../support/wait-until.js'

describe('hold.extend()', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^(semaphore|redisson_lock_token:)/ })

  for (const id of NAMED_KIND_IDS) {
    it(`hold.extend() lets a hold of a ${KINDS[id].title} outlast its lease by the extension exactly`, async () => {
      const lock = lockOfKind(await fixture.connect(), id, 'a')
      const hold = await lock.lock({ leaseTimeMs: 10_000 })
      await hold.extend(30_000)
      const leftMs = hold.remainingMs()
      assert(leftMs > 25_000 && leftMs <= 29_698, `${leftMs} ms`) // 1 % and 2 ms less
      const inRedisMs = await lock.remainingLeaseMs()
      assert(inRedisMs > 25_000 && inRedisMs <= 30_000, `${inRedisMs} ms`)
      await hold.unlock()
    })
  }

  it('hold.extend() lets a hold live on when its first lease ends', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const hold = await lock.lock({ leaseTimeMs: 2_500 })
    await hold.extend(30_000)
    await sleep(2_600)
    hold.assertHeld()
    await hold.unlock()
  })

  it('hold.extend() never shortens a lease', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const hold = await lock.lock({ leaseTimeMs: 30_000 })
    await hold.extend(50)
    await sleep(100)
    hold.assertHeld()
    assert((await lock.remainingLeaseMs()) > 20_000)
    await hold.unlock()
  })

  it('hold.extend() does not put off maxHoldMs, which counts from the grant', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const hold = await lock.lock({ leaseTimeMs: 5_000, maxHoldMs: 300 })
    await sleep(150)
    await hold.extend(60_000)
    assert(hold.remainingMs() <= 150)
    await sleep(200)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await (await lock.lock({ waitTimeMs: 10_000 })).unlock()
  })

  it('hold.extend() extends permits, and every part of a multi-lock and of a red lock', async () => {
    const client = await fixture.connect()
    const semaphore = client.getPermitExpirableSemaphore('semaphore')
    await semaphore.setPermits(1)
    const parts = [client.getLock('a'), client.getLock('b'), client.getLock('c')] as const
    for (const take of [
      () => semaphore.acquire({ leaseTimeMs: 500 }),
      () => getMultiLock(...parts).lock({ leaseTimeMs: 500 }),
      () => getRedLock(...parts).lock({ leaseTimeMs: 500 }),
    ]) {
      const hold = await take()
      await hold.extend(30_000)
      await sleep(600)
      hold.assertHeld()
      await hold.unlock()
    }
    await semaphore.delete()
  })

  it('hold.extend() of a hold that the watchdog renews is refused, and it stays renewed', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    const locks = [client.getLock('a'), getMultiLock(client.getLock('a'), client.getLock('b'))]
    for (const lock of locks) {
      const hold = await lock.lock()
      await assert.rejects(hold.extend(1_000), { code: 'LOCK_CONFIG', path: 'extend' })
      await sleep(500)
      hold.assertHeld()
      await hold.unlock()
    }
  })

  it('hold.extend() of a hold that has ended, or that Redis no longer knows, is an error', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const released = await lock.lock({ leaseTimeMs: 1_000 })
    await assert.rejects(released.extend(9), { code: 'LOCK_CONFIG', path: 'leaseTimeMs' })
    await released.unlock()
    await assert.rejects(released.extend(1_000), { code: 'LOCK_NOT_HELD' })

    const expired = await lock.lock({ leaseTimeMs: 50 })
    await sleep(100)
    await assert.rejects(expired.extend(1_000), { code: 'LOCK_LEASE_LOST', reason: 'expired' })

    const gone = await lock.lock({ leaseTimeMs: 10_000 })
    await fixture.server.admin.del('a')
    await assert.rejects(gone.extend(1_000), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })
})
