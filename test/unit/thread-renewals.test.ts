/** The watchdog thread itself: when it connects, what it renews, and what it reports. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { PortEvents } from '../../src/adapters/port.js'
import { lockRenew } from '../../src/lua/generated.js'
import { ALIVE_AT, FIRST_SLOT, type FromThread, micros, TAKE_OVER_AT } from '../../src/watchdog/thread-protocol.js'
import { ThreadRenewals } from '../../src/watchdog/thread-renewals.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { PERIOD_MS, random } from '../support/thread-terms.js'

const LEASE_MS = 3 * PERIOD_MS
const MAX_BLOCK_MS = 19.5 * PERIOD_MS
const { script } = lockRenew(['a'], [])

let clock: FakeClock
let port: FakePort
let words: BigInt64Array<SharedArrayBuffer>
let posted: FromThread[]
/** What the next attempts to connect fail with. */
let failures: unknown[]
let attempts: number
let renewals: ThreadRenewals

beforeEach(() => {
  clock = new FakeClock()
  port = new FakePort(clock)
  words = new BigInt64Array(new SharedArrayBuffer(80))
  ;[posted, failures, attempts] = [[], [], 0]
  const open = async (): Promise<FakePort> => {
    attempts++
    if (failures.length > 0) throw failures.shift()
    return port
  }
  renewals = new ThreadRenewals({ clock, random, open, post: (message) => posted.push(message) })
  alive()
})

afterEach(async () => {
  renewals.receive({ client: 7, isClosed: true })
  await clock.advance(60_000)
  assert.equal(clock.pending, 0, 'no timer is left')
})

/** The client is alive: the thread takes over after a while. */
function alive(takeOverMs = 1.5 * PERIOD_MS): void {
  words[ALIVE_AT] = micros(clock.now())
  words[TAKE_OVER_AT] = micros(clock.now() + takeOverMs)
}

async function register(): Promise<void> {
  const { buffer: memory } = words
  const terms = { periodMs: PERIOD_MS, batchSize: 100, maxBlockMs: MAX_BLOCK_MS, commandTimeoutMs: 3_000 }
  renewals.receive({ client: 7, registration: { ...terms, memory, connection: 'redis://127.0.0.1' } })
  renewals.receive({ client: 7, script })
  await turn()
}

/** The client holds a lock. */
function hold(slot: number, name: string, id: bigint, until = Number.POSITIVE_INFINITY, leaseTimeMs = LEASE_MS): void {
  port.redis.set(name, 'client:1', 1, LEASE_MS)
  words[slot] = -id
  const renewal = { sha1: script.sha1, keys: [name], args: ['client:1', leaseTimeMs], until }
  renewals.receive({ client: 7, slot, id, renewal })
}

/** When each lock was renewed, ms after `startedAt`. */
function renewed(startedAt: number): [name: string, afterMs: number][] {
  const sent = port.sent.filter(({ name }) => name === 'lock/renew')
  return sent.flatMap(({ keys, at }) => keys.map((name): [string, number] => [name, at - startedAt]))
}

describe('the watchdog thread', () => {
  it('the watchdog thread renews once a period from when it has to take over, and writes down when it did', async () => {
    await register()
    assert.deepEqual(posted, [{ client: 7, isReady: true }])
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'a', 1n)
    await clock.advance(10 * PERIOD_MS)
    const expected = Array.from({ length: 9 }, (_, n) => ['a', (n + 1.5) * PERIOD_MS])
    assert.deepEqual(renewed(startedAt), expected)
    assert.equal(words[FIRST_SLOT], micros(startedAt + 9.5 * PERIOD_MS))
    assert(port.redis.isHeldBy('a', 'client:1'))
  })

  it('the watchdog thread renews nothing while its client does, and takes over when that stops', async () => {
    await register()
    hold(FIRST_SLOT, 'a', 1n, undefined, 60_000)
    for (let n = 0; n < 5; n++) {
      await clock.advance(PERIOD_MS / 2)
      alive()
    }
    assert.deepEqual(renewed(0), [])
    const startedAt = clock.now()
    await clock.advance(2 * PERIOD_MS)
    assert.deepEqual(renewed(startedAt), [['a', 1.5 * PERIOD_MS]])
  })

  it('the watchdog thread lets the locks go of a client that has been silent for maxBlockMs', async () => {
    await register()
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'a', 1n)
    await clock.advance(MAX_BLOCK_MS + LEASE_MS)
    assert.deepEqual(renewed(startedAt).at(-1), ['a', MAX_BLOCK_MS - PERIOD_MS])
    assert.deepEqual(port.redis.keys, [])
    alive()
    port.redis.set('a', 'client:1', 1, LEASE_MS)
    await clock.advance(3 * PERIOD_MS)
    assert(port.redis.isHeldBy('a', 'client:1'), 'the client was back')
  })

  it('the watchdog thread renews a lease that begins after it took over with the others, a period later', async () => {
    await register()
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'a', 1n)
    await clock.advance(1.7 * PERIOD_MS)
    hold(FIRST_SLOT + 1, 'b', 2n)
    await clock.advance(PERIOD_MS)
    assert.deepEqual(renewed(startedAt), [
      ['a', 1.5 * PERIOD_MS],
      ['a', 2.5 * PERIOD_MS],
      ['b', 2.5 * PERIOD_MS],
    ])
  })

  it('the watchdog thread takes over again as soon as a client that was back for a moment wants it to', async () => {
    await register()
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'a', 1n)
    await clock.advance(1.6 * PERIOD_MS)
    alive(0.4 * PERIOD_MS)
    hold(FIRST_SLOT + 1, 'b', 2n)
    await clock.advance(PERIOD_MS / 2)
    assert.deepEqual(renewed(startedAt), [
      ['a', 1.5 * PERIOD_MS],
      ['a', 2 * PERIOD_MS],
      ['b', 2 * PERIOD_MS],
    ])
  })

  it('the watchdog thread renews no lease longer than its hold may last, nor one that was released', async () => {
    await register()
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'capped', 1n, startedAt + 2 * PERIOD_MS)
    hold(FIRST_SLOT + 1, 'released', 2n)
    hold(FIRST_SLOT + 2, 'held', 3n)
    await clock.advance(2 * PERIOD_MS)
    words[FIRST_SLOT + 1] = 0n
    await clock.advance(PERIOD_MS)
    assert.deepEqual(renewed(startedAt), [
      ['capped', 1.5 * PERIOD_MS],
      ['released', 1.5 * PERIOD_MS],
      ['held', 1.5 * PERIOD_MS],
      ['held', 2.5 * PERIOD_MS],
    ])
    assert.equal(words[FIRST_SLOT + 1], 0n)
  })

  it('the watchdog thread stops its checks when nothing is held, and begins anew with the next lease', async () => {
    await register()
    hold(FIRST_SLOT, 'a', 1n)
    words[FIRST_SLOT] = 0n
    await clock.advance(2 * PERIOD_MS)
    assert.deepEqual([renewed(0), clock.pending], [[], 0])
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'b', 2n)
    await clock.advance(PERIOD_MS / 2)
    assert.deepEqual(renewed(startedAt), [['b', 0]], 'the time to take over had come')
  })

  it('the watchdog thread renews a lease that was lost no more, and the lease that follows it in its place', async () => {
    await register()
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'a', 1n)
    port.redis.delete('a')
    await clock.advance(3 * PERIOD_MS)
    assert.deepEqual(renewed(startedAt), [['a', 1.5 * PERIOD_MS]])
    assert.equal(words[FIRST_SLOT], -1n, 'the client reports the loss')
    alive()
    hold(FIRST_SLOT, 'a', 2n)
    await clock.advance(2 * PERIOD_MS)
    assert.deepEqual(renewed(startedAt).slice(1), [['a', 4.5 * PERIOD_MS]])
    assert.equal(words[FIRST_SLOT], micros(startedAt + 4.5 * PERIOD_MS))
  })

  it('the watchdog thread does not write to the place of a lease that was released while its renewal was under way', async () => {
    await register()
    hold(FIRST_SLOT, 'a', 1n)
    port.once('lock/renew', { replyMs: 100 })
    await clock.advance(1.5 * PERIOD_MS)
    words[FIRST_SLOT] = -2n
    await clock.advance(100)
    assert.equal(words[FIRST_SLOT], -2n)
  })

  it('the watchdog thread keeps the time of the latest renewal when an earlier one is answered after it', async () => {
    await register()
    const startedAt = clock.now()
    hold(FIRST_SLOT, 'a', 1n)
    port.once('lock/renew', { replyMs: 1.2 * PERIOD_MS })
    await clock.advance(2.6 * PERIOD_MS)
    assert.equal(words[FIRST_SLOT], micros(startedAt + 2.5 * PERIOD_MS))
    await clock.advance(PERIOD_MS / 2)
    assert.equal(words[FIRST_SLOT], micros(startedAt + 2.5 * PERIOD_MS))
  })

  it('the watchdog thread renews with the newest lease time of a hold', async () => {
    await register()
    hold(FIRST_SLOT, 'a', 1n)
    hold(FIRST_SLOT, 'a', 1n, undefined, 90_000)
    await clock.advance(2 * PERIOD_MS)
    assert(port.redis.pttl('a') > 80_000, `${port.redis.pttl('a')} ms`)
    assert.equal(renewed(0).length, 1)
  })

  it('the watchdog thread reports what Redis refuses, with the code of the error if it has one', async () => {
    await register()
    posted.length = 0
    hold(FIRST_SLOT, 'a', 1n)
    port.once('lock/renew', { errorReply: 'NOPERM no permissions' })
    await clock.advance(2 * PERIOD_MS)
    assert.deepEqual(posted, [{ client: 7, refused: { message: 'NOPERM no permissions' } }])
    assert.notEqual(words[FIRST_SLOT], -1n, 'it was tried again')
  })
})

describe('the connection of the watchdog thread', () => {
  it('the connection of the watchdog thread is tried again until it succeeds, with longer and longer pauses', async () => {
    failures = Array.from({ length: 12 }, () => new Error('WRONGPASS'))
    await register()
    assert.deepEqual([attempts, posted.length], [1, 1])
    await clock.advance(1_000)
    assert(attempts >= 4 && attempts <= 6, `${attempts} attempts in a second`)
    await clock.advance(60_000)
    assert.deepEqual([attempts, posted.at(-1)], [13, { client: 7, isReady: true }])
    assert.equal(posted.length, 13)
  })

  it('the connection of the watchdog thread is told that its scripts grant nothing', async () => {
    const told: PortEvents[] = []
    port.listen = (events) => told.push(events)
    await register()
    assert.deepEqual(
      told.map(({ confirmsGrants }) => confirmsGrants),
      [false],
    )
  })

  it('the connection of the watchdog thread fails with the message and the code of the error, whatever that is', async () => {
    failures = [
      Object.assign(new Error('no route'), { code: 'ENETUNREACH' }),
      'a text',
      new Error('closed', { cause: 1 }),
    ]
    await register()
    await clock.advance(10_000)
    assert.deepEqual(posted, [
      { client: 7, failure: { message: 'no route', code: 'ENETUNREACH' } },
      { client: 7, failure: { message: 'a text' } },
      { client: 7, failure: { message: 'closed' } },
      { client: 7, isReady: true },
    ])
  })

  const lost: Record<string, () => unknown> = {
    ECONNRESET: () => Object.assign(new Error('read'), { code: 'ECONNRESET' }),
    EPIPE: () => Object.assign(new Error('write'), { code: 'EPIPE' }),
    'Connection is closed': () => new Error('Connection is closed.'),
    'a cause': () => new Error('not connected', { cause: new Error('Connection is closed.') }),
  }
  for (const [name, newError] of Object.entries(lost)) {
    it(`the connection of the watchdog thread may be lost four times in a row before it is reported: ${name}`, async () => {
      failures = Array.from({ length: 4 }, newError)
      await register()
      await clock.advance(10_000)
      assert.deepEqual([attempts, posted], [5, [{ client: 7, isReady: true }]])
      renewals.receive({ client: 7, isClosed: true })
      ;[posted, failures] = [[], Array.from({ length: 6 }, newError)]
      await register()
      await clock.advance(20_000)
      assert.equal(posted.filter((message) => 'failure' in message).length, 2)
    })
  }

  it('the connection of the watchdog thread is closed with its client, also if it was opened after that', async () => {
    await register()
    hold(FIRST_SLOT, 'a', 1n)
    renewals.receive({ client: 7, isClosed: true })
    await turn()
    assert.deepEqual([port.isClosed, clock.pending], [true, 0])

    port = new FakePort(clock)
    const registering = register()
    renewals.receive({ client: 7, isClosed: true })
    posted = []
    await registering
    assert.deepEqual([port.isClosed, posted], [true, []])
  })

  it('the connection of the watchdog thread is not tried again once its client is closed', async () => {
    failures = Array.from({ length: 100 }, () => new Error('no'))
    await register()
    renewals.receive({ client: 7, isClosed: true })
    await clock.advance(60_000)
    assert.equal(attempts, 1)
  })

  it('the connection of the watchdog thread is one for each client, and a closed client ends only its own', async () => {
    await register()
    hold(FIRST_SLOT, 'a', 1n)
    renewals.receive({ client: 8, isClosed: true })
    await clock.advance(2 * PERIOD_MS)
    assert.deepEqual([port.isClosed, renewed(0).length], [false, 1])
  })
})
