/** What a permit-expirable semaphore promises, wherever Redis runs. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type {
  Client,
  ClientOptions,
  LeaseLostError,
  OrderOptions,
  Permit,
  PermitExpirableSemaphore,
} from '../../src/index.js'
import type { AnyFixture, SetUp } from '../support/fixture.js'
import { renewed } from '../support/renewed.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { allWait, moment } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

export const LEASES = '{a}:timeout'

/** The semaphore `a` with `permits` permits, all of which are back at the end of the test. */
export async function semaphoreWith(
  fixture: AnyFixture,
  permits: number,
  options: ClientOptions = {},
  order?: OrderOptions,
): Promise<{ client: Client; semaphore: PermitExpirableSemaphore }> {
  fixture.onEnd(async () => {
    const left = [await fixture.server.admin.get('a'), await fixture.server.admin.zcard(LEASES)]
    await fixture.server.admin.del('a', LEASES)
    assert.deepEqual(left, [String(permits), 0], 'all permits are there again')
  })
  const client = await fixture.connect(options)
  const semaphore = client.getPermitExpirableSemaphore('a', order)
  assert.equal(await semaphore.trySetPermits(permits), true)
  return { client, semaphore }
}

export const idOf = (permit: Permit): string => {
  const [id] = permit.permitIds
  assert(id)
  return id
}

/** Call it inside a `describe`. */
export function permitContract(setUp: SetUp, order?: OrderOptions): void {
  const fixture = setUp()
  const withPermits = (permits: number, options?: ClientOptions) => semaphoreWith(fixture, permits, options, order)

  it('a permit-expirable semaphore is created once, and can have more or fewer permits, whatever is held', async () => {
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const numbers = async () => [
      await semaphore.availablePermits(),
      await semaphore.acquiredPermits(),
      await semaphore.getPermits(),
    ]
    assert.equal(semaphore.name, 'a')
    assert.deepEqual(await numbers(), [0, 0, 0])
    assert.equal(await semaphore.tryAcquire(), null)
    assert.equal(await semaphore.trySetPermits(2), true)
    assert.equal(await semaphore.trySetPermits(5), false)
    assert.deepEqual(await numbers(), [2, 0, 2])
    const permit = await semaphore.acquire({ permits: 2 })
    assert.deepEqual(await numbers(), [0, 2, 2])
    await semaphore.addPermits(2)
    assert.deepEqual(await numbers(), [2, 2, 4])
    await semaphore.reducePermits(3)
    assert.deepEqual(await numbers(), [-1, 2, 1])
    await semaphore.setPermits(5)
    assert.deepEqual(await numbers(), [3, 2, 5])
    await semaphore.setPermits(0)
    assert.deepEqual(await numbers(), [-2, 2, 0])
    await permit.unlock()
    assert.deepEqual(await numbers(), [0, 0, 0])
    assert.equal(await semaphore.tryAcquire(), null)
    assert.equal(await semaphore.delete(), true)
    assert.equal(await semaphore.delete(), false)
    await semaphore.setPermits(1)
    assert.deepEqual(await numbers(), [1, 0, 1])
    await semaphore.delete()
  })

  it('permits are granted as holds, all of the requested ones or none', async () => {
    const { client, semaphore } = await withPermits(3)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const permit = await semaphore.acquire({ permits: 2, label: 'import' })
    assert.equal(permit.lockName, 'a')
    assert.equal(permit.label, 'import')
    assert.equal(permit.count, 1)
    assert.equal(new Set(permit.permitIds).size, 2)
    for (const id of permit.permitIds) assert.match(id, /^[0-9a-f]{32}$/)
    assert.equal(permit.signal.aborted, false)
    const left = permit.remainingMs()
    assert(left > 20_000 && left < 30_000, `${left} ms`)
    permit.assertHeld()
    assert.equal(await permit.isHeld(), true)
    assert.throws(() => permit.handOver(), { code: 'LOCK_CONFIG' })
    assert.equal(await other.tryAcquire({ permits: 2 }), null)
    const second = await other.tryAcquire()
    assert(second)
    assert.equal(await other.tryAcquire(), null)
    assert.equal(await client.runInScope(() => semaphore.tryAcquire()), null)
    await permit.unlock()
    await permit.unlock()
    assert.equal(permit.signal.aborted, false)
    assert.equal(permit.remainingMs(), 0)
    assert.throws(() => permit.assertHeld(), { code: 'LOCK_NOT_HELD' })
    assert.equal(await permit.isHeld(), false)
    assert.equal(await semaphore.availablePermits(), 2)
    await second.unlock()
  })

  it('a holder of a permit gets another one, in the same scope too', async () => {
    const { client, semaphore } = await withPermits(3)
    await client.runInScope(async () => {
      const [first, second] = [await semaphore.acquire(), await semaphore.acquire()]
      assert.notDeepEqual(first.permitIds, second.permitIds)
      await semaphore.withPermit(async () => assert.equal(await semaphore.tryAcquire(), null))
      await first.unlock()
      second.assertHeld()
      assert.equal(await semaphore.acquiredPermits(), 1)
      await second.unlock()
    })
  })

  it('permits are released at the end of a block, and of a callback however it ends', async () => {
    const { semaphore } = await withPermits(2)
    {
      await using permit = await semaphore.acquire({ permits: 2 })
      permit.assertHeld()
    }
    assert.equal(await semaphore.availablePermits(), 2)
    const seen: string[] = []
    const options = {
      permits: 2,
      onAcquire: (permit: Permit) => seen.push(`acquired ${permit.permitIds.length}`),
      onRelease: () => seen.push('released'),
    }
    const value = await semaphore.withPermit(options, async (permit) => {
      assert.equal(permit.permitIds.length, 2)
      assert.deepEqual(await semaphore.tryWithPermit(() => 'never'), { ran: false })
      return 7
    })
    assert.equal(value, 7)
    assert.deepEqual(seen, ['acquired 2', 'released'])
    assert.deepEqual(await semaphore.tryWithPermit(() => 'done'), { ran: true, value: 'done' })
    await assert.rejects(
      semaphore.withPermit(() => Promise.reject(new Error('body'))),
      { message: 'body' },
    )
    await assert.rejects(
      semaphore.withPermit({ permits: 3, waitTimeMs: 20 }, () => {}),
      { code: 'LOCK_WAIT_TIMEOUT' },
    )
  })

  it('a waiter in another process is woken as soon as there are enough permits', async () => {
    const { semaphore } = await withPermits(2)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const [first, second] = [await semaphore.acquire(), await semaphore.acquire()]
    const waiting = other.acquire({ permits: 2 })
    await listening(fixture)
    await first.unlock()
    const releasedAt = performance.now()
    await second.unlock()
    const permit = await waiting
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    await permit.unlock()
  })

  it('as many waiters are served, local and remote, as permits become available', async () => {
    const { client, semaphore } = await withPermits(4)
    const other = await fixture.connect()
    const all = await semaphore.acquire({ permits: 4 })
    const permits: Permit[] = []
    const waiting = [client, other, client, other, client, other].map(async (each) => {
      permits.push(await each.getPermitExpirableSemaphore('a', order).acquire())
    })
    await allWait(fixture, 6, order !== undefined)
    const releasedAt = performance.now()
    await all.unlock()
    await waitUntil(() => permits.length === 4)
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    await Promise.all(permits.map((permit) => permit.unlock()))
    await Promise.all(waiting)
    await Promise.all(permits.map((permit) => permit.unlock()))
  })

  it('an acquire is refused when its wait time ends, and has taken nothing', async () => {
    const { semaphore } = await withPermits(1)
    for (const waitTimeMs of [0, 150]) {
      assert.equal(await semaphore.tryAcquire({ permits: 2, waitTimeMs }), null)
      await assert.rejects(semaphore.acquire({ permits: 2, waitTimeMs }), {
        code: 'LOCK_WAIT_TIMEOUT',
        lockName: 'a',
        waitTimeMs,
        message: /^Semaphore "a" did not have enough free permits within/,
      })
    }
  })

  it('an abort ends a wait for permits at once with its reason, and a race with the grant loses no permit', async () => {
    const { semaphore } = await withPermits(2)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const reason = new Error('the request was aborted')
    await assert.rejects(semaphore.acquire({ signal: AbortSignal.abort(reason) }), reason)
    for (let round = 0; round < 60; round++) {
      const isContended = round % 2 === 1
      const held = isContended ? await other.acquire({ permits: 2 }) : undefined
      const abort = new AbortController()
      const taking = settlesWithin(semaphore.acquire({ permits: 2, signal: abort.signal }), 5_000)
      if (isContended) await listening(fixture)
      const released = held?.unlock()
      await moment()
      abort.abort(reason)
      const outcome = await taking
      if (outcome.status === 'fulfilled') await outcome.value.unlock()
      else assert.equal(outcome.reason, reason)
      await released
      await waitUntil(async () => (await other.availablePermits()) === 2)
    }
    await listening(fixture, 0)
  })

  it('a closing client releases its permits after drainMs, and rejects waiters at once', async () => {
    const { client, semaphore } = await withPermits(5)
    const foreign = await (await fixture.connect()).getPermitExpirableSemaphore('a', order).acquire()
    const permit = await semaphore.acquire({ permits: 2 })
    let isInside = false
    let isCounted = false
    const section = semaphore.withPermit(async () => {
      isInside = true
      await waitUntil(() => isCounted)
      await sleep(150)
      return 'done'
    })
    await waitUntil(() => isInside)
    const waiting = Array.from({ length: 100 }, () => settlesWithin(semaphore.acquire({ permits: 5 }), 5_000))
    assert.equal(await semaphore.acquiredPermits(), 4)
    isCounted = true
    await listening(fixture)
    const closed = client.close({ drainMs: 500 })
    for (const outcome of await Promise.all(waiting)) {
      assert(outcome.status === 'rejected')
      assert.deepEqual([outcome.reason.code, outcome.reason.lockName], ['LOCK_CLIENT_CLOSED', 'a'])
    }
    permit.assertHeld()
    assert.equal(await section, 'done')
    await closed
    assert.equal((permit.signal.reason as LeaseLostError).reason, 'closed')
    assert.equal(await fixture.server.admin.get('a'), '4')
    for (const call of [
      () => semaphore.acquire(),
      () => semaphore.tryAcquire(),
      () => semaphore.withPermit(() => {}),
      () => semaphore.release('0'.repeat(32)),
      () => semaphore.tryRelease('0'.repeat(32)),
      () => semaphore.release(['0'.repeat(32)]),
      () => semaphore.trySetPermits(1),
      () => semaphore.setPermits(1),
      () => semaphore.addPermits(1),
      () => semaphore.reducePermits(1),
      () => semaphore.updateLeaseTime('0'.repeat(32), 100),
      () => semaphore.getLeaseTime('0'.repeat(32)),
      () => semaphore.availablePermits(),
      () => semaphore.acquiredPermits(),
      () => semaphore.getPermits(),
      () => semaphore.delete(),
    ]) {
      await assert.rejects(call, { code: 'LOCK_CLIENT_CLOSED' })
    }
    await foreign.unlock()
  })

  it('a permit can be released once by its id from anywhere, and its hold notices', async () => {
    const { client, semaphore } = await withPermits(3, { lockWatchdogTimeoutMs: 2_400 })
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const permit = await semaphore.acquire()
    await other.release(idOf(permit))
    await assert.rejects(other.release(idOf(permit)), {
      code: 'LOCK_NOT_HELD',
      message: new RegExp(`^Permit ${idOf(permit)} of semaphore "a" is not held`),
    })
    assert.equal(await other.tryRelease(idOf(permit)), false)
    await waitUntil(() => permit.signal.aborted, { message: 'the renewal finds it gone' })
    assert.equal((permit.signal.reason as LeaseLostError).reason, 'gone')
    assert.match(lost[0]?.message ?? '', /^A permit of semaphore "a" is no longer held by/)
    await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })

    const next = await semaphore.acquire()
    assert.equal(await other.tryRelease(idOf(next)), true)
    await assert.rejects(next.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })

    // Of several, one that is gone is the end of the hold, which then lets the others go.
    const three = await semaphore.acquire({ permits: 3 })
    await other.release(three.permitIds[1] ?? '')
    assert.equal(await three.isHeld(), false)
    assert.equal((three.signal.reason as LeaseLostError).reason, 'gone')
    await waitUntil(async () => (await other.availablePermits()) === 3)
    const both = await semaphore.acquire({ permits: 2 })
    await other.release(both.permitIds[0] ?? '')
    await assert.rejects(both.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await waitUntil(async () => (await other.availablePermits()) === 3)
  })

  it('several permits are released by their ids from anywhere, all or none, and wake a waiter for as many', async () => {
    const { semaphore } = await withPermits(3)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const three = await semaphore.acquire({ permits: 3 })
    const [first = '', ...rest] = three.permitIds
    const waiting = other.acquire({ permits: 3 })
    await listening(fixture)
    await assert.rejects(other.release([first, '0'.repeat(32), ...rest]), {
      code: 'LOCK_NOT_HELD',
      message: /^Not all of these 4 permits of semaphore "a" are held, so none was released/,
    })
    assert.equal(await other.tryRelease([first, 'no id']), false)
    assert.deepEqual([await other.availablePermits(), await other.acquiredPermits()], [0, 3])
    await other.release(three.permitIds)
    const next = await waiting
    assert.equal(next.permitIds.length, 3)
    await assert.rejects(three.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await assert.rejects(other.release(three.permitIds), { code: 'LOCK_NOT_HELD' })
    assert.equal(await other.tryRelease([...next.permitIds, first]), false)
    assert.equal(await other.tryRelease([...next.permitIds].reverse()), true)
    await assert.rejects(next.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('a permit is renewed as long as it is held, unless it has a fixed lease', async () => {
    const { semaphore } = await withPermits(3, { lockWatchdogTimeoutMs: 2_400 })
    const [kept, leased] = [await semaphore.acquire({ permits: 2 }), await semaphore.acquire({ leaseTimeMs: 700 })]
    await waitUntil(() => leased.signal.aborted)
    assert.equal((leased.signal.reason as LeaseLostError).reason, 'expired')
    await waitUntil(async () => (await semaphore.acquiredPermits()) === 2)
    await renewed([kept])
    assert.equal(await kept.isHeld(), true)
    assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [1, 2])
    await kept.unlock()
    await assert.rejects(leased.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
  })

  it('permits return to waiters when their lease ends, without any action', async () => {
    const { semaphore } = await withPermits(2)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a', order)
    const askedAt = performance.now()
    const leased = await semaphore.acquire({ permits: 2, leaseTimeMs: 400 })
    const takenAt = performance.now()
    const permit = await other.acquire({ permits: 2 })
    const servedAt = performance.now()
    // The lease began somewhere between the two.
    assert(
      servedAt - askedAt >= 399 && servedAt - takenAt < WOKEN_MS,
      `${servedAt - askedAt} ms, ${servedAt - takenAt} ms`,
    )
    assert.equal(leased.signal.aborted, true)
    await permit.unlock()
    await assert.rejects(leased.unlock(), { code: 'LOCK_LEASE_LOST' })
  })
}
