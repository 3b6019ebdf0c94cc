/** The vote of a red lock, to the turn of the event loop. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Client } from '../../src/client.js'
import { getRedLock, type Hold, type Lock, type RedLock } from '../../src/index.js'
import { FakeClock } from '../support/fake-clock.js'
import { FakePort } from '../support/fake-port.js'

describe('a red lock of three servers', () => {
  let clock: FakeClock
  let ports: FakePort[]
  let clients: Client[]
  let red: RedLock

  beforeEach(() => {
    clock = new FakeClock()
    const random = { uuid: () => `client-${clients.length}`, fraction: () => 0.5 }
    ports = []
    clients = []
    for (let n = 0; n < 3; n++) {
      const port = new FakePort(clock)
      ports.push(port)
      clients.push(new Client(port, {}, { clock, random }))
    }
    red = getRedLock(...clients.map((client) => client.getLock('a')))
  })

  afterEach(async () => {
    await clock.until(Promise.all(clients.map((client) => client.close())))
    assert.deepEqual(
      ports.flatMap(({ redis }) => redis.keys),
      [],
      'nothing is held',
    )
  })

  it('a majority of which one lock was lost before the last grant arrived is no majority', async () => {
    const [first, second, third] = ports as [FakePort, FakePort, FakePort]
    second.once('lock/acquire', { replyMs: 100 })
    third.redis.set('a', 'somebody:1', 1, 60_000)
    const outcome = red.tryLock()
    await clock.advance(50)
    assert.deepEqual(first.redis.keys, ['a'])
    await clients[0]?.getLock('a').forceUnlock()
    assert.equal(await clock.until(outcome), null)
    third.redis.delete('a')
  })

  it('a majority is granted as soon as it is complete', async () => {
    ports[2]?.once('lock/acquire', { replyMs: 500 })
    const hold = await red.tryLock()
    assert.equal(hold?.signal.aborted, false)
    await clock.advance(500)
    await hold?.unlock()
  })

  it('a hold is extended if a majority is, and else fails with the first error', async () => {
    const hold = (await red.tryLock({ leaseTimeMs: 10_000 })) as Hold
    ports[0]?.once('lock/renew', { errorReply: 'NOPERM first' })
    await clock.until(hold.extend(20_000))
    assert(hold.remainingMs() > 15_000)
    for (const [index, port] of ports.slice(0, 2).entries()) port.once('lock/renew', { errorReply: `NOPERM ${index}` })
    await assert.rejects(clock.until(hold.extend(30_000)), /NOPERM 0/)
    hold.assertHeld()
    await hold.unlock()
  })

  it('lasts as long as the lease of the majority, and not of the longest', async () => {
    const hold = (await red.tryLock({ leaseTimeMs: 10_000 })) as Hold
    const leftMs = hold.remainingMs()
    ports[0]?.once('lock/renew', {})
    for (const port of ports.slice(1)) port.once('lock/renew', { errorReply: 'NOPERM' })
    await assert.rejects(clock.until(hold.extend(60_000)))
    assert.equal(hold.remainingMs(), leftMs)
    await clock.advance(leftMs - 1)
    hold.assertHeld()
    await clock.advance(1)
    assert.throws(() => hold.assertHeld(), { reason: 'expired' })
    await assert.rejects(hold.unlock(), { reason: 'expired' })
    await clock.advance(60_000)
  })

  it('inside a majority of its own locks, which cannot be re-entered, is a deadlock; inside a minority it is not', async () => {
    const locks = clients.map((client) => client.getNonReentrantLock('a'))
    const [first, second] = locks as [Lock, Lock]
    const inside = getRedLock(...locks)
    await first.withLock(async () => {
      const hold = await clock.until(inside.lock())
      assert.equal(await second.isLocked(), true)
      await hold.unlock()
      await second.withLock(async () => await assert.rejects(inside.lock(), { code: 'LOCK_SELF_DEADLOCK' }))
    })
  })

  it('is waited for until a majority is free, and tried once without a wait', async () => {
    for (const port of ports.slice(0, 2)) port.redis.set('a', 'somebody:1', 1, 5_000)
    assert.equal(await clock.until(red.tryLock()), null)
    assert.deepEqual(
      ports.map(({ redis }) => redis.keys),
      [['a'], ['a'], []],
    )
    const startedAt = clock.now()
    const waits: string[] = []
    clients[0]?.on('longWait', ({ lockName }) => waits.push(lockName))
    await assert.rejects(clock.until(red.lock({ waitTimeMs: 1_000 })), { code: 'LOCK_WAIT_TIMEOUT', waitTimeMs: 1_000 })
    assert.equal(clock.now() - startedAt, 1_000)
    const hold = await clock.until(red.lock({ warnAfterMs: 2_000 }))
    assert(clock.now() - startedAt >= 5_000 && clock.now() - startedAt < 5_500, `${clock.now() - startedAt} ms`)
    assert.deepEqual(waits, [red.name])
    await hold.unlock()
  })

  it('is decided without a server that is silent, soon after the others have replied', async () => {
    ports[1]?.redis.set('a', 'somebody:1', 1, 60_000)
    ports[2]?.once('lock/acquire', { lost: 'request' })
    const startedAt = clock.now()
    assert.equal(await clock.until(red.tryLock().catch(() => null)), null)
    assert(clock.now() - startedAt < 500, `${clock.now() - startedAt} ms`)
    ports[1]?.redis.delete('a')
    await clock.advance(10_000)
  })
})
