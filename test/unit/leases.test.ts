/** How long a lease lasts: on the clock of the client, in Redis, and for the release that is repeated until it ends. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import type { Watched } from '../../src/watchdog/renewable.js'
import type { ThreadClient } from '../../src/watchdog/thread-client.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 30_000
const PERIOD_MS = 10_000
const HOUR_MS = 3_600_000
const NO_REPLY = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ commandTimeoutMs: 3_000 })
})

afterEach(() => bench.close())

const reasonOf = ({ signal }: Hold): LeaseLostError => signal.reason as LeaseLostError

describe('a lease that Redis keeps for too long, because its clock was set back', () => {
  /** The clock of Redis is set back: what is left of the lease of a hold grows. */
  const setLeft = ({ holder, count }: Hold, leftMs: number): void => bench.redis.set('a', holder, count, leftMs)
  const renewals = (): string[] => bench.port.sent.map(({ name }) => name).filter((name) => name.includes('renew'))

  it('is cut by the renewal after the one that finds it', async () => {
    const hold = await bench.lock.lock()
    setLeft(hold, HOUR_MS)
    await bench.clock.advance(PERIOD_MS)
    assert.equal(bench.redis.pttl('a'), HOUR_MS - PERIOD_MS)
    await bench.clock.advance(PERIOD_MS)
    assert.equal(bench.redis.pttl('a'), LEASE_MS)
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(renewals(), ['lock/renew', 'lock/renew-capped', 'lock/renew'])
    await hold.unlock()
  })

  it('is not cut if it is too long by a second or less', async () => {
    const hold = await bench.lock.lock()
    setLeft(hold, LEASE_MS + 1_000 + PERIOD_MS)
    await bench.clock.advance(2 * PERIOD_MS)
    assert.deepEqual(renewals(), ['lock/renew', 'lock/renew'])
    setLeft(hold, LEASE_MS + 1_001 + PERIOD_MS)
    await bench.clock.advance(2 * PERIOD_MS)
    assert.deepEqual(renewals().slice(2), ['lock/renew', 'lock/renew-capped'])
    await hold.unlock()
  })

  it('is cut although another hold of the owner is released in between', async () => {
    const hold = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: hold })
    setLeft(hold, HOUR_MS)
    await bench.clock.advance(PERIOD_MS)
    await inner.unlock()
    await bench.clock.advance(PERIOD_MS)
    assert.equal(bench.redis.pttl('a'), LEASE_MS)
    await hold.unlock()
  })

  it('of its own is cut to what is left of the lease that was asked for', async () => {
    const hold = await bench.lock.lock({ leaseTimeMs: 20_000 })
    setLeft(hold, HOUR_MS)
    bench.port.reconnect()
    await bench.clock.advance(1_000)
    bench.port.reconnect()
    await turn()
    assert.equal(bench.redis.pttl('a'), 19_000)
    await hold.unlock()
  })
})

describe('a re-entry whose reply takes long', () => {
  it('does not last longer than Redis keeps it because the outer lease was renewed meanwhile', async () => {
    const outer = await bench.lock.lock({ leaseTimeMs: 20_000 })
    bench.port.once('lock/reenter', { replyMs: 2_000 })
    bench.port.once('lock/renew', { replyMs: 1_000 })
    const reentering = bench.lock.lock({ within: outer })
    await bench.clock.advance(1_500)
    bench.port.reconnect()
    const inner = await bench.clock.until(reentering)
    await bench.clock.advance(1_000)
    assert(inner.remainingMs() <= bench.redis.pttl('a'), `${inner.remainingMs()} ms, ${bench.redis.pttl('a')} in Redis`)
    await inner.unlock()
    await outer.unlock()
  })
})

describe('a release without a reply', () => {
  const loseReleases = (): void => {
    bench.port.fault = ({ name }) => (name.startsWith('lock/release') ? { lost: 'request' } : undefined)
  }

  it('is repeated in the background until the lease that was renewed last has ended', async () => {
    const hold = await bench.lock.lock()
    await bench.clock.advance(2 * PERIOD_MS + 5_000)
    loseReleases()
    await assert.rejects(bench.clock.until(hold.unlock()), NO_REPLY)
    await bench.clock.advance(LEASE_MS / 2) // the lease of the grant would have ended
    assert.deepEqual(bench.redis.keys, ['a'])
    bench.port.fault = () => undefined
    await bench.clock.advance(5_000)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('is repeated no longer than a lease of its own lasts, although a reconnect has checked that lease', async () => {
    const hold = await bench.lock.lock({ leaseTimeMs: 5_000 })
    bench.port.reconnect()
    await turn()
    loseReleases()
    await assert.rejects(bench.clock.until(hold.unlock()), NO_REPLY)
    await bench.clock.advance(6_000)
    const sent = bench.port.count()
    await bench.clock.advance(LEASE_MS)
    assert.equal(bench.port.count(), sent)
  })
})

describe('a release', () => {
  it('that reaches Redis only after the lease is no loss: the work was over in time', async () => {
    const hold = await bench.lock.lock({ leaseTimeMs: 1_000 })
    await bench.clock.advance(980)
    bench.port.once('lock/release-queued', { requestMs: 100 })
    await bench.clock.until(hold.unlock())
    assert.deepEqual([hold.signal.aborted, bench.lost], [false, []])
  })

  it('ends after the next poll of the event loop if it is the turn of another client, which then is not always later', async () => {
    const hold = await bench.lock.lock()
    const waiting = bench.other.getLock('a').lock()
    await bench.clock.advance(1_000)
    const polls: (() => void)[] = []
    bench.clock.afterPoll = (action) => void polls.push(action)
    let isOver = false
    const released = hold.unlock().then(() => {
      isOver = true
    })
    await turn()
    assert.deepEqual([isOver, polls.length], [false, 1])
    polls.shift()?.()
    await released
    bench.clock.afterPoll = (action) => action()
    await (await waiting).unlock()
  })
})

describe('nested holds', () => {
  it('keep the outer hold beyond a lease of its own, and no hold inside them', async () => {
    const outer = await bench.lock.lock({ leaseTimeMs: 5_000 })
    const middle = await bench.lock.lock({ within: outer })
    const inner = await bench.lock.lock({ within: middle, leaseTimeMs: 1_000 })
    await bench.clock.advance(1_000)
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await bench.clock.advance(2 * PERIOD_MS)
    bench.assertSafe(outer)
    assert.equal(outer.count, 2)
    await middle.unlock()
    await outer.unlock()
    assert.equal(bench.lost.length, 1)
  })

  it('that end before the outer hold leave it the lease that Redis keeps', async () => {
    const outer = await bench.lock.lock({ leaseTimeMs: 5_000 })
    const inner = await bench.lock.lock({ within: outer })
    await bench.clock.advance(1_000)
    outer.assertHeld()
    await inner.unlock()
    await bench.clock.advance(LEASE_MS - 1_000 - 303)
    bench.assertSafe(outer)
    await bench.clock.advance(1)
    await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await turn()
  })

  it('are reported lost once each, whatever a listener does at the first report', async () => {
    const outer = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: outer })
    const reasons: string[] = []
    bench.client.on('lost', ({ error }) => {
      reasons.push(error.reason)
      assert.equal(inner.remainingMs(), 0)
    })
    bench.redis.flush()
    const asking = outer.isHeld()
    bench.clock.block(LEASE_MS)
    assert.equal(await asking, false)
    assert.deepEqual(reasons, ['gone', 'expired'])
    assert.equal(bench.lost.length, 2)
  })
})

describe('extend()', () => {
  it('moves the end of the lease, which the watchdog does not renew, and the loss names all of it', async () => {
    await bench.clock.advance(1_234)
    const hold = await bench.lock.lock({ leaseTimeMs: 10_000 })
    await bench.clock.advance(5_000)
    await hold.extend(20_000)
    assert.equal(hold.remainingMs(), 20_000 - 202)
    await bench.clock.advance(20_000 - 203)
    bench.assertSafe(hold)
    await bench.clock.advance(1)
    assert.deepEqual([reasonOf(hold).reason, reasonOf(hold).leaseTimeMs], ['expired', 25_000])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await turn()
  })

  it('by less than is left changes nothing', async () => {
    const hold = await bench.lock.lock({ leaseTimeMs: 10_000 })
    await bench.clock.advance(5_000)
    await hold.extend(1_000)
    await bench.clock.advance(5_000 - 103)
    bench.assertSafe(hold)
    await bench.clock.advance(1)
    assert.deepEqual([reasonOf(hold).reason, reasonOf(hold).leaseTimeMs], ['expired', 10_000])
    await bench.clock.advance(200)
  })

  it('of a renewed hold is an error that names the lock', async () => {
    const hold = await bench.lock.lock()
    await assert.rejects(hold.extend(1_000), { code: 'LOCK_CONFIG', path: 'extend', lockName: 'a' })
    await hold.unlock()
  })
})

describe('a lease that the watchdog thread renews, too', () => {
  /** A thread that may have sent a renewal a moment ago. */
  function thread(hold: Hold, until: number[] = []): void {
    const { watchdog } = (hold.lease as Lease).context
    const client: Partial<ThreadClient> = {
      watch: ({ renewableUntil }: Watched) => void until.push(renewableUntil),
      forget: () => true,
      catchUp: () => {},
      heartbeat: () => {},
      close: async () => {},
    }
    watchdog.useThread(client as ThreadClient)
  }

  it('is followed by one of another owner, which a renewal on its way cannot extend', async () => {
    await bench.client.runInScope(async () => {
      const first = await bench.lock.lock()
      thread(first)
      await first.unlock()
      const second = await bench.lock.lock()
      assert.notEqual(second.holder, first.holder)
      await second.unlock()
    })
  })

  it('is no longer renewed by the thread once the last hold without a lease of its own has ended', async () => {
    const outer = await bench.lock.lock({ leaseTimeMs: 5_000 })
    const inner = await bench.lock.lock({ within: outer })
    const until: number[] = []
    thread(outer, until)
    await inner.unlock()
    assert.equal(until.at(-1), 0)
    await outer.unlock()
  })
})
