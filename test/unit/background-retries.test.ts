import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { BackgroundRetries } from '../../src/delivery/background-retries.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { lockRelease } from '../../src/lua/generated.js'
import type { Random } from '../../src/util/random.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

const RELEASE = lockRelease('a', 'me:1', 'channel', '0')
const COMMAND_TIMEOUT_MS = 3_000
const random: Random = { uuid: () => 'id', fraction: () => 0.5 }

describe('a release whose reply was lost', () => {
  let clock: FakeClock
  let port: FakePort
  let retries: BackgroundRetries
  let scripts: Scripts

  beforeEach(() => {
    clock = new FakeClock()
    port = new FakePort(clock)
    scripts = new Scripts(port, clock, COMMAND_TIMEOUT_MS)
    retries = new BackgroundRetries(clock, random, scripts)
  })

  afterEach(() => {
    scripts.close()
    assert.equal(retries.size, 0)
    assert.equal(clock.pending, 0, 'no timer is left')
  })

  /** Until when the lease in question lasts. */
  function take(leaseTimeMs: number, holder = 'me:1'): number {
    port.redis.set('a', holder, 1, leaseTimeMs)
    return clock.now() + leaseTimeMs
  }

  it('a release is sent once if a reply arrives', async () => {
    void retries.retryInBackground(RELEASE, take(30_000))
    assert.equal(retries.size, 1)
    await clock.advance(0)
    assert.equal(retries.size, 0)
    assert.deepEqual(port.redis.keys, [])
    assert.equal(port.count(), 1)
  })

  it('a release is repeated with growing delays until a reply arrives', async () => {
    const untilAt = take(60_000)
    let outage = true
    port.fault = () => (outage ? { lost: 'request', failsWith: 'Connection is closed' } : undefined)
    void retries.retryInBackground(RELEASE, untilAt)
    await clock.advance(20_000)
    const pauses = port.sent.slice(1).map(({ at }, index) => at - (port.sent[index]?.at ?? 0))
    assert(pauses.length > 5 && pauses.length < 20, `${pauses.length} times in 20 s`)
    for (const [index, pause] of pauses.entries()) {
      assert(pause >= (pauses[index - 1] ?? 50) && pause <= 15_000, `pauses of ${pauses.join(', ')} ms`)
    }
    outage = false
    await clock.advance(15_000)
    assert.equal(retries.size, 0)
    assert.deepEqual(port.redis.keys, [])
  })

  it('a release is repeated at least once a second while copies of the acquire may arrive', async () => {
    void retries.retryInBackground(RELEASE, clock.now() + 30_000, clock.now() + 12_000)
    for (const _ of ['one copy', 'another one', 'one when the pauses would be long']) {
      await clock.advance(3_000)
      take(30_000)
      await clock.advance(1_000)
      assert.deepEqual(port.redis.keys, [])
    }
    await clock.advance(1_000)
    assert.equal(retries.size, 0)
    assert.deepEqual(port.redis.keys, [])
  })

  it('a release is repeated after its own reply was lost or Redis was loading', async () => {
    const untilAt = take(30_000)
    port.once('lock/release', { lost: 'request' })
    port.once('lock/release', { errorReply: 'LOADING Redis is loading the dataset in memory' })
    void retries.retryInBackground(RELEASE, untilAt)
    await clock.advance(COMMAND_TIMEOUT_MS + 1_000)
    assert.equal(retries.size, 0)
    assert.equal(port.count(), 3)
    assert.deepEqual(port.redis.keys, [])
  })

  it('a release is given up when the lease has ended', async () => {
    const startedAt = clock.now()
    port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    void retries.retryInBackground(RELEASE, startedAt + 10_000)
    await clock.advance(10_000)
    assert.equal(retries.size, 0)
    const last = port.sent.at(-1)?.at ?? 0
    assert(last <= startedAt + 10_000 && last >= startedAt + 8_000, `last sent after ${last - startedAt} ms`)
  })

  it('a release is given up after a minute, although its lease never ends', async () => {
    const startedAt = clock.now()
    port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    void retries.retryInBackground(RELEASE, Number.POSITIVE_INFINITY)
    await clock.advance(60_000)
    assert.equal(retries.size, 0)
    const last = port.sent.at(-1)?.at ?? 0
    assert(last >= startedAt + 50_000, `last sent after ${last - startedAt} ms`)
  })

  for (const errorReply of [
    'NOAUTH Authentication required.',
    'ERR upstream failure',
    'UNBLOCKED',
    'OOM command not allowed',
  ]) {
    it(`a release is repeated after an error that may pass: ${errorReply}`, async () => {
      const untilAt = take(30_000)
      port.once('lock/release', { errorReply })
      void retries.retryInBackground(RELEASE, untilAt)
      await clock.advance(1_000)
      assert.equal(port.count(), 2)
      assert.deepEqual(port.redis.keys, [])
    })
  }

  it('a release is given up when Redis rejects it for good', async () => {
    const untilAt = take(30_000)
    port.once('lock/release', { errorReply: "NOPERM this user has no permissions to run the 'evalsha' command" })
    void retries.retryInBackground(RELEASE, untilAt)
    await clock.advance(0)
    assert.equal(retries.size, 0)
    assert.equal(port.count(), 1)
  })

  it('a release is replaced by another one if Redis rejects it for good', async () => {
    const untilAt = take(30_000)
    port.once('lock/release', { errorReply: 'NOPERM No permissions to access a key' })
    port.once('lock/release', { lost: 'request', failsWith: 'Connection is closed' })
    void retries.retryInBackground(RELEASE, untilAt, 0, lockRelease('a', 'me:1', 'other channel', '0'))
    await clock.advance(1_000)
    assert.deepEqual(
      port.sent.map(({ args }) => args[1]),
      ['channel', 'other channel', 'other channel'],
    )
    assert.deepEqual(port.redis.keys, [])
  })

  it('a release is rejected once if there is no other one', async () => {
    port.fault = () => ({ errorReply: 'NOPERM No permissions to access a key' })
    void retries.retryInBackground(RELEASE, take(30_000), 0, RELEASE)
    await clock.advance(5_000)
    assert.equal(port.count(), 1)
    port.redis.delete('a')
  })

  for (const [what, fault] of [
    ['found nothing', undefined],
    ['got no reply', { lost: 'request', failsWith: 'Connection is closed' }],
  ] as const) {
    it(`a release is not replaced by another one if it ${what} until the end`, async () => {
      port.fault = () => fault
      let isReplaced = false
      void retries.retryInBackground(RELEASE, clock.now() + 10_000, 0, async () => {
        isReplaced = true
        return 1
      })
      await clock.advance(20_000)
      assert.equal(isReplaced, false)
    })
  }

  it('a release leaves the lock to its next holder', async () => {
    take(60_000, 'other:1')
    void retries.retryInBackground(RELEASE, clock.now() + 10_000)
    await clock.advance(10_000)
    assert.deepEqual(port.redis.holders('a'), [{ holder: 'other:1', count: 1 }])
  })

  it('a release does not keep the process alive between two tries', async () => {
    void retries.retryInBackground(RELEASE, clock.now() + 10_000, clock.now() + 4_000)
    await clock.advance(0)
    assert.deepEqual([clock.pending, clock.keepingAlive], [2, 0], 'the next try, and the time limit of commands')
    await clock.advance(10_000)
  })

  it('a release is tried once more immediately when the client closes', async () => {
    const untilAt = take(30_000)
    port.once('lock/release', { lost: 'request', failsWith: 'Connection is closed' })
    port.once('lock/release', { lost: 'request', failsWith: 'Connection is closed' })
    port.once('lock/release', { lost: 'request', failsWith: 'Connection is closed' })
    void retries.retryInBackground(RELEASE, untilAt)
    await clock.advance(500)
    const before = port.count()
    const closedAt = clock.now()
    await clock.until(retries.close())
    assert.equal(clock.now(), closedAt, 'without a pause')
    assert.equal(port.count(), before + 1)
    assert.deepEqual(port.redis.keys, [])
  })

  it('a release holds up close() no longer than its last try, even if Redis is silent', async () => {
    port.fault = () => ({ lost: 'request' })
    void retries.retryInBackground(RELEASE, clock.now() + 30_000)
    await clock.advance(1_000)
    const closedAt = clock.now()
    await clock.until(retries.close())
    // What was in flight, and the last try.
    assert(clock.now() - closedAt <= 2 * COMMAND_TIMEOUT_MS, `${clock.now() - closedAt} ms`)
    await clock.advance(60_000)
    assert.equal(port.count(), 2)
  })

  it('a release is retried independently of any number of others', async () => {
    for (let n = 0; n < 1_000; n++) {
      port.redis.set(`lock:${n}`, 'me:1', 1, 30_000)
      void retries.retryInBackground(lockRelease(`lock:${n}`, 'me:1', 'channel', '0'), clock.now() + 30_000)
    }
    assert.equal(retries.size, 1_000)
    await clock.advance(0)
    assert.equal(retries.size, 0)
    assert.deepEqual(port.redis.keys, [])
  })
})

describe('a command that its caller waits for', () => {
  const CLOSED = { lost: 'request', failsWith: 'Connection is closed' } as const
  let clock: FakeClock
  let port: FakePort
  let retries: BackgroundRetries
  let scripts: Scripts
  let failures: unknown[]

  beforeEach(() => {
    clock = new FakeClock()
    port = new FakePort(clock)
    scripts = new Scripts(port, clock, COMMAND_TIMEOUT_MS)
    retries = new BackgroundRetries(clock, random, scripts)
    failures = []
    port.redis.set('a', 'me:1', 1, 60_000)
  })

  afterEach(() => {
    scripts.close()
    assert.equal(clock.pending, 0, 'no timer is left')
  })

  function run(forMs: number): Promise<number | null> {
    const outcome = retries.retryUntilReply(RELEASE, forMs, (error) => failures.push(error))
    outcome.catch(() => {})
    return outcome
  }

  it('an awaited command is repeated until a reply arrives, and each failure is reported', async () => {
    port.once('lock/release', CLOSED)
    port.once('lock/release', { errorReply: 'LOADING Redis is loading the dataset in memory' })
    assert.equal(typeof (await clock.until(run(30_000))), 'number')
    assert.match(failures.join(), /Connection is closed.*LOADING/)
    assert.deepEqual(port.redis.keys, [])
  })

  it('an awaited command rejects with the last error when its time is over', async () => {
    port.fault = () => CLOSED
    const startedAt = clock.now()
    await assert.rejects(clock.until(run(5_000)), /Connection is closed/)
    const last = (port.sent.at(-1)?.at ?? 0) - startedAt
    assert(last >= 3_500 && last < 5_000, `last sent after ${last} ms`)
    assert.equal(failures.length, port.count())
  })

  it('an awaited command is not repeated after an error that is final', async () => {
    port.fault = () => ({ errorReply: 'NOPERM No permissions to access a key' })
    await assert.rejects(clock.until(run(5_000)), /NOPERM/)
    assert.equal(port.count(), 1)
  })

  it('an awaited command is not tried again once the client closes, except the last try that is due', async () => {
    port.fault = () => CLOSED
    const outcome = run(30_000)
    await clock.advance(200)
    const before = port.count()
    await retries.close()
    await assert.rejects(clock.until(outcome, 0), /Connection is closed/)
    assert(port.count() <= before + 1, 'one last try')
  })

  it('an awaited command is not tried again if it fails after the client was closed', async () => {
    port.fault = () => ({ ...CLOSED, replyMs: 100 })
    const outcome = run(30_000)
    await clock.advance(50)
    await retries.close()
    await assert.rejects(clock.until(outcome), /Connection is closed/)
    assert.equal(port.count(), 1)
  })
})
