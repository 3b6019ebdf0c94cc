/** How a hold ends: its lease, the watchdog, a forced release, a loss, `close()`. For every kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { LeaseLostError } from '../../src/index.js'
import type { Bench, Kind } from '../support/kinds.js'
import type { AnyLab } from '../support/lab.js'
import { measureLateness } from '../support/lateness.js'
import { renewed } from '../support/renewed.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

export function leaseContract(kind: Kind, lab: AnyLab, bench: Bench): void {
  it('a hold with a fixed lease is lost exactly when the lease ends', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 300 })
    const latenessMs = measureLateness()
    const startedAt = performance.now()
    const hold = await bench.lock(client).lock({ leaseTimeMs: 1_000 })
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
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await bench.lock(client).lock({ leaseTimeMs: 400 })
    const next = await bench.rival(other).lock({ waitTimeMs: 4_400 }) // less than a poll takes
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await next.unlock()
  })

  it('a lock is renewed as long as it is held', async () => {
    const [client, other] = [await lab.connect({ lockWatchdogTimeoutMs: 2_000 }), await lab.connect()]
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await bench.lock(client).lock()
    assert.equal(await bench.rival(other).tryLock({ waitTimeMs: 2_200 }), null)
    hold.assertHeld()
    assert.equal(await hold.isHeld(), true)
    for (const part of bench.parts(client)) assert((await part.remainingLeaseMs()) <= 2_000)
    await hold.unlock()
    assert.deepEqual(lost, [])
  })

  it('forceUnlock() notifies the holder and wakes the waiters', async () => {
    const [owner, other] = [await lab.connect({ lockWatchdogTimeoutMs: 2_400 }), await lab.connect()]
    for (const [who, reason] of [
      [other, 'gone'],
      [owner, 'forced'],
    ] as const) {
      const hold = await bench.lock(owner).lock()
      const waiter = bench.rival(other).lock()
      await bench.somebodyWaits()
      for (const part of bench.parts(who)) assert.equal(await part.forceUnlock(), true)
      const next = await settlesWithin(waiter, 2_000)
      assert(next.status === 'fulfilled')
      await waitUntil(() => hold.signal.aborted)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason })
      assert.equal(await hold.isHeld(), false)
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      assert.equal(await next.value.isHeld(), true)
      await next.value.unlock()
      for (const part of bench.parts(who)) assert.equal(await part.forceUnlock(), false, 'it was free')
    }
  })

  it('a forceUnlock() sent before an acquire does not end its hold', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const parts = bench.parts(client)
    await bench.lock(client).withLock(() => {})
    await Promise.all(parts.map((part) => part.forceUnlock())) // Redis knows the scripts from here on
    for (let round = 0; round < 10; round++) {
      await bench.lock(other).lock()
      const forced = parts.map((part) => part.forceUnlock())
      const hold = await bench.lock(client).lock()
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
    const client = await lab.connect()
    const lost: string[] = []
    client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
    const hold = await bench.lock(client).lock()
    await bench.deleteKeys()
    hold.assertHeld()
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert(lost.includes(`${hold.lockName} gone`))
  })

  it('unlock() after a loss never releases the lock of another owner', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    const hold = await bench.lock(one).lock()
    await bench.deleteKeys()
    const other = await bench.lock(two).lock()
    const before = await Promise.all(bench.parts(two).map((part) => part.getHolders()))
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(await Promise.all(bench.parts(two).map((part) => part.getHolders())), before)
    assert.equal(await other.isHeld(), true)
    await other.unlock()
  })

  it('close() releases the lock, rejects its waiters and leaves nothing of them', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const foreign = await bench.rival(other, 'b').lock()
    const before = await bench.keys()
    const hold = await bench.lock(client).lock()
    const waiters = [1, 2, 3].map(() => settlesWithin(bench.lock(client, 'b').lock(), 5_000))
    await bench.somebodyWaits()
    await client.close()
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'closed' })
    for (const outcome of await Promise.all(waiters)) {
      assert(outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
    }
    assert.equal(await bench.isFree(), true)
    assert.deepEqual((await bench.keys()).sort(), before.sort(), 'no place in a queue remains')
    await assert.rejects(bench.lock(client).lock(), { code: 'LOCK_CLIENT_CLOSED' })
    await assert.rejects(bench.lock(client).tryLock(), { code: 'LOCK_CLIENT_CLOSED' })
    await foreign.unlock()
    assert.deepEqual(await bench.keys(), [])
  })

  it('locks work whenever Redis loses its scripts', async () => {
    const { admin } = lab.server
    const client = await lab.connect({ lockWatchdogTimeoutMs: 4_500 })
    await client.runInScope(async () => {
      for (let round = 0; round < 3; round++) {
        await admin.script('FLUSH')
        const hold = await bench.lock(client).lock()
        if (kind.isReentrant) {
          await admin.script('FLUSH')
          const again = await bench.lock(client).lock()
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
