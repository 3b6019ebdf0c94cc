import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { setUpFixture } from '../support/fixture.js'
import { NAMES, recordMessages } from '../support/key-contents.js'
import { openSynchronizerTwin } from '../support/redisson-twin/twin-synchronizers.js'
import { listening } from '../support/subscribers.js'
import { expectOnly, repliesForgotten } from '../support/synchronizers.js'
import { waitUntil } from '../support/wait-until.js'

describe('the wire format of a count-down latch', () => {
  const fixture = setUpFixture()

  for (const [name] of NAMES) {
    it(`a latch named ${JSON.stringify(name)} is a string with the count, and its channel always has braces`, async () => {
      const latch = (await fixture.connect()).getCountDownLatch(name)
      const messages = await recordMessages(fixture)
      await latch.countDown()
      await expectOnly(fixture, {})
      await latch.trySetCount(2)
      await expectOnly(fixture, { [name]: { string: '2' } })
      await latch.trySetCount(5)
      await latch.countDown()
      await expectOnly(fixture, { [name]: { string: '1' } })
      const waiting = latch.await()
      await listening(fixture)
      const channel = `redisson_countdownlatch__channel__{${name}}`
      assert.deepEqual(await fixture.server.admin.pubsub('CHANNELS'), [channel])
      await latch.countDown()
      await waiting
      await expectOnly(fixture, {})
      await latch.trySetCount(3)
      await latch.delete()
      await latch.delete()
      await expectOnly(fixture, {})
      // Redisson says "1" of a latch that was deleted, which makes its waiters stay.
      assert.deepEqual(
        await messages(),
        ['1', '0', '1', '0'].map((message) => [channel, message]),
      )
    })
  }

  for (const name of ['order', '{shop}:order']) {
    it(`a latch opens a Redisson twin within 100 ms, and is opened by it within 100 ms: ${name}`, async () => {
      const latch = (await fixture.connect()).getCountDownLatch(name)
      const peer = await openSynchronizerTwin(fixture)
      assert.equal(await latch.trySetCount(2), true)
      assert.equal(await peer.trySetCount(name, 9), false)
      const theirs = peer.await(name)
      await waitUntil(() => peer.sleeping === 1)
      await peer.countDown(name)
      let openedAt = performance.now()
      await latch.countDown()
      await theirs
      assert(performance.now() - openedAt < 100, 'woken')

      assert.equal(await peer.trySetCount(name, 2), true)
      assert.equal(await latch.trySetCount(9), false)
      assert.equal(await latch.getCount(), 2)
      const ours = latch.await()
      await listening(fixture)
      await latch.countDown()
      await repliesForgotten(fixture)
      openedAt = performance.now()
      await peer.countDown(name)
      assert.equal(await ours, true)
      assert(performance.now() - openedAt < 100, 'woken, not polling')

      await latch.trySetCount(1)
      const deleted = peer.await(name)
      await waitUntil(() => peer.sleeping === 1)
      await latch.delete()
      await deleted
    })
  }

  it('a plain subscriber receives the messages of a latch', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('order')
    const redis = new Redis(fixture.server.url)
    fixture.onEnd(() => redis.disconnect())
    const received: string[] = []
    redis.on('message', (_, message: string) => received.push(message))
    await redis.subscribe('redisson_countdownlatch__channel__{order}')
    await latch.trySetCount(1)
    await latch.countDown()
    await waitUntil(() => received.length === 2)
    assert.deepEqual(received, ['1', '0'])
  })
})
