/** The transfer of a hold to another client: `handOver()` and `adopt()`. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Client, Lock } from '../../src/index.js'
import type { AnyFixture } from '../support/fixture.js'
import type { Kind, KindFixture } from '../support/kinds.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

export function transferContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  const part = (client: Client): Lock => kindFixture.parts(client)[0] as Lock

  it('a hold continues in another client that adopts it after handOver()', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const hold = await part(one).lock()
    if (kind.isReentrant) await part(one).lock({ within: hold })
    const holder = hold.handOver()
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
    assert.throws(() => hold.handOver(), { code: 'LOCK_NOT_HELD' })
    const adopted = await part(two).adopt(holder)
    assert.deepEqual([adopted.holder, adopted.count], [`${two.id}:${adopted.ownerId}`, 1])
    assert.deepEqual(await part(one).getHolders(), [{ holder: adopted.holder, holdCount: 1 }])
    await assert.rejects(part(two).adopt(holder), { code: 'LOCK_NOT_HELD' }, 'only one can adopt it')
    assert.equal(await part(one).tryLock(), null)
    await one.close()
    assert.equal(await adopted.isHeld(), true, 'the previous holder no longer affects it')
    await adopted.unlock()
    assert.equal(await kindFixture.isFree(), true)
    await assert.rejects(part(two).adopt(holder), { code: 'LOCK_NOT_HELD' })
    await assert.rejects(part(two).adopt('nonsense'), { code: 'LOCK_CONFIG', path: 'holder' })
    assert.deepEqual(await kindFixture.keys(), [])
  })

  it('the release of an adopted hold wakes the waiters', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const holder = (await part(one).lock()).handOver()
    const waiter = part(one).lock()
    await kindFixture.somebodyWaits()
    await (await part(two).adopt(holder)).unlock()
    const next = await settlesWithin(waiter, 2_000)
    assert(next.status === 'fulfilled')
    await next.value.unlock()
  })

  it('a holder that did not call handOver() is notified that its hold was adopted', async () => {
    const [one, two] = [await fixture.connect({ lockWatchdogTimeoutMs: 2_400 }), await fixture.connect()]
    const hold = await part(one).lock()
    const adopted = await part(two).adopt(hold.holder)
    await waitUntil(() => hold.signal.aborted)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
  })
}

export function noTransferContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  it('a lock that cannot be transferred refuses handOver() and adopt(), and stays held', async () => {
    const client = await fixture.connect()
    const hold = await kindFixture.lock(client).lock()
    assert.throws(() => hold.handOver(), { code: 'LOCK_CONFIG', path: 'handOver' })
    hold.assertHeld()
    if (!kind.isJoint) {
      const [part] = kindFixture.parts(client)
      await assert.rejects(async () => await part?.adopt(hold.holder), { code: 'LOCK_CONFIG', path: 'adopt' })
    }
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    assert.equal(await kindFixture.isFree(), true)
  })
}
