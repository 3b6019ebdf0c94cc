/** What `forceUnlock()` ends and what it leaves alone, and what a client does that may not use the turn queue. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, Lock } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ commandTimeoutMs: 3_000 })
})

afterEach(() => bench.close())

describe('forceUnlock()', () => {
  it('frees the lock in Redis by name of its holder, also if this client holds it', async () => {
    const hold = await bench.lock.lock()
    assert.deepEqual(await bench.commandsOf(() => bench.lock.forceUnlock()), ['lock/inspect', 'lock/release'])
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('ends what this client holds, and not what it takes right after', async () => {
    const hold = await bench.lock.lock()
    const [wasHeld, next] = await Promise.all([bench.lock.forceUnlock(), bench.lock.lock()])
    assert.equal(wasHeld, true)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    bench.assertSafe(next)
    await next.unlock()
  })

  it('of the turn in which withLock() takes the lock ends the hold of its function', async () => {
    const running = bench.lock.withLock({ atLeastMs: 1_000 }, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    assert.equal(await bench.lock.forceUnlock(), true)
    await assert.rejects(running, { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('leaves holds of other locks alone, and attempts to take them', async () => {
    const { client, clock, port } = bench
    await bench.other.getLock('a').lock()
    const held = await client.getLock('b').lock()
    port.once('lock/acquire', { replyMs: 500 })
    const taking = client.getLock('c').tryLock()
    await turn()
    assert.equal(await clock.until(bench.lock.forceUnlock()), true)
    const taken = (await clock.until(taking)) as Hold
    for (const hold of [held, taken]) {
      bench.assertSafe(hold)
      await hold.unlock()
    }
  })

  it('leaves holds of other values of a group alone', async () => {
    const [one, two] = ['1', '2'].map((value) => bench.client.getFasterMultiLock('group', [value])) as [Lock, Lock]
    const [forced, other] = [await one.lock(), await two.lock()]
    assert.equal(await one.forceUnlock(), true)
    assert.equal(forced.signal.aborted, true)
    assert.equal(await other.isHeld(), true)
    await other.unlock()
  })

  it('is the reason of a loss that shows while it is in flight', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { replyMs: 500 })
    const forcing = bench.lock.forceUnlock()
    await bench.clock.advance(100)
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.equal(await bench.clock.until(forcing), true)
  })

  it('that fails leaves a hold of this client as it is: valid, and handed off to the next caller', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(1)
    bench.port.once('lock/release-queued', { errorReply: "ERR unknown command 'evalsha'" })
    await assert.rejects(bench.lock.forceUnlock(), /unknown command/)
    bench.assertSafe(hold)
    assert.deepEqual(await bench.commandsOf(() => hold.unlock()), [])
    await (await waiting[0])?.unlock()
  })
})

describe('the turn queue', () => {
  it('is no longer used once an ACL forbids it, and a warning says why', async () => {
    bench.port.fault = ({ name }) => (name.endsWith('-queued') ? { errorReply: 'NOPERM No permissions' } : undefined)
    const cycle = async (): Promise<void> => await (await bench.lock.lock()).unlock()
    await cycle()
    assert.equal(bench.port.count('lock/release-queued'), 1)
    assert.equal(bench.port.count('lock/release'), 1)
    const [warning] = bench.warnings as [Error & { code: string }]
    assert.equal(warning.code, 'TURN_QUEUE_REFUSED')
    assert.equal((warning.cause as Error).message, 'NOPERM No permissions')
    await cycle()
    assert.equal(bench.port.count('lock/release-queued'), 1)
    await bench.lock.lock()
    assert.equal(await bench.lock.forceUnlock(), true)
    assert.equal(bench.port.count('lock/release-queued'), 1)
    assert.equal(bench.warnings.length, 1)
  })

  it('is not blamed for other errors', async () => {
    bench.client.on('warning', () => assert.fail('nothing is refused'))
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { errorReply: 'ERR unknown command' })
    await assert.rejects(bench.lock.forceUnlock(), { message: 'ERR unknown command' })
    assert.equal(bench.port.count('lock/release'), 0)
    await hold.unlock()
  })
})
