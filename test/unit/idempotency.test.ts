import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { IdempotencyKeys, TooLate } from '../../src/delivery/idempotency.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { idempotencyForget, semaphoreRelease } from '../../src/lua/generated.js'
import { FakeClock } from '../support/fake-clock.js'

/** What the clock of Redis says at first. */
const EPOCH_MS = 1_800_000_000_000
const FORGET = idempotencyForget('', []).script
const release = ({ key, number, openedAt }: { key: string; number: number; openedAt: number }) =>
  semaphoreRelease('a', key, 'generation', 1, 'create', 'channel', number, openedAt)

describe('an operation on a semaphore or latch', () => {
  function setUp(reply: (command: readonly string[]) => unknown, commandTimeoutMs = 3_000) {
    const clock = new FakeClock()
    const sent: (readonly string[])[] = []
    const port: RedisPort = {
      send: async (command) => {
        sent.push(command)
        return await reply(command)
      },
      isErrorReply: () => false,
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

  it('is sent again with the time of Redis if that was not known, under the same idempotency key', async () => {
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
    assert.equal(clock.pending, 0)
  })

  it('waits at most 20 s for a reply, so that it can be repeated or cancelled in time', async () => {
    const { clock, keys } = setUp(() => new Promise(() => {}), 200_000)
    const outcome = keys.send(keys.open('a'), release).catch((error: unknown) => error)
    const startedAt = clock.now()
    assert((await clock.until(outcome)) instanceof NoReplyError)
    assert.equal(clock.now() - startedAt, 20_000)
  })

  it('is given up if the clock of Redis jumps with every reply', async () => {
    let jumps = 0
    const { sent, keys } = setUp(() => [++jumps * 1_000_000])
    await assert.rejects(keys.send(keys.open('a'), release), TooLate)
    assert(sent.length < 10, `${sent.length} times`)
  })

  it('keeps its stored reply until copies that may be in flight would be refused', async () => {
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

  it('keeps its reply in Redis when the connection was lost meanwhile, because the client may have sent it twice', async () => {
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
})
