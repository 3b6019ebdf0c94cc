/** Which error of withLock() wins, and what becomes of the others. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { LeaseLostError } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const RELEASES = ['lock/release', 'lock/release-queued']

describe('withLock()', () => {
  let fixture: ClientFixture

  beforeEach(() => {
    fixture = new ClientFixture({ commandTimeoutMs: 1_000 })
  })

  afterEach(() => fixture.close())

  function loseReleases(): void {
    fixture.port.fault = ({ name }) => (RELEASES.includes(name) ? { lost: 'reply' } : undefined)
  }

  const run = <T>(fn: () => T): Promise<T> => fixture.clock.until(fixture.lock.withLock(fn) as Promise<T>)

  it("withLock() returns the function's value although the release had no reply, with a warning", async () => {
    loseReleases()
    assert.equal(await run(() => 7), 7)
    assert.deepEqual(
      fixture.warnings.map(({ code }) => code),
      ['LOCK_OUTCOME_UNKNOWN'],
    )
  })

  it('withLock() throws what the function threw although the release failed too, which is a warning', async () => {
    loseReleases()
    await assert.rejects(
      run(() => {
        throw new Error('of the function')
      }),
      /of the function/,
    )
    assert.deepEqual(
      fixture.warnings.map(({ code }) => code),
      ['RELEASE_FAILED'],
    )
    assert.equal((fixture.warnings[0]?.cause as { code?: string } | undefined)?.code, 'LOCK_OUTCOME_UNKNOWN')
  })

  it('withLock() throws the loss after the function succeeded', async () => {
    const losing = run(async () => {
      await fixture.pause(500)
      fixture.redis.flush()
    })
    await assert.rejects(losing, { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(fixture.lost.length, 1)
    assert.deepEqual(fixture.warnings, [])
  })

  it('withLock() throws what the function threw after a loss, which is no warning', async () => {
    const failing = run(() => {
      fixture.redis.flush()
      throw new Error('of the function')
    })
    await assert.rejects(failing, /of the function/)
    assert.equal(fixture.lost.length, 1)
    assert.deepEqual(fixture.warnings, [])
  })

  it('withLock() says in the loss how long the function ran, not in a loss that the function throws', async () => {
    const losing = fixture.lock.withLock({ leaseTimeMs: 1_000 }, () => fixture.pause(1_500))
    await assert.rejects(fixture.clock.until(losing), {
      reason: 'expired',
      message: /\. The function ran for 1500 ms$/,
    })
    const failing = run(async () => {
      const other = await fixture.client.getLock('b').lock()
      fixture.redis.delete('b')
      await other.isHeld()
      other.assertHeld()
    })
    await assert.rejects(failing, ({ lockName, message }: LeaseLostError) => lockName === 'b' && !/ ran /.test(message))
  })

  it('withLock() answers commandTimeoutMs late if Redis falls silent during the work, with a background release at once', async () => {
    const { clock, lock, port, warnings } = fixture
    for (const [release, lateMs] of [
      ['await', 1_000],
      ['background', 0],
    ] as const) {
      let endedAt = 0
      const call = lock.withLock({ release }, () => {
        port.isDisconnected = true
        endedAt = clock.now()
        return 'value'
      })
      assert.equal(await clock.until(call), 'value')
      assert.equal(clock.now() - endedAt, lateMs)
      port.isDisconnected = false
      await clock.advance(10_000)
    }
    assert.deepEqual(
      warnings.map(({ code }) => code),
      ['LOCK_OUTCOME_UNKNOWN', 'LOCK_OUTCOME_UNKNOWN'],
    )
  })

  it('withLock() calls onAcquire before and onRelease after, and warns of what onRelease throws', async () => {
    const calls: string[] = []
    const options = {
      onAcquire: () => void calls.push(fixture.redis.keys.join()),
      onRelease: () => {
        calls.push(fixture.redis.keys.join() || 'free')
        throw new Error('of onRelease')
      },
    }
    assert.equal(await fixture.lock.withLock(options, () => calls.push('run')), 2)
    await assert.rejects(
      fixture.lock.withLock(options, () => Promise.reject(new Error('of the function'))),
      /of the function/,
    )
    assert.deepEqual(calls, ['a', 'run', 'free', 'a', 'free'])
    assert.deepEqual(
      fixture.warnings.map(({ message }) => message),
      ['of onRelease', 'of onRelease'],
    )
    const refusing = { ...options, onAcquire: () => assert.fail('of onAcquire') }
    await assert.rejects(
      fixture.lock.withLock(refusing, () => calls.push('run')),
      /of onAcquire/,
    )
    assert.deepEqual(calls.slice(5), ['free'])
  })

  it('withLock() frees the lock if the function returns what would be read only afterwards', async () => {
    function* numbers(): Generator<number> {
      yield 1
    }
    async function* rows(): AsyncGenerator<number> {
      yield 1
    }
    for (const unread of [numbers, rows]) {
      await assert.rejects(
        run(() => unread()),
        { code: 'LOCK_CONFIG', path: 'fn', lockName: 'a' },
      )
      assert.deepEqual(fixture.redis.keys, [])
    }
    assert.deepEqual(await run(() => [1]), [1])
    assert.equal(await run(() => null), null)
  })
})

describe('tryWithLock()', () => {
  it('tryWithLock() tells whether the function ran, and what it returned', async () => {
    const fixture = new ClientFixture({})
    assert.deepEqual(await fixture.lock.tryWithLock(() => 7), { ran: true, value: 7 })
    const hold = await fixture.other.getLock('a').lock()
    assert.deepEqual(await fixture.lock.tryWithLock(() => assert.fail('must not run')), { ran: false })
    await hold.unlock()
    await fixture.close()
  })
})

describe('a count-down latch', () => {
  it('a count-down latch opens once, wakes who waits, and causes no warning', async () => {
    const fixture = new ClientFixture({})
    const latch = fixture.client.getCountDownLatch('latch')
    assert.equal(await latch.trySetCount(2), true)
    assert.equal(await latch.trySetCount(3), false)
    const waiting = fixture.other.getCountDownLatch('latch').await()
    assert.equal(await fixture.clock.until(latch.await({ waitTimeMs: 100 })), false)
    await latch.countDown()
    assert.equal(await latch.getCount(), 1)
    await latch.countDown()
    assert.equal(await fixture.clock.until(waiting), true)
    await latch.countDown()
    assert.equal(await latch.getCount(), 0)
    assert.deepEqual(fixture.warnings, [])
    await fixture.clock.advance(1_000)
    await fixture.close()
  })
})
