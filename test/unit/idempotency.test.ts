import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { IdempotencyKeys, TooLate } from '../../src/delivery/idempotency.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { idempotencyForget, semaphoreRelease } from '../../src/lua/generated.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'

/** What the clock of Redis says at first. */
const EPOCH_MS = 1_800_000_000_000
const FORGET = idempotencyForget('', []).script
const release = ({ key, number, openedAt }: { key: string; number: number; openedAt: number }) =>
  semaphoreRelease('a', key, 'generation', 1, 'create', 'channel', number, openedAt)

/** An error reply of Redis. */
class ErrorReply extends Error {}

describe('an operation on a semaphore or latch', () => {
  function setUp(reply: (command: readonly string[]) => unknown, commandTimeoutMs = 3_000) {
    const clock = new FakeClock()
    const sent: (readonly string[])[] = []
    const port: RedisPort = {
      send: async (command) => {
        sent.push(command)
        return await reply(command)
      },
      isErrorReply: (error) => error instanceof ErrorReply,
      subscribe: async () => {},
      unsubscribe: async () => {},
      listen: () => {},
      close: async () => {},
    }
    const scripts = new Scripts(port, clock, commandTimeoutMs)
    return { clock, sent, scripts, keys: new IdempotencyKeys(clock, 'id', scripts, commandTimeoutMs) }
  }

  /** A Redis that knows of time, and does what is not too late. */
  const redisAt = (clock: () => number) => (command: readonly string[]) => {
    const now = EPOCH_MS + clock()
    if (command[1] === FORGET.sha1) return now
    return Math.abs(now - Number(command.at(-1))) > 100_000 ? [now] : 7
  }

  it('an operation is sent again with the time of Redis, if unknown, under the same idempotency key', async () => {
    const { clock, sent, keys } = setUp((command) => redisAt(() => clock.now())(command))
    const operation = keys.open('a')
    assert.equal(await keys.send(operation, release), 7)
    assert.deepEqual(
      sent.map((command) => command.slice(-2)),
      [
        ['1', '0'],
        ['1', String(EPOCH_MS + clock.now())],
      ],
    )
    assert.equal(keys.mayHaveRun(operation), false)
    keys.close(operation)
    await keys.flush()
    assert.equal(clock.keepingAlive, 0)
  })

  it('an operation waits at most 20 s for a reply, so that it can be repeated or cancelled', async () => {
    const { clock, keys } = setUp(() => new Promise(() => {}), 200_000)
    const outcome = keys.send(keys.open('a'), release).catch((error: unknown) => error)
    const startedAt = clock.now()
    assert((await clock.until(outcome)) instanceof NoReplyError)
    assert.equal(clock.now() - startedAt, 20_000)
  })

  it('an operation may have run if its reply was lost, unless its time was not known', async () => {
    let isLost = true
    const { clock, keys } = setUp((command) => {
      if (isLost) throw new Error('Connection is closed')
      return redisAt(() => clock.now())(command)
    })
    const early = keys.open('a')
    await assert.rejects(keys.send(early, release), NoReplyError)
    assert.equal(keys.mayHaveRun(early), false, 'Redis refuses it whenever it arrives')
    isLost = false
    assert.equal(await keys.send(early, release), 7)
    isLost = true
    const operation = keys.open('a')
    await assert.rejects(keys.send(operation, release), NoReplyError)
    assert.equal(keys.mayHaveRun(operation), true)
  })

  it('an operation has not run if Redis replied with an error', async () => {
    let error: Error | undefined
    const { clock, keys } = setUp((command) => {
      if (error) throw error
      return redisAt(() => clock.now())(command)
    })
    await keys.send(keys.open('a'), release) // from here on the clock of Redis is known
    error = new ErrorReply('NOPERM no permissions')
    const operation = keys.open('a')
    await assert.rejects(keys.send(operation, release), error)
    assert.equal(keys.mayHaveRun(operation), false)
  })

  it('an operation that arrives too late gets no new time if an earlier copy may have run', async () => {
    let isLost = false
    const { clock, sent, keys } = setUp((command) => {
      if (isLost) throw new Error('Connection is closed')
      return redisAt(() => clock.now())(command)
    })
    await keys.send(keys.open('a'), release)
    isLost = true
    const operation = keys.open('a')
    await assert.rejects(keys.send(operation, release), NoReplyError)
    isLost = false
    await clock.advance(200_000)
    sent.length = 0
    await assert.rejects(keys.send(operation, release), TooLate)
    assert.equal(sent.length, 1)
  })

  it('an operation is sent again after a reconnect if Redis refuses it for its unknown time', async () => {
    const { clock, keys, scripts } = setUp((command) => {
      if (command.at(-1) === '0') scripts.reconnects++
      return redisAt(() => clock.now())(command)
    })
    assert.equal(await keys.send(keys.open('a'), release), 7)
  })

  it('an operation runs although the clock of Redis is set three times meanwhile', async () => {
    const replies = [[1_000_000], [2_000_000], [3_000_000], 7]
    const { sent, keys } = setUp(() => replies.shift())
    assert.equal(await keys.send(keys.open('a'), release), 7)
    assert.equal(sent.length, 4)
  })

  it('an operation is given up if the clock of Redis jumps with every reply', async () => {
    let jumps = 0
    const { sent, keys } = setUp(() => [++jumps * 1_000_000])
    await assert.rejects(keys.send(keys.open('a'), release), TooLate)
    assert(sent.length < 10, `${sent.length} times`)
  })

  it('an operation keeps its stored reply until copies in flight would be refused', async () => {
    const { clock, sent, keys } = setUp((command) => redisAt(() => clock.now())(command))
    const first = keys.open('a')
    await keys.send(first, release)
    first.isInDoubt = true
    keys.close(first)
    const forgets = () => sent.filter(([, sha1]) => sha1 === FORGET.sha1).map((command) => command.slice(4))
    for (const [afterMs, expected] of [
      [60_000, [['2']]],
      [60_000, [['2'], ['3']]],
      [1_300_000, [['2'], ['3'], ['4', '1']]],
    ] as const) {
      await clock.advance(afterMs)
      const next = keys.open('a')
      await keys.send(next, release)
      keys.close(next)
      await keys.flush()
      assert.deepEqual(forgets(), expected)
    }
  })

  it('an operation keeps its reply in Redis when the connection was lost, as it may be sent twice', async () => {
    const { clock, sent, keys, scripts } = setUp((command) => redisAt(() => clock.now())(command))
    const forgets = () => sent.filter(([, sha1]) => sha1 === FORGET.sha1).map((command) => command.slice(4))
    await keys.send(keys.open('a'), release) // from here on the clock of Redis is known
    const operation = keys.open('a')
    await keys.send(operation, release)
    scripts.reconnects++
    keys.close(operation)
    await keys.flush()
    assert.deepEqual(forgets(), [])
    await clock.advance(1_300_000)
    await keys.flush()
    assert.deepEqual(forgets(), [['2']])
  })

  it('an operation needs no further round trip after a deletion that said the clock was set', async () => {
    let setBy = 0
    const { clock, sent, keys } = setUp((command) => redisAt(() => clock.now() + setBy)(command))
    const operation = keys.open('a')
    await keys.send(operation, release)
    keys.close(operation)
    setBy = 3_600_000
    await keys.flush()
    sent.length = 0
    assert.equal(await keys.send(keys.open('a'), release), 7)
    assert.equal(sent.length, 1)
  })
})

describe('stored replies that are no longer needed', () => {
  /** @param deleted  resolves to the reply of Redis */
  function setUp(deleted: () => Promise<number> = async () => EPOCH_MS) {
    const clock = new FakeClock()
    const forgets: string[][] = []
    const send = (command: readonly string[]): Promise<number> => {
      forgets.push(command.slice(4))
      return deleted()
    }
    const scripts = new Scripts({ send, isErrorReply: () => false } as unknown as RedisPort, clock, 3_000)
    const keys = new IdempotencyKeys(clock, 'id', scripts, 3_000)
    const close = (count: number): void => {
      for (let n = 0; n < count; n++) keys.close(keys.open('a'))
    }
    return { clock, forgets, keys, close }
  }

  it('stored replies of a semaphore are deleted together after 50 ms, keeping no process alive', async () => {
    const { clock, forgets, close } = setUp()
    close(1)
    await clock.advance(49)
    close(2)
    assert.deepEqual([clock.pending, clock.keepingAlive], [1, 0])
    assert.deepEqual(forgets, [])
    await clock.advance(1)
    assert.deepEqual(forgets, [['1', '2', '3']])
    assert.equal(clock.keepingAlive, 0)
    close(1)
    await clock.advance(50)
    assert.deepEqual(forgets.slice(1), [['4']])
  })

  it('stored replies are deleted by 1,000 in one command', async () => {
    const { forgets, keys, close } = setUp()
    close(2_000)
    await keys.flush()
    assert.deepEqual(
      forgets.map((numbers) => [numbers.length, numbers[0]]),
      [
        [1_000, '1'],
        [1_000, '1001'],
      ],
    )
  })

  it('stored replies have been deleted when flush() resolves, or Redis could not be reached', async () => {
    for (const outcome of [() => Promise.resolve(EPOCH_MS), () => Promise.reject(new Error('Connection is closed'))]) {
      let end = (): void => {}
      const { keys, close } = setUp(() => new Promise<void>((resolve) => (end = resolve)).then(outcome))
      assert.equal(keys.isFlushed, true)
      close(1)
      assert.equal(keys.isFlushed, false)
      let isFlushed = false
      const flushing = keys.flush().then(() => (isFlushed = true))
      await turn()
      assert.equal(isFlushed, false)
      end()
      await flushing
      assert.equal(keys.isFlushed, true)
    }
  })
})
