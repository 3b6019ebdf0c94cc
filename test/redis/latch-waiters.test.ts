/** The waiters of a count-down latch: messages, deletion, deadlines. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { openSynchronizerTwin } from '../support/redisson-twin/twin-synchronizers.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { repliesForgotten } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** The longest pause of a waiter, and some time for its attempt. */
const POLL_MS = 8_000

/** Each test shows that a known defect of Redisson’s RedissonCountDownLatch and CountDownLatchPubSub does not occur here. */
describe('the waiters of a latch', () => {
  const fixture = setUpFixture()

  it('latches with braces in their names work like any other', async () => {
    for (const name of ['{shop}:order', 'a{t}b', '{}', 'a}b', 'a{b']) {
      const [latch, other] = [await fixture.connect(), await fixture.connect()].map((client) =>
        client.getCountDownLatch(name),
      )
      await latch?.trySetCount(1)
      const waiting = latch?.await()
      await listening(fixture)
      const openedAt = performance.now()
      await other?.countDown()
      assert.equal(await waiting, true)
      assert(performance.now() - openedAt < WOKEN_MS, 'woken, not polling')
      await listening(fixture, 0)
    }
  })

  it('a latch that opens without a message, or while the message is lost, is found open', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('a')
    await latch.trySetCount(1)
    const polled = settlesWithin(latch.await(), POLL_MS)
    await listening(fixture)
    await sleep(200)
    await fixture.server.admin.del('a') // no message
    assert.deepEqual(await polled, { status: 'fulfilled', value: true })
    await listening(fixture, 0)

    await latch.trySetCount(1)
    const waiting = settlesWithin(latch.await(), WOKEN_MS)
    await listening(fixture)
    await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await fixture.server.admin.del('a')
    assert.deepEqual(
      await waiting,
      { status: 'fulfilled', value: true },
      'it makes an attempt when it is subscribed again',
    )
  })

  it('deleting a latch wakes its waiters, those of a peer too', async () => {
    const [latch, other] = [await fixture.connect(), await fixture.connect()].map((client) =>
      client.getCountDownLatch('a'),
    )
    const peer = await openSynchronizerTwin(fixture)
    assert(latch && other)
    await latch.trySetCount(9)
    const waiting = [latch.await(), other.await(), peer.await('a')]
    const channel = 'redisson_countdownlatch__channel__{a}'
    await waitUntil(async () => (await fixture.server.admin.pubsub('NUMSUB', channel))[1] === 3)
    await waitUntil(() => peer.sleeping === 1)
    const deletedAt = performance.now()
    await latch.delete()
    await Promise.all(waiting)
    assert(performance.now() - deletedAt < WOKEN_MS, 'woken, not polling')
  })

  it('a message between the count and the pause of a waiter is never lost', async () => {
    const [client, peer] = [await fixture.connect(), await openSynchronizerTwin(fixture)]
    const latch = client.getCountDownLatch('a')
    const rounds = 60
    for (let round = 0; round < rounds; round++) {
      await peer.trySetCount('a', 1)
      const waits = Array.from({ length: 3 }, () => latch.await())
      const until = performance.now() + (round / rounds) * 6
      while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
      await peer.countDown('a')
      const openedAt = performance.now()
      assert.deepEqual(await Promise.all(waits), [true, true, true])
      assert(performance.now() - openedAt < WOKEN_MS, `round ${round}`)
    }
  })

  it('a false message that a latch is open costs one check', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('a')
    await latch.trySetCount(1)
    const waits = Array.from({ length: 50 }, () => latch.await())
    await listening(fixture)
    await repliesForgotten(fixture)
    await sleep(100)
    for (let n = 0; n < 3; n++) {
      const looks = await countCommands(fixture.server, async () => {
        await fixture.server.admin.publish('redisson_countdownlatch__channel__{a}', '0')
        await sleep(200)
      })
      assert.equal(looks.scripts, 1)
    }
    await latch.countDown()
    await Promise.all(waits)
  })

  it('an open latch is open however short the wait, and the wait ends in time if subscribing is impossible', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const latch = client.getCountDownLatch('a')
    for (const waitTimeMs of [0, 200]) assert.equal(await latch.await({ waitTimeMs }), true)
    await latch.trySetCount(1)
    proxy.delay(20_000, (request) => request.startsWith('SUBSCRIBE'))
    const outcome = await settlesWithin(latch.await({ waitTimeMs: 300 }), WOKEN_MS)
    assert.deepEqual(outcome, { status: 'fulfilled', value: false })
    const waiting = settlesWithin(latch.await(), WOKEN_MS)
    await sleep(50)
    await latch.delete()
    assert.deepEqual(await waiting, { status: 'fulfilled', value: true }, 'it polls while it is not subscribed')
    proxy.pass()
  })
})
