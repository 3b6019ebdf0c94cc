/** Losses that a client can infer from its own grants: it reports them at once. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Hold, Lock } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { waitUntil } from '../support/wait-until.js'

/** Long enough that no renewal finds out first. */
const LEASE_MS = 60_000

function lossesOf(client: Client): string[] {
  const losses: string[] = []
  client.on('lost', ({ hold, error }) => losses.push(`${hold.lockName} ${error.reason}`))
  return losses
}

function assertGone(hold: Hold, reason = 'gone'): void {
  assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason })
  assert(hold.signal.aborted)
}

describe('a lock that Redis grants to a second task of the client', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^redisson_lock_token:/ })

  const exclusive: Record<string, (client: Client) => Lock> = {
    lock: (client) => client.getLock('a'),
    'fair lock': (client) => client.getFairLock('a'),
    'non-reentrant lock': (client) => client.getNonReentrantLock('a'),
    'fenced lock': (client) => client.getFencedLock('a'),
    'spin lock': (client) => client.getSpinLock('a'),
    'string lock': (client) => client.getStringLock('a'),
    'write lock': (client) => client.getReadWriteLock('a').writeLock(),
    'faster multi-lock': (client) => client.getFasterMultiLock('a', ['x', 'y']),
  }
  for (const [kind, lockOf] of Object.entries(exclusive)) {
    it(`a grant to a second task of the client ends the first hold at once: ${kind}`, async () => {
      const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
      const losses = lossesOf(client)
      const lock = lockOf(client)
      const first = await lock.lock()
      const again = kind === 'non-reentrant lock' ? undefined : await lock.lock({ within: first })
      await fixture.server.admin.del('a')
      const second = await lock.lock()
      assertGone(first)
      if (again) assertGone(again)
      second.assertHeld()
      assert.equal(await second.isHeld(), true)
      assert.deepEqual(losses, again ? ['a gone', 'a gone'] : ['a gone'])
      await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      assert.equal(await second.isHeld(), true)
      await second.unlock()
    })
  }

  it('a grant to a writer ends the holds of readers, and a grant to a reader ends the hold of a writer', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const [reads, writes] = [client.getReadWriteLock('a').readLock(), client.getReadWriteLock('a').writeLock()]
    const readers = [await reads.lock(), await reads.lock()]
    for (const reader of readers) reader.assertHeld()
    await fixture.server.admin.flushall()
    const writer = await writes.lock()
    for (const reader of readers) assertGone(reader)
    await fixture.server.admin.flushall()
    const reader = await reads.lock()
    assertGone(writer)
    await reader.unlock()
  })

  it('a grant of values ends the holds with a value in common, and no others', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const first = await client.getFasterMultiLock('a', ['x', 'y']).lock()
    const apart = await client.getFasterMultiLock('a', ['z']).lock()
    await fixture.server.admin.hdel('a', ...(await fixture.server.admin.hkeys('a')).filter((field) => field !== ''))
    const second = await client.getFasterMultiLock('a', ['y', 'w']).lock()
    assertGone(first)
    apart.assertHeld() // by what the client knows
    await second.unlock()
    await apart.unlock().catch(() => {})
  })

  it('a grant ends no hold that may share the lock: readers, a reading writer, permits', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const cells = client.getReadWriteLock('a')
    const semaphore = client.getPermitExpirableSemaphore('permits')
    await semaphore.trySetPermits(2)
    const writer = await cells.writeLock().lock()
    const reads = await cells.readLock().lock({ within: writer })
    const permits = [await semaphore.acquire(), await semaphore.acquire()]
    for (const hold of [writer, reads, ...permits]) hold.assertHeld()
    await writer.unlock()
    const readers = [reads, await cells.readLock().lock(), await cells.readLock().lock()]
    for (const hold of readers) hold.assertHeld()
    for (const hold of [...readers, ...permits]) await hold.unlock()
    await semaphore.delete()
  })
})

describe('forceUnlock', () => {
  const fixture = setUpFixture()

  it('forceUnlock() ends a hold that was requested before it in the same turn at once', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const losses = lossesOf(client)
    const lock = client.getLock('a')
    const taking = lock.tryLock()
    const forcing = lock.forceUnlock()
    assert.equal(await forcing, true)
    const hold = await taking
    assert(hold)
    assertGone(hold, 'forced')
    assert.deepEqual(losses, ['a forced'])
    assert.equal(await fixture.server.admin.exists('a'), 0)
  })

  it('forceUnlock() leaves the lock free when an earlier acquire had to be repeated and ran after it', async () => {
    const { admin } = fixture.server
    const [holder, client] = [await fixture.connect(), await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })]
    await holder.getLock('a').lock()
    await admin.script('FLUSH')
    assert.equal(await holder.getLock('b').forceUnlock(), false) // Redis knows this script again, and no other
    const lock = client.getLock('a')
    const taking = lock.tryLock()
    assert.equal(await lock.forceUnlock(), true)
    const hold = await taking // if its reply was read first: otherwise it was refused
    if (hold) assertGone(hold, 'forced')
    await waitUntil(async () => (await admin.exists('a')) === 0, { timeoutMs: 5_000, message: 'the lock is free' })
  })

  it('forceUnlock() does not affect a hold requested after it in the same turn', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const lock = client.getLock('a')
    const first = await lock.lock()
    const forcing = lock.forceUnlock()
    const taking = lock.lock()
    assert.equal(await forcing, true)
    assertGone(first, 'forced')
    const second = await taking
    assert.equal(await second.isHeld(), true)
    await second.unlock()
  })
})
