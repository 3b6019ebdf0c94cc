/** How long a lease lasts: on the clock of the client, in Redis, and for the release that is repeated until it ends. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import type { Watched } from '../../src/watchdog/renewable.js'
import type { ThreadClient } from '../../src/watchdog/thread-client.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 30_000
const PERIOD_MS = 10_000
const HOUR_MS = 3_600_000
const NO_REPLY = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
})

afterEach(() => fixture.close())

const reasonOf = ({ signal }: Hold): LeaseLostError => signal.reason as LeaseLostError

describe('a lease that Redis keeps for too long, because its clock was set back', () => {
  /** The clock of Redis is set back: what is left of the lease of a hold grows. */
  const setLeft = ({ holder, count }: Hold, leftMs: number): void => fixture.redis.set('a', holder, count, leftMs)
  const renewals = (): string[] => fixture.port.sent.map(({ name }) => name).filter((name) => name.includes('renew'))

  it('a lease kept too long is cut by the renewal after the one that finds it', async () => {
    const hold = await fixture.lock.lock()
    setLeft(hold, HOUR_MS)
    await fixture.clock.advance(PERIOD_MS)
    assert.equal(fixture.redis.pttl('a'), HOUR_MS - PERIOD_MS)
    await fixture.clock.advance(PERIOD_MS)
    assert.equal(fixture.redis.pttl('a'), LEASE_MS)
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(renewals(), ['lock/renew', 'lock/renew-capped', 'lock/renew'])
    await hold.unlock()
  })

  it('a lease of a writer is never cut, as its own reads may have longer leases', async () => {
    const hold = await fixture.client.getReadWriteLock('a').writeLock().lock()
    fixture.redis.execute(['PEXPIRE', 'a', String(HOUR_MS)])
    await fixture.clock.advance(4 * PERIOD_MS)
    hold.assertHeld()
    assert.equal(fixture.redis.pttl('a'), HOUR_MS - 4 * PERIOD_MS)
    assert.deepEqual(renewals(), ['lock/renew', 'lock/renew', 'lock/renew', 'lock/renew'])
    await hold.unlock()
  })

  it('a lease kept too long is not cut if it is too long by a second or less', async () => {
    const hold = await fixture.lock.lock()
    setLeft(hold, LEASE_MS + 1_000 + PERIOD_MS)
    await fixture.clock.advance(2 * PERIOD_MS)
    assert.deepEqual(renewals(), ['lock/renew', 'lock/renew'])
    setLeft(hold, LEASE_MS + 1_001 + PERIOD_MS)
    await fixture.clock.advance(2 * PERIOD_MS)
    assert.deepEqual(renewals().slice(2), ['lock/renew', 'lock/renew-capped'])
    await hold.unlock()
  })

  it('a lease kept too long is cut although another hold of the owner is released in between', async () => {
    const hold = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: hold })
    setLeft(hold, HOUR_MS)
    await fixture.clock.advance(PERIOD_MS)
    await inner.unlock()
    await fixture.clock.advance(PERIOD_MS)
    assert.equal(fixture.redis.pttl('a'), LEASE_MS)
    await hold.unlock()
  })

  it('a lease of its own is cut to what is left of the lease that was asked for', async () => {
    const hold = await fixture.lock.lock({ leaseTimeMs: 20_000 })
    setLeft(hold, HOUR_MS)
    fixture.port.reconnect()
    await fixture.clock.advance(1_000)
    fixture.port.reconnect()
    await turn()
    assert.equal(fixture.redis.pttl('a'), 19_000)
    await hold.unlock()
  })
})

describe('a re-entry whose reply takes long', () => {
  it('a re-entry with a late reply lasts no longer than Redis keeps it despite a renewed outer lease', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: 20_000 })
    fixture.port.once('lock/reenter', { replyMs: 2_000 })
    fixture.port.once('lock/renew', { replyMs: 1_000 })
    const reentering = fixture.lock.lock({ within: outer })
    await fixture.clock.advance(1_500)
    fixture.port.reconnect()
    const inner = await fixture.clock.until(reentering)
    await fixture.clock.advance(1_000)
    assert(
      inner.remainingMs() <= fixture.redis.pttl('a'),
      `${inner.remainingMs()} ms, ${fixture.redis.pttl('a')} in Redis`,
    )
    await inner.unlock()
    await outer.unlock()
  })
})

describe('a release without a reply', () => {
  const loseReleases = (): void => {
    fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { lost: 'request' } : undefined)
  }

  it('a release without a reply is repeated until the lease that was renewed last has ended', async () => {
    const hold = await fixture.lock.lock()
    await fixture.clock.advance(2 * PERIOD_MS + 5_000)
    loseReleases()
    await assert.rejects(fixture.clock.until(hold.unlock()), NO_REPLY)
    await fixture.clock.advance(LEASE_MS / 2) // the lease of the grant would have ended
    assert.deepEqual(fixture.redis.keys, ['a'])
    fixture.port.fault = () => undefined
    await fixture.clock.advance(5_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a release without a reply is repeated no longer than its own lease, despite a reconnect', async () => {
    const hold = await fixture.lock.lock({ leaseTimeMs: 5_000 })
    fixture.port.reconnect()
    await turn()
    loseReleases()
    await assert.rejects(fixture.clock.until(hold.unlock()), NO_REPLY)
    await fixture.clock.advance(6_000)
    const sent = fixture.port.count()
    await fixture.clock.advance(LEASE_MS)
    assert.equal(fixture.port.count(), sent)
  })
})

describe('a release', () => {
  it('a release that reaches Redis only after the lease is no loss: the work was over in time', async () => {
    const hold = await fixture.lock.lock({ leaseTimeMs: 1_000 })
    await fixture.clock.advance(980)
    fixture.port.once('lock/release-queued', { requestMs: 100 })
    await fixture.clock.until(hold.unlock())
    assert.deepEqual([hold.signal.aborted, fixture.lost], [false, []])
  })

  it("a release in another client's turn ends after a poll, so that one is not always later", async () => {
    const hold = await fixture.lock.lock()
    const waiting = fixture.other.getLock('a').lock()
    await fixture.clock.advance(1_000)
    const polls: (() => void)[] = []
    fixture.clock.afterPoll = (action) => void polls.push(action)
    let isOver = false
    const released = hold.unlock().then(() => {
      isOver = true
    })
    await turn()
    assert.deepEqual([isOver, polls.length], [false, 1])
    polls.shift()?.()
    await released
    fixture.clock.afterPoll = (action) => action()
    await (await waiting).unlock()
  })
})

describe('nested holds', () => {
  it('nested holds keep the outer hold beyond a lease of its own, and no hold inside them', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: 5_000 })
    const middle = await fixture.lock.lock({ within: outer })
    const inner = await fixture.lock.lock({ within: middle, leaseTimeMs: 1_000 })
    await fixture.clock.advance(1_000)
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await fixture.clock.advance(2 * PERIOD_MS)
    fixture.assertSafe(outer)
    assert.equal(outer.count, 2)
    await middle.unlock()
    await outer.unlock()
    assert.equal(fixture.lost.length, 1)
  })

  it('nested holds that end before the outer hold leave it the lease that Redis keeps', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: 5_000 })
    const inner = await fixture.lock.lock({ within: outer })
    await fixture.clock.advance(1_000)
    outer.assertHeld()
    await inner.unlock()
    await fixture.clock.advance(LEASE_MS - 1_000 - 303)
    fixture.assertSafe(outer)
    await fixture.clock.advance(1)
    await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await turn()
  })

  it('nested holds are reported lost once each, whatever a listener does at the first report', async () => {
    const outer = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: outer })
    const reasons: string[] = []
    fixture.client.on('lost', ({ error }) => {
      reasons.push(error.reason)
      assert.equal(inner.remainingMs(), 0)
    })
    fixture.redis.flush()
    const asking = outer.isHeld()
    fixture.clock.block(LEASE_MS)
    assert.equal(await asking, false)
    assert.deepEqual(reasons, ['gone', 'expired'])
    assert.equal(fixture.lost.length, 2)
  })
})

describe('extend()', () => {
  it('extend() moves the end of the lease, which is not renewed, and the loss names all of it', async () => {
    await fixture.clock.advance(1_234)
    const hold = await fixture.lock.lock({ leaseTimeMs: 10_000 })
    await fixture.clock.advance(5_000)
    await hold.extend(20_000)
    assert.equal(hold.remainingMs(), 20_000 - 202)
    await fixture.clock.advance(20_000 - 203)
    fixture.assertSafe(hold)
    await fixture.clock.advance(1)
    assert.deepEqual([reasonOf(hold).reason, reasonOf(hold).leaseTimeMs], ['expired', 25_000])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await turn()
  })

  it('extend() by less than is left changes nothing', async () => {
    const hold = await fixture.lock.lock({ leaseTimeMs: 10_000 })
    await fixture.clock.advance(5_000)
    await hold.extend(1_000)
    await fixture.clock.advance(5_000 - 103)
    fixture.assertSafe(hold)
    await fixture.clock.advance(1)
    assert.deepEqual([reasonOf(hold).reason, reasonOf(hold).leaseTimeMs], ['expired', 10_000])
    await fixture.clock.advance(200)
  })

  it('extend() of a renewed hold is an error that names the lock', async () => {
    const hold = await fixture.lock.lock()
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
      unwatch: () => true,
      catchUp: () => {},
      heartbeat: () => {},
      close: async () => {},
    }
    watchdog.threadClient = client as ThreadClient
  }

  it('a lease that the thread renews too is followed by one that a late renewal cannot extend', async () => {
    await fixture.client.runInScope(async () => {
      const first = await fixture.lock.lock()
      thread(first)
      await first.unlock()
      const second = await fixture.lock.lock()
      assert.notEqual(second.holder, first.holder)
      await second.unlock()
    })
  })

  it('a lease is no longer renewed by the thread once the last hold without its own lease ends', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: 5_000 })
    const inner = await fixture.lock.lock({ within: outer })
    const until: number[] = []
    thread(outer, until)
    await inner.unlock()
    assert.equal(until.at(-1), 0)
    await outer.unlock()
  })
})
