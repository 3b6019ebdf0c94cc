/** Which error of withLock() wins, and what becomes of the others. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { LeaseLostError } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'

const RELEASES = ['lock/release', 'lock/release-queued']

describe('withLock()', () => {
  let bench: ClientBench

  beforeEach(() => {
    bench = new ClientBench({ commandTimeoutMs: 1_000 })
  })

  afterEach(() => bench.close())

  function loseReleases(): void {
    bench.port.fault = ({ name }) => (RELEASES.includes(name) ? { lost: 'reply' } : undefined)
  }

  const run = <T>(fn: () => T): Promise<T> => bench.clock.until(bench.lock.withLock(fn) as Promise<T>)

  it('returns what the function returned although the reply to the release is missing, with a warning', async () => {
    loseReleases()
    assert.equal(await run(() => 7), 7)
    assert.deepEqual(
      bench.warnings.map(({ code }) => code),
      ['LOCK_OUTCOME_UNKNOWN'],
    )
  })

  it('throws what the function threw although the release failed as well, which is a warning', async () => {
    loseReleases()
    await assert.rejects(
      run(() => {
        throw new Error('of the function')
      }),
      /of the function/,
    )
    assert.deepEqual(
      bench.warnings.map(({ code }) => code),
      ['RELEASE_FAILED'],
    )
    assert.equal((bench.warnings[0]?.cause as { code?: string } | undefined)?.code, 'LOCK_OUTCOME_UNKNOWN')
  })

  it('throws the loss after the function succeeded', async () => {
    const losing = run(async () => {
      await bench.pause(500)
      bench.redis.flush()
    })
    await assert.rejects(losing, { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(bench.lost.length, 1)
    assert.deepEqual(bench.warnings, [])
  })

  it('throws what the function threw after a loss, which is reported as such and not as a warning', async () => {
    const failing = run(() => {
      bench.redis.flush()
      throw new Error('of the function')
    })
    await assert.rejects(failing, /of the function/)
    assert.equal(bench.lost.length, 1)
    assert.deepEqual(bench.warnings, [])
  })

  it('says in the loss how long the function ran, and not in a loss of another hold that the function throws', async () => {
    const losing = bench.lock.withLock({ leaseTimeMs: 1_000 }, () => bench.pause(1_500))
    await assert.rejects(bench.clock.until(losing), { reason: 'expired', message: /\. The function ran for 1500 ms$/ })
    const failing = run(async () => {
      const other = await bench.client.getLock('b').lock()
      bench.redis.delete('b')
      await other.isHeld()
      other.assertHeld()
    })
    await assert.rejects(failing, ({ lockName, message }: LeaseLostError) => lockName === 'b' && !/ ran /.test(message))
  })

  it('calls onAcquire before and onRelease after, whatever happens, and warns of what onRelease throws', async () => {
    const calls: string[] = []
    const options = {
      onAcquire: () => void calls.push(bench.redis.keys.join()),
      onRelease: () => {
        calls.push(bench.redis.keys.join() || 'free')
        throw new Error('of onRelease')
      },
    }
    assert.equal(await bench.lock.withLock(options, () => calls.push('run')), 2)
    await assert.rejects(
      bench.lock.withLock(options, () => Promise.reject(new Error('of the function'))),
      /of the function/,
    )
    assert.deepEqual(calls, ['a', 'run', 'free', 'a', 'free'])
    assert.deepEqual(
      bench.warnings.map(({ message }) => message),
      ['of onRelease', 'of onRelease'],
    )
    const refusing = { ...options, onAcquire: () => assert.fail('of onAcquire') }
    await assert.rejects(
      bench.lock.withLock(refusing, () => calls.push('run')),
      /of onAcquire/,
    )
    assert.deepEqual(calls.slice(5), ['free'])
  })

  it('frees the lock if the function returns what would be read only afterwards', async () => {
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
      assert.deepEqual(bench.redis.keys, [])
    }
    assert.deepEqual(await run(() => [1]), [1])
    assert.equal(await run(() => null), null)
  })
})

describe('tryWithLock()', () => {
  it('tells whether the function ran, and what it returned', async () => {
    const bench = new ClientBench({})
    assert.deepEqual(await bench.lock.tryWithLock(() => 7), { ran: true, value: 7 })
    const hold = await bench.other.getLock('a').lock()
    assert.deepEqual(await bench.lock.tryWithLock(() => assert.fail('must not run')), { ran: false })
    await hold.unlock()
    await bench.close()
  })
})

describe('a count-down latch', () => {
  it('opens once, wakes who waits, and causes no warning', async () => {
    const bench = new ClientBench({})
    const latch = bench.client.getCountDownLatch('latch')
    assert.equal(await latch.trySetCount(2), true)
    assert.equal(await latch.trySetCount(3), false)
    const waiting = bench.other.getCountDownLatch('latch').await()
    assert.equal(await bench.clock.until(latch.await({ waitTimeMs: 100 })), false)
    await latch.countDown()
    assert.equal(await latch.getCount(), 1)
    await latch.countDown()
    assert.equal(await bench.clock.until(waiting), true)
    await latch.countDown()
    assert.equal(await latch.getCount(), 0)
    assert.deepEqual(bench.warnings, [])
    await bench.clock.advance(1_000)
    await bench.close()
  })
})
