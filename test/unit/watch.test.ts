/** `lock.watch()`: what it yields and when, what it costs, and that nothing is left of it. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Lock, LockState } from '../../src/index.js'
import { lockChannel, watchChannel } from '../../src/wire/keys.js'
import { CHANNEL, ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const FREE: LockState = { state: 'free', holders: [] }
const heldBy = (holder: string): LockState => ({ state: 'held', holders: [{ holder, holdCount: 1 }] })
const LONG_MS = 600_000
/** A look waits for this long after the last one of the client, and a timer for 1 ms. */
const LOOK_SLACK_MS = 51

let fixture: ClientFixture
/** Timers of a client that has just sent a command. */
let timers: number
/** The watches of a test: the ends of those that it does not end itself. */
let ends: (() => unknown)[]

beforeEach(async () => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: 30_000 })
  await fixture.lock.isLocked()
  timers = fixture.clock.pending
  ends = []
})

afterEach(async () => {
  for (const end of ends) await end()
  fixture.redis.delete('a')
  await fixture.close()
})

interface Watch {
  /** Resolves with the next state, however long that takes. */
  next(): Promise<LockState>
  /** What has been yielded after `ms`; undefined: nothing. */
  within(ms: number): Promise<LockState | undefined>
  /** The `next()` in progress. */
  readonly pending: Promise<IteratorResult<LockState>> | undefined
  end(): Promise<unknown>
}

function watch(lock: Lock = fixture.lock, signal?: AbortSignal): Watch {
  const states = lock.watch({ signal })
  let pending: Promise<IteratorResult<LockState>> | undefined
  const watched: Watch = {
    get pending() {
      return pending
    },
    async next() {
      pending ??= states.next()
      const { value } = await fixture.clock.until(pending, LONG_MS)
      pending = undefined
      return value
    },
    async within(ms) {
      pending ??= states.next()
      let found: LockState | undefined
      pending.then(
        ({ value }) => (found = value),
        () => {},
      )
      await fixture.clock.advance(ms)
      if (found) pending = undefined
      return found
    },
    end: async () => await fixture.clock.until(Promise.resolve(states.return?.())),
  }
  ends.push(() => watched.end())
  return watched
}

const looks = (): number => fixture.port.count('lock/inspect')

/** How often a lock that does not change is looked at in the second minute. */
async function looksPerMinute(watched: Watch): Promise<number> {
  await watched.next()
  await watched.within(60_000)
  const before = looks()
  await watched.within(60_000)
  return looks() - before
}

describe('a lock that is watched', () => {
  it('a watch begins with the state of now', async () => {
    assert.deepEqual(await watch().next(), FREE)
    const hold = await fixture.other.getLock('a').lock()
    assert.deepEqual(await watch().next(), heldBy(hold.holder))
    await hold.unlock()
  })

  it('a release is seen with its message, and a grant that follows within 100 ms', async () => {
    const hold = await fixture.other.getLock('a').lock()
    const watched = watch()
    await watched.next()
    assert.equal(await watched.within(4_000), undefined)
    await hold.unlock()
    assert.deepEqual(await watched.within(LOOK_SLACK_MS), FREE)
    await fixture.clock.advance(30)
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    assert.deepEqual(await watched.within(101), heldBy('java:7'))
  })

  it('a release of an ordered lock, of any side, is seen with its message, although its waiters get others', async () => {
    const locksOf = ({ client }: Pick<ClientFixture, 'client'>): Lock[] => {
      const both = client.getReadWriteLock('rw', { order: 'fifo' })
      return [client.getLock('a', { order: 'fifo' }), both.writeLock(), both.readLock()]
    }
    const watchedLocks = locksOf(fixture)
    for (const [index, lock] of locksOf({ client: fixture.other }).entries()) {
      const hold = await lock.lock()
      const watched = watch(watchedLocks[index])
      await watched.next()
      assert.equal(await watched.within(4_000), undefined)
      await hold.unlock()
      assert.deepEqual(await watched.within(LOOK_SLACK_MS), FREE)
      await watched.end()
    }
  })

  it('a message that changed nothing is followed by looks that come often at first', async () => {
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    const watched = watch()
    await watched.next()
    await watched.within(60_000)
    fixture.redis.execute(['PUBLISH', CHANNEL, '0'])
    assert.equal(await watched.within(10), undefined)
    fixture.redis.delete('a')
    assert.deepEqual(await watched.within(101), FREE)
  })

  it('a grant long after the last change is seen within 5 s', async () => {
    const watched = watch()
    await watched.next()
    assert.equal(await watched.within(60_000), undefined)
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    assert.deepEqual(await watched.within(5_000), heldBy('java:7'))
  })

  it('the end of a lease is seen when it ends, without any message', async () => {
    fixture.redis.set('a', 'java:7', 1, 1_234)
    const watched = watch()
    await watched.next()
    assert.equal(await watched.within(1_230), undefined)
    assert.deepEqual(await watched.within(60), FREE)
  })

  it('another holder is a change, and another hold of the same one is none', async () => {
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    const watched = watch()
    await watched.next()
    fixture.redis.set('a', 'java:7', 2, LONG_MS)
    assert.equal(await watched.within(20_000), undefined)
    fixture.redis.delete('a')
    fixture.redis.set('a', 'java:8', 1, LONG_MS)
    assert.deepEqual(await watched.within(5_000), heldBy('java:8'))
  })

  it('a holder whose expiry was removed is looked at as often as a free lock', async () => {
    fixture.redis.execute(['HSET', 'a', 'java:7', '1'])
    assert.equal(await looksPerMinute(watch()), 12)
  })

  it('a slow reader gets the latest state, and nobody asks for it meanwhile', async () => {
    const watched = watch()
    await watched.next()
    const before = looks()
    for (const holder of ['java:7', 'java:8', 'java:9']) {
      fixture.redis.delete('a')
      fixture.redis.set('a', holder, 1, LONG_MS)
      fixture.redis.execute(['PUBLISH', CHANNEL, '0'])
      await fixture.clock.advance(10_000)
    }
    assert.equal(looks(), before)
    assert.deepEqual(await watched.within(LOOK_SLACK_MS), heldBy('java:9'))
    assert.equal(await watched.within(20_000), undefined)
  })

  it('of a read lock only the first and the last reader are seen', async () => {
    const lock = fixture.other.getReadWriteLock('a').readLock()
    const watched = watch(fixture.client.getReadWriteLock('a').readLock())
    assert.deepEqual(await watched.next(), FREE)
    const [first, second] = [await lock.lock(), await lock.lock()]
    assert.equal((await watched.within(10_000))?.state, 'held')
    await first.unlock()
    assert.equal(await watched.within(10_000), undefined)
    await second.unlock()
    assert.deepEqual(await watched.within(LOOK_SLACK_MS), FREE)
  })

  for (const [title, lockOf] of [
    ['fair', () => fixture.client.getFairLock('a')],
    ['spin', () => fixture.client.getSpinLock('a')],
  ] as const) {
    it(`the release of a ${title} lock, which is not announced to all, is seen within 5 s`, async () => {
      fixture.redis.set('a', 'java:7', 1, LONG_MS)
      const watched = watch(lockOf())
      await watched.next()
      await watched.within(60_000)
      assert.deepEqual(fixture.port.channels, [])
      fixture.redis.delete('a')
      assert.deepEqual(await watched.within(5_000), FREE)
    })
  }
})

describe('messages that may have been missed', () => {
  it('a lock is looked at when the subscription is lost, and when it is back', async () => {
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    const watched = watch()
    await watched.next()
    await watched.within(60_000)
    fixture.redis.delete('a')
    fixture.port.loseSubscriber()
    assert.deepEqual(await watched.within(LOOK_SLACK_MS), FREE)
    await watched.within(60_000)
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    fixture.port.resubscribe()
    assert.deepEqual(await watched.within(LOOK_SLACK_MS), heldBy('java:7'))
  })

  it('a watch survives an outage of less than 15 s, and a longer one is its error', async () => {
    const watched = watch()
    await watched.next()
    fixture.port.isDisconnected = true
    await watched.within(14_000)
    fixture.port.isDisconnected = false
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    assert.deepEqual(await watched.next(), heldBy('java:7'))
    fixture.port.isDisconnected = true
    await assert.rejects(watched.next(), { code: 'LOCK_OUTCOME_UNKNOWN', operation: 'watch', lockName: 'a' })
    fixture.port.isDisconnected = false
  })

  it('something else under the name is an error at once, and the end', async () => {
    fixture.redis.execute(['SET', 'a', 'x'])
    const [watched, startedAt] = [watch(), fixture.clock.now()]
    await assert.rejects(watched.next(), { code: 'LOCK_WRONG_TYPE', lockName: 'a' })
    assert.equal(fixture.clock.now(), startedAt)
    assert.deepEqual(fixture.port.channels, [])
  })
})

describe('the end of a watch', () => {
  /** Whether nothing of it is left, although the client is open. */
  function assertNothingLeft(): void {
    assert.deepEqual(fixture.port.channels, [])
    assert(fixture.clock.pending <= timers, `${fixture.clock.pending} timers`)
  }

  it('nothing is left when the loop ends, by break or by an error', async () => {
    const failure = new Error('of the reader')
    const loop = async (leave: () => boolean): Promise<void> => {
      for await (const { state } of fixture.lock.watch()) if (state === 'free' && leave()) break
    }
    await fixture.clock.until(loop(() => true))
    assertNothingLeft()
    const failing = loop(() => {
      throw failure
    })
    await assert.rejects(fixture.clock.until(failing), failure)
    assertNothingLeft()
  })

  it('return() ends a next() in progress, at once', async () => {
    const watched = watch()
    await watched.next()
    assert.equal(await watched.within(10), undefined)
    const ended = watched.end()
    assert.deepEqual(await watched.pending, { done: true, value: undefined })
    await ended
    assertNothingLeft()
  })

  it('a watch that is never read costs nothing', async () => {
    const sent = fixture.port.sent.length
    fixture.lock.watch()
    const states = fixture.lock.watch()
    assert.deepEqual(await states.return?.(), { done: true, value: undefined })
    assert.deepEqual(await states.next(), { done: true, value: undefined })
    assert.equal(fixture.port.sent.length, sent)
    assertNothingLeft()
  })

  it('an abort ends it with the reason, during a next()', async () => {
    const [abort, reason] = [new AbortController(), new Error('enough')]
    const watched = watch(fixture.lock, abort.signal)
    await watched.next()
    assert.equal(await watched.within(10), undefined)
    abort.abort(reason)
    await assert.rejects(watched.next(), reason)
    assertNothingLeft()
  })

  it('an abort ends it while the reader is busy, and is what the reader finds then', async () => {
    const [abort, reason] = [new AbortController(), new Error('enough')]
    const watched = watch(fixture.lock, abort.signal)
    await watched.next()
    assert.deepEqual(fixture.port.channels.sort(), [lockChannel('a'), watchChannel(lockChannel('a'))].sort())
    abort.abort(reason)
    await turn()
    assertNothingLeft()
    await assert.rejects(watched.next(), reason)
  })

  it('a signal that aborted before sends nothing', async () => {
    const [reason, sent] = [new Error('enough'), fixture.port.sent.length]
    await assert.rejects(watch(fixture.lock, AbortSignal.abort(reason)).next(), reason)
    assert.equal(fixture.port.sent.length, sent)
  })

  it('a client that closes ends it with an error, during a next() and later', async () => {
    const { client } = fixture.connect({})
    const [busy, waiting] = [watch(client.getLock('a')), watch(client.getLock('a'))]
    await busy.next()
    await waiting.next()
    const rejected = assert.rejects(waiting.next(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'a' })
    await turn()
    await fixture.clock.until(client.close())
    await rejected
    await assert.rejects(busy.next(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'a' })
  })

  it('one watch that ends does not end another one of the same lock', async () => {
    const [one, other] = [watch(), watch()]
    await one.next()
    await other.next()
    assert.equal(await other.within(1), undefined)
    await one.end()
    fixture.redis.set('a', 'java:7', 1, LONG_MS)
    assert.deepEqual(await other.next(), heldBy('java:7'))
  })
})

describe('the cost of a watch', () => {
  it('a lock that does not change is looked at every 5 s in the end', async () => {
    assert.equal(await looksPerMinute(watch()), 12)
  })

  it('the messages between two states cost no subscription each', async () => {
    const watched = watch()
    for (let round = 0; round < 3; round++) {
      await watched.next()
      fixture.redis.set('a', 'java:7', 1, LONG_MS)
      await watched.next()
      fixture.redis.delete('a')
    }
    assert.equal(fixture.port.count('SUBSCRIBE'), 2)
    assert.equal(fixture.port.count('UNSUBSCRIBE'), 0)
  })

  it('a client looks 20 times a second at most, at many locks together, whatever the messages', async () => {
    const names = Array.from({ length: 50 }, (_, index) => `watched:${index}`)
    const watches = names.map((name) => watch(fixture.client.getLock(name)))
    for (const watched of watches) await watched.within(0)
    await fixture.clock.advance(60_000)
    for (const watched of watches) void watched.within(0)
    await turn()
    const sent = fixture.port.sent.length
    const startedAt = fixture.clock.now()
    for (let ms = 0; ms < 1_000; ms += 5) {
      for (const name of names) fixture.redis.execute(['PUBLISH', lockChannel(name), '0'])
      await fixture.clock.advance(5)
    }
    const times = new Set(
      fixture.port.sent
        .slice(sent)
        .filter(({ name }) => name === 'lock/inspect')
        .map(({ at }) => at),
    )
    assert(times.size <= 21, `${times.size} times in ${fixture.clock.now() - startedAt} ms`)
  })
})

describe('the arguments of watch()', () => {
  it('an option that cannot work is an error of the call', () => {
    assert.throws(() => fixture.lock.watch({ signal: 7 as unknown as AbortSignal }), {
      code: 'LOCK_CONFIG',
      path: 'signal',
    })
    assert.throws(() => fixture.lock.watch({ pollMs: 7 } as object), { code: 'LOCK_CONFIG', path: 'pollMs' })
  })
})
