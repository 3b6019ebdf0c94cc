/** `hold.extend()`: a lease of one's own, once more. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { lockOfKind } from '../../src/client.js'
import { getMultiLock, getRedLock } from '../../src/index.js'
import { KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { setUpLab } from '../support/lab.js'
import { sleep } from '../support/wait-until.js'

describe('hold.extend()', () => {
  const lab = setUpLab(undefined, [], { keysThatStay: /^(semaphore|redisson_lock_token:)/ })

  for (const id of NAMED_KIND_IDS) {
    it(`lets a hold of a ${KINDS[id].title} outlast its first lease, by the extension exactly`, async () => {
      const lock = lockOfKind(await lab.connect(), id, 'a')
      const hold = await lock.lock({ leaseTimeMs: 500 })
      await hold.extend(30_000)
      const leftMs = hold.remainingMs()
      assert(leftMs > 25_000 && leftMs <= 29_698, `${leftMs} ms`) // 1 % and 2 ms less
      const inRedisMs = await lock.remainingLeaseMs()
      assert(inRedisMs > 25_000 && inRedisMs <= 30_000, `${inRedisMs} ms`)
      await sleep(600)
      hold.assertHeld()
      await hold.unlock()
    })
  }

  it('never shortens a lease', async () => {
    const lock = (await lab.connect()).getLock('a')
    const hold = await lock.lock({ leaseTimeMs: 30_000 })
    await hold.extend(50)
    await sleep(100)
    hold.assertHeld()
    assert((await lock.remainingLeaseMs()) > 20_000)
    await hold.unlock()
  })

  it('does not put off maxHoldMs, which counts from the grant', async () => {
    const lock = (await lab.connect()).getLock('a')
    const hold = await lock.lock({ leaseTimeMs: 5_000, maxHoldMs: 300 })
    await sleep(150)
    await hold.extend(60_000)
    assert(hold.remainingMs() <= 150)
    await sleep(200)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await (await lock.lock({ waitTimeMs: 10_000 })).unlock()
  })

  it('extends permits, and every part of a multi-lock and of a red lock', async () => {
    const client = await lab.connect()
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

  it('of a hold that the watchdog renews is refused, and it stays renewed', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 300 })
    const locks = [client.getLock('a'), getMultiLock(client.getLock('a'), client.getLock('b'))]
    for (const lock of locks) {
      const hold = await lock.lock()
      await assert.rejects(hold.extend(1_000), { code: 'LOCK_CONFIG', path: 'extend' })
      await sleep(500)
      hold.assertHeld()
      await hold.unlock()
    }
  })

  it('of a hold that has ended, or that Redis no longer knows, is an error', async () => {
    const lock = (await lab.connect()).getLock('a')
    const released = await lock.lock({ leaseTimeMs: 1_000 })
    await assert.rejects(released.extend(9), { code: 'LOCK_CONFIG', path: 'leaseTimeMs' })
    await released.unlock()
    await assert.rejects(released.extend(1_000), { code: 'LOCK_NOT_HELD' })

    const expired = await lock.lock({ leaseTimeMs: 50 })
    await sleep(100)
    await assert.rejects(expired.extend(1_000), { code: 'LOCK_LEASE_LOST', reason: 'expired' })

    const gone = await lock.lock({ leaseTimeMs: 10_000 })
    await lab.server.admin.del('a')
    await assert.rejects(gone.extend(1_000), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })
})
