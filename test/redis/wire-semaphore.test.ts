import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { recordMonitor } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { NAMES, recordMessages } from '../support/key-contents.js'
import { openSynchronizerTwin } from '../support/redisson-twin/twin-synchronizers.js'
import { listening } from '../support/subscribers.js'
import { expectOnly, repliesForgotten } from '../support/synchronizers.js'
import { waitUntil } from '../support/wait-until.js'

describe('the wire format of a semaphore', () => {
  const fixture = setUpFixture()

  for (const [name, tagged] of NAMES) {
    it(`a semaphore named ${JSON.stringify(name)} is a string with the number of permits, and its messages are that number`, async () => {
      const semaphore = (await fixture.connect()).getSemaphore(name)
      const messages = await recordMessages(fixture)
      const expectPermits = (permits: number) => expectOnly(fixture, { [name]: { string: String(permits) } })
      await semaphore.trySetPermits(3)
      await expectPermits(3)
      await semaphore.trySetPermits(9)
      await semaphore.acquire({ permits: 2 })
      await expectPermits(1)
      assert.equal(await semaphore.tryAcquire({ permits: 2 }), false)
      await expectPermits(1)
      await semaphore.release(2)
      await expectPermits(3)
      await semaphore.releaseIfExists()
      await expectPermits(4)
      await semaphore.addPermits(2)
      await expectPermits(6)
      await semaphore.reducePermits(8)
      await expectPermits(-2)
      await semaphore.addPermits(1)
      await expectPermits(-1)
      await semaphore.release(3)
      await expectPermits(2)
      await semaphore.drainPermits()
      await expectPermits(0)
      await semaphore.delete()
      await expectOnly(fixture, {})
      await semaphore.releaseIfExists()
      await expectOnly(fixture, {})
      const expected = ['3', '3', '4', '6', '2'].map((permits) => [`redisson_sc:${tagged}`, permits])
      assert.deepEqual(await messages(), expected)
    })
  }

  it('a semaphore created with a TTL keeps it, and a release after its end creates it without one', async () => {
    const semaphore = (await fixture.connect()).getSemaphore('order')
    await semaphore.trySetPermits(3, { timeToLiveMs: 60_000 })
    await expectOnly(fixture, { order: { string: '3', ttl: 60_000 } })
    await semaphore.acquire()
    await semaphore.release(2)
    await expectOnly(fixture, { order: { string: '4', ttl: 60_000 } })
    await fixture.server.admin.del('order')
    await semaphore.release()
    await expectOnly(fixture, { order: { string: '1' } })
    await semaphore.delete()
  })

  for (const [name, tagged] of [['order', '{order}'] as const, ['{shop}:order', '{shop}:order'] as const]) {
    it(`replies of a semaphore are kept in a separate hash for 20 minutes or until cleared: ${name}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del(name))
      const client = await fixture.connect()
      const record = await recordMonitor(fixture.server)
      fixture.onEnd(() => record.stop())
      const semaphore = client.getSemaphore(name)
      await semaphore.trySetPermits(2)
      await semaphore.acquire()
      await semaphore.tryAcquire({ permits: 2 })
      await semaphore.release()
      await repliesForgotten(fixture)
      const key = `holdfast_idempotency:${tagged}:${client.id}`
      const lines = (await record.stop()).filter(({ source, args }) => source === 'lua' && args[1] === key)
      const commands = lines.map(({ args: [command = '', , ...rest] }) => [command.toLowerCase(), ...rest])
      assert.deepEqual(
        commands.filter(([command]) => command === 'hset' || command === 'pexpire'),
        ['1', '2', '4'].flatMap((operation) => [
          ...(operation === '4' ? [['pexpire', '1200000']] : []), // so that a Redis without memory does the rest
          ['hset', operation, commands.find(([command, of]) => command === 'hset' && of === operation)?.[2]],
          ['pexpire', '1200000'],
        ]),
      )
      const forgotten = commands.filter(([command]) => command === 'hdel').flatMap(([, ...operations]) => operations)
      assert.deepEqual(forgotten.sort(), ['1', '2', '4'], 'what was refused has left nothing')
    })
  }

  for (const name of ['order', '{shop}:order']) {
    it(`permits keep a Redisson twin out, and wake it within 100 ms: ${name}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del(name))
      const semaphore = (await fixture.connect()).getSemaphore(name)
      const peer = await openSynchronizerTwin(fixture)
      await semaphore.trySetPermits(2)
      assert.equal(await peer.trySetPermits(name, 7), false)
      await semaphore.acquire()
      assert.equal(await peer.tryAcquire(name, 2), false)
      assert.equal(await peer.tryAcquire(name), true)
      for (const wake of [
        () => semaphore.release(),
        () => semaphore.addPermits(1),
        () => semaphore.releaseIfExists(),
      ]) {
        const waiting = peer.acquire(name)
        await waitUntil(() => peer.sleeping === 1)
        const releasedAt = performance.now()
        await wake()
        await waiting
        assert(performance.now() - releasedAt < 100, 'woken')
      }
      const waiting = [peer.acquire(name), peer.acquire(name), peer.acquire(name)]
      await waitUntil(() => peer.sleeping === 3)
      await semaphore.release(3)
      await Promise.all(waiting)
      await semaphore.delete()
      const created = peer.acquire(name)
      await waitUntil(() => peer.sleeping === 1)
      await semaphore.trySetPermits(1)
      await created
    })

    it(`permits are refused by a Redisson twin, and woken by it within 100 ms: ${name}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del(name))
      const semaphore = (await fixture.connect()).getSemaphore(name)
      const peer = await openSynchronizerTwin(fixture)
      assert.equal(await peer.trySetPermits(name, 1), true)
      assert.equal(await semaphore.trySetPermits(7), false)
      assert.equal(await peer.tryAcquire(name), true)
      assert.equal(await semaphore.tryAcquire(), false)
      const waiting = semaphore.acquire()
      await listening(fixture)
      await repliesForgotten(fixture) // it has made another attempt by then
      const releasedAt = performance.now()
      await peer.release(name)
      await waiting
      assert(performance.now() - releasedAt < 100, 'woken, not polling')
      const several = [semaphore.acquire(), semaphore.acquire(), semaphore.acquire()]
      await listening(fixture)
      await peer.release(name, 3)
      await Promise.all(several)
      assert.equal(await fixture.server.admin.get(name), '0')
    })
  }
})
