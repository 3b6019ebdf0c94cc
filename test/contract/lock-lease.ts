/** How a hold ends: its lease, the watchdog, a forced release, a loss, `close()`. For every kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { LeaseLostError } from '../../src/index.js'
import type { AnyFixture } from '../support/fixture.js'
import type { Kind, KindFixture } from '../support/kinds.js'
import { measureLateness } from '../support/lateness.js'
import { renewed } from '../support/renewed.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

/** By how much timers may be late in all while a lock with a lease of 2 s must be renewed, ms. */
const STALLED_MS = 400

export function leaseContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  it('a hold with a fixed lease is lost exactly when the lease ends', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    const latenessMs = measureLateness()
    const startedAt = performance.now()
    const hold = await kindFixture.lock(client).lock({ leaseTimeMs: 1_000 })
    await new Promise((resolve) => hold.signal.addEventListener('abort', resolve))
    const heldMs = performance.now() - startedAt
    const atMostMs = 2_500 + latenessMs()
    // Before the command was sent, plus the lease, minus 1 % and 2 ms.
    assert(heldMs > 980 && heldMs < atMostMs, `aborted after ${heldMs} ms`)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal((hold.signal.reason as { code: string }).code, 'LOCK_LEASE_LOST')
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('a lock is free for others as soon as a fixed lease ends, although nobody released it', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.lock(client).lock({ leaseTimeMs: 400 })
    const next = await kindFixture.rival(other).lock({ waitTimeMs: 4_400 }) // less than a poll takes
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await next.unlock()
  })

  it('a lock is renewed as long as it is held', async () => {
    const [client, other] = [await fixture.connect({ lockWatchdogTimeoutMs: 2_000 }), await fixture.connect()]
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const holdAndWait = async () => {
      const latenessMs = measureLateness()
      const hold = await kindFixture.lock(client).lock()
      const taken = await kindFixture.rival(other).tryLock({ waitTimeMs: 2_200 })
      return { hold, taken, isStalled: latenessMs() > STALLED_MS }
    }
    let round = await holdAndWait()
    while (round.isStalled) {
      await round.taken?.unlock()
      await round.hold.unlock().catch(() => {})
      lost.length = 0
      round = await holdAndWait()
    }
    const { hold, taken } = round
    assert.equal(taken, null)
    hold.assertHeld()
    assert.equal(await hold.isHeld(), true)
    for (const part of kindFixture.parts(client)) assert((await part.remainingLeaseMs()) <= 2_000)
    await hold.unlock()
    assert.deepEqual(lost, [])
  })

  it('forceUnlock() notifies the holder and wakes the waiters', async () => {
    const [owner, other] = [await fixture.connect({ lockWatchdogTimeoutMs: 2_400 }), await fixture.connect()]
    for (const [who, reason] of [
      [other, 'gone'],
      [owner, 'forced'],
    ] as const) {
      const hold = await kindFixture.lock(owner).lock()
      const waiter = kindFixture.rival(other).lock()
      await kindFixture.somebodyWaits()
      for (const part of kindFixture.parts(who)) assert.equal(await part.forceUnlock(), true)
      const next = await settlesWithin(waiter, 2_000)
      assert(next.status === 'fulfilled')
      await waitUntil(() => hold.signal.aborted)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason })
      assert.equal(await hold.isHeld(), false)
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      assert.equal(await next.value.isHeld(), true)
      await next.value.unlock()
      for (const part of kindFixture.parts(who)) assert.equal(await part.forceUnlock(), false, 'it was free')
    }
  })

  it('a forceUnlock() sent before an acquire does not end its hold', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const parts = kindFixture.parts(client)
    await kindFixture.lock(client).withLock(() => {})
    await Promise.all(parts.map((part) => part.forceUnlock())) // Redis knows the scripts from here on
    for (let round = 0; round < 10; round++) {
      await kindFixture.lock(other).lock()
      const forced = parts.map((part) => part.forceUnlock())
      const hold = await kindFixture.lock(client).lock()
      assert.deepEqual(
        await Promise.all(forced),
        parts.map(() => true),
      )
      assert.equal(hold.signal.aborted, false)
      assert.equal(await hold.isHeld(), true)
      await hold.unlock()
    }
  })

  it('isHeld() marks the hold as lost when Redis no longer has its holder', async () => {
    const client = await fixture.connect()
    const lost: string[] = []
    client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
    const hold = await kindFixture.lock(client).lock()
    await kindFixture.deleteKeys()
    hold.assertHeld()
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert(lost.includes(`${hold.lockName} gone`))
  })

  it('unlock() after a loss never releases the lock of another owner', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.lock(one).lock()
    await kindFixture.deleteKeys()
    const other = await kindFixture.lock(two).lock()
    const before = await Promise.all(kindFixture.parts(two).map((part) => part.getHolders()))
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(await Promise.all(kindFixture.parts(two).map((part) => part.getHolders())), before)
    assert.equal(await other.isHeld(), true)
    await other.unlock()
  })

  it('close() releases the lock, rejects its waiters and leaves nothing of them', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const foreign = await kindFixture.rival(other, 'b').lock()
    const before = await kindFixture.keys()
    const hold = await kindFixture.lock(client).lock()
    const waiters = [1, 2, 3].map(() => settlesWithin(kindFixture.lock(client, 'b').lock(), 5_000))
    await kindFixture.somebodyWaits()
    await client.close()
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'closed' })
    for (const outcome of await Promise.all(waiters)) {
      assert(outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
    }
    assert.equal(await kindFixture.isFree(), true)
    assert.deepEqual((await kindFixture.keys()).sort(), before.sort(), 'no place in a queue remains')
    await assert.rejects(kindFixture.lock(client).lock(), { code: 'LOCK_CLIENT_CLOSED' })
    await assert.rejects(kindFixture.lock(client).tryLock(), { code: 'LOCK_CLIENT_CLOSED' })
    await foreign.unlock()
    assert.deepEqual(await kindFixture.keys(), [])
  })

  it('locks work whenever Redis loses its scripts', async () => {
    const { admin } = fixture.server
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 4_500 })
    await client.runInScope(async () => {
      for (let round = 0; round < 3; round++) {
        await admin.script('FLUSH')
        const hold = await kindFixture.lock(client).lock()
        if (kind.isReentrant) {
          await admin.script('FLUSH')
          const again = await kindFixture.lock(client).lock()
          await admin.script('FLUSH')
          await again.unlock()
        }
        await admin.script('FLUSH')
        if (round === 0) await renewed([hold], 1)
        assert.equal(await hold.isHeld(), true)
        await admin.script('FLUSH')
        await hold.unlock()
      }
    })
  })
}
