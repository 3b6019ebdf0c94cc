/** In which order the callbacks of `client.locks` begin. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { RequestOrder } from '../../src/web-locks/order.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

it('a request to client.locks calls back when all earlier ones have called back or wait, or after 100 ms', async () => {
  const clock = new FakeClock()
  const order = new RequestOrder(clock)
  const [first, second, third] = [order.enter(), order.enter(), order.enter()]
  const calledBack: string[] = []
  const callBack = (place: typeof first, name: string) => void place.turn().then(() => calledBack.push(name))
  void order.settled.then(() => calledBack.push('all have left'))
  callBack(third, 'third')
  callBack(first, 'first')
  await clock.advance(50)
  assert.deepEqual(calledBack, ['first'])
  first.leave()
  callBack(second, 'second')
  await clock.advance(49)
  assert.deepEqual(calledBack, ['first', 'second'])
  await clock.advance(1)
  assert.deepEqual(calledBack, ['first', 'second', 'third'])
  third.leave()
  await clock.advance(1_000)
  second.leave()
  assert.equal(calledBack.length, 3)
  await clock.advance(0)
  assert.deepEqual(calledBack.at(-1), 'all have left')
})

it('what a callback of client.locks requests before it returns goes before the release, or for 100 ms', async () => {
  const clock = new FakeClock()
  const order = new RequestOrder(clock)
  assert.equal(
    order.run(() => 1),
    1,
  )
  for (const leavesAfterMs of [10, 1_000]) {
    let place: ReturnType<typeof order.enter> | undefined
    const result = order.run(() => {
      place = order.enter()
      return Promise.reject(new Error('of the callback'))
    })
    let settledAt: number | undefined
    void (result as Promise<unknown>).catch(() => (settledAt = clock.now()))
    const startedAt = clock.now()
    await clock.advance(leavesAfterMs)
    place?.leave()
    await clock.advance(0)
    assert.equal((settledAt ?? 0) - startedAt, Math.min(leavesAfterMs, 100))
  }
})

it('a request to client.locks that lost its lock while earlier ones called back does not call back', async () => {
  const fixture = new ClientFixture({ inspection: false })
  const { client, clock, port } = fixture
  await client.locks.query() // from now on it needs no file
  port.once('queue/acquire', { replyMs: 80 })
  const first = client.locks.request('a', () => 'done')
  await clock.advance(1) // so that the next one is another command
  let hasCalledBack = false
  const second = client.locks.request('b', { leaseTimeMs: 20 }, () => (hasCalledBack = true))
  const lost = assert.rejects(second, { code: 'LOCK_LEASE_LOST', lockName: 'b' })
  assert.equal(await clock.until(first), 'done')
  await clock.until(lost)
  assert.equal(hasCalledBack, false)
  await fixture.close()
})
