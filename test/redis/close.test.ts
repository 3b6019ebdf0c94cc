import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { connect } from '../../src/index.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import { listening } from '../support/subscribers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const HOLDER = new URL('../support/processes/holder-process.js', import.meta.url)

for (const driver of drivers) {
  describe(`close(), through ${driver.name}`, () => {
    const fixture = setUpFixture(driver)

    it('close() aborts and releases holds, rejects waiters, and refuses new work', async () => {
      const [client, other] = [await fixture.connect(), await fixture.connect()]
      const askedAt = performance.now()
      const holds = await Promise.all(Array.from({ length: 1_000 }, (_, n) => client.getLock(`lock:${n}`).lock()))
      const takingMs = performance.now() - askedAt
      const foreign = await other.getLock('foreign').lock()
      const waiting = Array.from({ length: 500 }, () => settlesWithin(client.getLock('foreign').lock(), 30_000))
      await listening(fixture)

      const startedAt = performance.now()
      await Promise.all([client.close(), client.close()])
      const closingMs = performance.now() - startedAt
      assert(closingMs < 1_000 + 4 * takingMs, `${closingMs} ms, after ${takingMs} ms for taking them`)
      assert.deepEqual(await fixture.server.admin.keys('*'), ['foreign'])
      for (const outcome of await Promise.all(waiting)) {
        assert(outcome.status === 'rejected')
        assert.deepEqual([outcome.reason.code, outcome.reason.lockName], ['LOCK_CLIENT_CLOSED', 'foreign'])
      }
      for (const hold of holds) {
        assert.equal((hold.signal.reason as { reason: string }).reason, 'closed')
        assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'closed' })
      }
      await assert.rejects(client.getLock('a').lock(), { code: 'LOCK_CLIENT_CLOSED' })
      await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_CLIENT_CLOSED' })
      await foreign.unlock()
    })

    it('close() lets holds finish within drainMs, re-entries included', async () => {
      const client = await fixture.connect()
      const steps: string[] = []
      const body = client.getLock('a').withLock(async (hold) => {
        await sleep(100)
        await client.getLock('a').withLock(() => steps.push('inner'))
        await assert.rejects(client.getLock('b').lock(), { code: 'LOCK_CLIENT_CLOSED' })
        hold.assertHeld()
        steps.push('outer')
      })
      await waitUntil(() => client.getLock('a').isLocked())
      const startedAt = performance.now()
      await client.close({ drainMs: 5_000 })
      const drainedMs = performance.now() - startedAt
      await body
      assert.deepEqual(steps, ['inner', 'outer'])
      assert(drainedMs < 2_000, `did not wait longer than needed: ${drainedMs} ms`)
    })

    it('the drain ends when drainMs is over or a later close() cuts it short', async () => {
      const client = await fixture.connect()
      const hold = await client.getLock('a').lock()
      const closed = client.close({ drainMs: 60_000 })
      await sleep(50)
      hold.assertHeld()
      await client.close({ drainMs: 50 })
      await closed
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'closed' })
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })

    it('a closed client refuses every call, and callers that keep retrying do not delay close()', async () => {
      const [client, other] = [await fixture.connect(), await fixture.connect()]
      const foreign = await other.getLock('a').lock()
      const lock = client.getLock('a')
      const calling = Array.from({ length: 10 }, async () => {
        while (true) await lock.isLocked()
      })
      const calls = Promise.allSettled(calling)
      await sleep(20)
      const closed = await settlesWithin(client.close(), 2_000)
      assert.equal(closed.status, 'fulfilled')
      for (const outcome of await calls) {
        assert(outcome.status === 'rejected')
        assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
      }
      for (const call of [() => lock.forceUnlock(), () => lock.getHolders(), () => lock.remainingLeaseMs()]) {
        await assert.rejects(call, { code: 'LOCK_CLIENT_CLOSED' })
      }
      assert.equal(await foreign.isHeld(), true)
      await foreign.unlock()
    })

    it('close() waits for a release that Redis could not perform at once', async () => {
      const client = await fixture.connect()
      const hold = await client.getLock('a').lock()
      await fixture.server.admin.replicaof('127.0.0.1', 1)
      const unlocked = settlesWithin(hold.unlock(), 5_000)
      await sleep(20)
      await fixture.server.admin.replicaof('NO', 'ONE')
      await client.close()
      await unlocked
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })

    it('a grant that arrives while the client closes is released', async () => {
      const client = await fixture.connect()
      const taking = Array.from({ length: 20 }, (_, n) => settlesWithin(client.getLock(`lock:${n}`).tryLock(), 5_000))
      await client.close()
      for (const outcome of await Promise.all(taking)) {
        if (outcome.status === 'fulfilled') {
          const hold = outcome.value
          assert.throws(() => hold?.assertHeld(), { code: 'LOCK_LEASE_LOST' })
        } else assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
      }
      assert.deepEqual(await fixture.server.admin.keys('*'), [])
    })

    it('the end of an await using block closes the client', async () => {
      const outer = await fixture.connect()
      {
        await using client = outer
        await client.getLock('a').lock()
      }
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })
  })
}

describe('close()', () => {
  const fixture = setUpFixture()

  it('close() closes the connections that Holdfast opened, and no others', async () => {
    const own = new Redis(fixture.server.url)
    const ownNodeRedis = createClient({ url: fixture.server.url })
    await ownNodeRedis.connect()
    await own.ping()
    fixture.onEnd(() => {
      own.disconnect()
      ownNodeRedis.destroy()
    })
    for (const redis of [own, ownNodeRedis]) {
      const listeners = redis.listenerCount('ready')
      const client = await connect({ client: redis })
      const hold = await client.getLock('a').lock()
      await client.getLock('a').tryLock({ waitTimeMs: 50 })
      await hold.unlock()
      await client.close()
      assert.equal(redis.listenerCount('ready'), listeners)
    }
    assert.equal(await own.ping(), 'PONG')
    assert.equal(await ownNodeRedis.ping(), 'PONG')
  })

  it('close() does not wait long for an unreachable Redis', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('a').lock()
    await fixture.server.kill()
    const startedAt = performance.now()
    await client.close()
    assert(performance.now() - startedAt < 2_500)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'closed' })
    await fixture.server.restart()
  })

  it('after close() the process exits by itself', async () => {
    const child = spawnChild(HOLDER, [fixture.server.url, 'close'])
    await child.nextMessage(({ at }) => at === 'closed')
    assert.deepEqual(await Promise.race([child.exit, sleep(1_000)]), { code: 0, signal: null })
  })

  it('after close() the process exits even if Redis is unreachable', async () => {
    const child = spawnChild(HOLDER, [fixture.server.url, 'hold'])
    await child.nextMessage(({ at }) => at === 'held')
    await fixture.server.kill()
    process.kill(child.pid ?? 0, 'SIGUSR2')
    await child.nextMessage(({ at }) => at === 'closed')
    const exit = await Promise.race([child.exit, sleep(1_500)]) // ioredis itself would keep it for two seconds
    await fixture.server.restart()
    assert.deepEqual(exit, { code: 0, signal: null })
  })

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`${signal} closes the client: holds drain, the rest is released, and the signal ends the process`, async () => {
      const child = spawnChild(HOLDER, [fixture.server.url, 'hold'])
      await child.nextMessage(({ at }) => at === 'held')
      process.kill(child.pid ?? 0, signal)
      await child.nextMessage(({ at }) => at === 'aborted')
      assert.deepEqual(await child.exit, { code: null, signal })
      assert.deepEqual(await fixture.server.admin.keys('*'), [])
    })
  }

  it('with `before`, locks can still be taken until it has settled, and its error is a warning', async () => {
    const child = spawnChild(HOLDER, [fixture.server.url, 'finish'])
    await child.nextMessage(({ at }) => at === 'held')
    process.kill(child.pid ?? 0, 'SIGTERM')
    await child.nextMessage(({ at }) => at === 'took another')
    assert.equal((await child.nextMessage(({ at }) => at === 'warned'))['message'], 'of before')
    assert.deepEqual(await child.exit, { code: null, signal: 'SIGTERM' })
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('a `before` that does not settle is cut off after drainMs, or by a second signal, and calls say why', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('b').lock()
    for (const [drainMs, signals, why] of [
      [
        '200',
        1,
        /cannot be used for "b": the process received SIGTERM, and drainMs \(200 ms\) ended before `before` had/,
      ],
      ['60000', 2, /cannot be used for "b": the process received SIGTERM again/],
    ] as const) {
      const child = spawnChild(HOLDER, [fixture.server.url, 'hang', drainMs])
      await child.nextMessage(({ at }) => at === 'held')
      process.kill(child.pid ?? 0, 'SIGTERM')
      await child.nextMessage(({ at }) => at === 'before')
      if (signals === 2) process.kill(child.pid ?? 0, 'SIGTERM')
      const { code, message } = await child.nextMessage<{ at: string; code: string; message: string }>(
        ({ at }) => at === 'rejected',
      )
      assert.equal(code, 'LOCK_CLIENT_CLOSED')
      assert.match(message, why)
      assert.deepEqual(await child.exit, { code: null, signal: 'SIGTERM' })
      assert.deepEqual(await fixture.server.admin.keys('a'), [])
    }
    await hold.unlock()
  })

  it('a close beside another handler of the signal is a warning, and leaves the end of the process to that', async () => {
    const child = spawnChild(HOLDER, [fixture.server.url, 'beside', 'own handler'])
    await child.nextMessage(({ at }) => at === 'held')
    process.kill(child.pid ?? 0, 'SIGTERM')
    await child.nextMessage(({ at }) => at === 'own handler')
    await child.nextMessage(({ at, code }) => at === 'warned' && code === 'CLOSED_BESIDE_HANDLER')
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
    await child.stop()
  })

  it('a close beside another client that closes on signals is no warning', async () => {
    const child = spawnChild(HOLDER, [fixture.server.url, 'beside'])
    await child.nextMessage(({ at }) => at === 'held')
    process.kill(child.pid ?? 0, 'SIGTERM')
    assert.deepEqual(await child.exit, { code: null, signal: 'SIGTERM' })
    const warned = child.nextMessage<{ at?: string }>(({ at }) => at === 'warned')
    await assert.rejects(warned, /ended without the message/)
  })

  it('closeOnSignals() refuses options that cannot work', async () => {
    const client = await fixture.connect()
    for (const options of [{ drainMs: -1 }, { before: 'server' }, { server: {} }]) {
      assert.throws(() => client.closeOnSignals(options as never), { code: 'LOCK_CONFIG' })
    }
    assert.equal(process.listenerCount('SIGTERM'), 0)
  })

  it('close() removes the handlers of closeOnSignals(), also of a call that comes later', async () => {
    const clients = await Promise.all(Array.from({ length: 11 }, () => fixture.connect()))
    for (const client of clients) client.closeOnSignals()
    assert.equal(process.listenerCount('SIGTERM'), 1)
    for (const client of clients) await client.close()
    clients[0]?.closeOnSignals()
    assert.deepEqual([process.listenerCount('SIGTERM'), process.listenerCount('SIGINT')], [0, 0])
  })

  it('the locks of a killed process stay held until their lease ends', async () => {
    const child = spawnChild(HOLDER, [fixture.server.url, 'hold'])
    await child.nextMessage(({ at }) => at === 'held')
    const client = await fixture.connect()
    const waiting = client.getLock('a').lock()
    const leftMs = await client.getLock('a').remainingLeaseMs()
    const killedAt = performance.now()
    process.kill(child.pid ?? 0, 'SIGKILL')
    const hold = await waiting
    const waitedMs = performance.now() - killedAt
    assert(waitedMs < leftMs + 1_000, `taken ${waitedMs} ms after the kill, with ${leftMs} ms of the lease left`)
    await hold.unlock()
    await waitUntil(async () => (await fixture.server.admin.keys('*')).length === 0)
  })
})
