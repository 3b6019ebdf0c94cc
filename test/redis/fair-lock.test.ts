/** A fair lock whose queue contains dead or stalled waiters. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fairQueue } from '../support/fair-queue.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys } from '../support/key-contents.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** How long one that listens may take to come when it is its turn, ms. */
const GRACE_MS = 5_000

describe('the queue of a fair lock', () => {
  const fixture = setUpFixture()
  const { queued, deadlineOf, enqueueFrozen } = fairQueue(fixture, 'order')

  it('a fair lock is acquired within 1 s of its lease when the previous waiter acquired it and died', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    await enqueueFrozen(peer.holder(7))
    const waiting = client.getFairLock('order').lock()
    // It has made an attempt while it was the turn of the other one, which is woken again.
    await waitUntil(async () => (await deadlineOf(peer.holder(7))) % 1 > 0)
    const leaseTimeMs = 1_000
    assert.equal(await peer.fairAcquire('order', 7, leaseTimeMs), null)
    const endsAt = performance.now() + leaseTimeMs
    const hold = await waiting
    const lateMs = performance.now() - endsAt
    assert(lateMs < 2_000, `${lateMs} ms after the lease`)
    await hold.unlock()
    await expectKeys(fixture.server, {})
  })

  it('all places of a stalled client in a fair queue are skipped together', async () => {
    const [client, other, peer] = [await fixture.connect(), await fixture.connect(), await openTwin(fixture)]
    await enqueueFrozen(peer.holder(1))
    const between = other.getFairLock('order').withLock(() => {})
    await queued(peer.holder(1), `${other.id}:1`)
    for (const threadId of [2, 3, 4]) await enqueueFrozen(peer.holder(threadId))
    const startedAt = performance.now()
    await client.getFairLock('order').withLock(() => {})
    const tookMs = performance.now() - startedAt
    await between
    assert(tookMs > GRACE_MS - 500, `${tookMs} ms: the first one has its time`)
    // The last one may poll up to 5 s after the previous section: a release wakes only the next one.
    assert(tookMs < 3 * GRACE_MS, `${tookMs} ms, and not ${GRACE_MS} ms for each of four places`)
    await expectKeys(fixture.server, {})
  })

  it('a live client keeps its places in a fair queue although one of its waiters did not come', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const frozen = `${client.id}:999`
    await enqueueFrozen(frozen)
    const order: string[] = []
    const served: Promise<unknown>[] = []
    const holders = [`${client.id}:1`, `${other.id}:1`, `${client.id}:2`]
    for (const [index, one] of [client, other, client].entries()) {
      const section = async ({ holder }: { holder: string }): Promise<void> => {
        order.push(holder)
        await sleep(1_500) // by the next turn the time that they had to show themselves is over
      }
      served.push(one.getFairLock('order').withLock(section))
      await queued(frozen, ...holders.slice(0, index + 1))
    }
    await Promise.all(served)
    assert.deepEqual(order, holders)
    await expectKeys(fixture.server, {})
  })
})
