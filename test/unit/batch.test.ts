/** What happens to each call of a batch when it, another one, or all of them fail. */
import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { lockAcquire, lockRelease, lockRenew } from '../../src/lua/generated.js'
import { forCluster, forMany, inTime } from '../../src/lua/variants.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'

const TIMEOUT_MS = 3_000
const ACQUIRE = lockAcquire('', 0, '').script
const take = (name: string) => lockAcquire(name, 30_000, 'me:1')

/** An error reply of Redis. */
class ErrorReply extends Error {}

describe('a batch of calls', () => {
  let clock: FakeClock
  let scripts: Scripts
  let sent: string[][]
  /** What the Redis client does with each command. */
  let reply: (command: readonly string[]) => unknown
  let crossSlot: unknown[]

  beforeEach(() => {
    clock = new FakeClock()
    sent = []
    crossSlot = []
    reply = () => null
    const port: RedisPort = {
      isOneServer: true,
      send: (command) => {
        sent.push([...command])
        return reply(command) as Promise<unknown>
      },
      isErrorReply: (error) => error instanceof ErrorReply,
      subscribe: async () => {},
      unsubscribe: async () => {},
      listen: () => {},
      close: async () => {},
    }
    scripts = new Scripts(port, clock, TIMEOUT_MS, { onCrossSlot: (error) => crossSlot.push(error) })
    scripts.learnTime('a', clock.now())
  })

  const run = (names: readonly string[]) => Promise.allSettled(names.map((name) => scripts.run(take(name))))
  const reasons = (outcomes: readonly PromiseSettledResult<unknown>[]): unknown[] =>
    outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason : outcome.value))
  const isBatch = ([, sha1]: readonly string[]): boolean => sha1 === inTime(forMany(ACQUIRE)).sha1
  const names = (): string[] => sent.map(([verb = '', , count]) => `${verb} ${count}`)

  /** Every call has ended, for admission and for `close`, too. */
  async function expectNothingInFlight(): Promise<void> {
    assert.equal(scripts.isIdle, true, 'nothing is in flight')
    await scripts.idle()
    await turn()
    scripts.close()
    assert.equal(clock.pending, 0, 'no timer is left')
  }

  it('a batch of calls gives each caller its own reply', async () => {
    reply = async () => [[], [null, 7, 8]]
    assert.deepEqual(reasons(await run(['a', 'b', 'c'])), [null, 7, 8])
    assert.deepEqual(names(), ['EVALSHA 3'])
    await expectNothingInFlight()
  })

  for (const [title, strange] of [
    ['QUEUED, as in a transaction', 'QUEUED'],
    ['nothing', undefined],
    ['nil', null],
    ['a number', 1],
    ['an array of something else', ['1', '2']],
    ['an array without the replies', [[]]],
  ] as const) {
    it(`a batch of calls rejects with NoReplyError for every caller if the reply is ${title}`, async () => {
      reply = async () => strange
      const outcomes = reasons(await run(['a', 'b', 'c']))
      assert.equal(outcomes.length, 3)
      for (const reason of outcomes) assert(reason instanceof NoReplyError, String(reason))
      await expectNothingInFlight()
    })
  }

  it('a batch of calls repeats a call that failed alone, so that its caller gets its own reply', async () => {
    reply = async (command) => {
      if (isBatch(command))
        return [
          [1, 3],
          [null, null, 9, null],
        ]
      if (command[3] === 'b') throw new ErrorReply('WRONGTYPE b')
      return 5
    }
    const [a, b, c, d] = reasons(await run(['a', 'b', 'c', 'd']))
    assert.deepEqual([a, c, d], [null, 9, 5])
    assert.match(String(b), /WRONGTYPE b/)
    assert.deepEqual(names(), ['EVALSHA 4', 'EVALSHA 1', 'EVALSHA 1'])
    await expectNothingInFlight()
  })

  it('a batch of calls repeats every call alone if all of them failed', async () => {
    reply = async (command) => {
      if (isBatch(command))
        return [
          [0, 1],
          [null, null],
        ]
      throw new ErrorReply(`WRONGTYPE ${command[3]}`)
    }
    assert.deepEqual(
      reasons(await run(['a', 'b'])).map((reason) => (reason as Error).message),
      ['WRONGTYPE a', 'WRONGTYPE b'],
    )
    await expectNothingInFlight()
  })

  it('a batch of calls understands indexes as text or bigint, as some Redis clients return integers', async () => {
    reply = async (command) =>
      isBatch(command)
        ? [
            ['0', 2n],
            [null, 7, null],
          ]
        : 5
    assert.deepEqual(reasons(await run(['a', 'b', 'c'])), [5, 7, 5])
    await expectNothingInFlight()
  })

  for (const error of [
    'NOPERM no permissions to access a key',
    'CROSSSLOT Keys in request do not hash to the same slot',
    'ERR eval/evalsha command keys must be in same slot',
    'ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array',
  ]) {
    it(`a batch of calls repeats every call alone after ${error.split(',')[0]}`, async () => {
      reply = async (command) => {
        if (isBatch(command) || command[3] === 'b') throw new ErrorReply(error)
        return null
      }
      const outcomes = reasons(await run(['a', 'b', 'c']))
      assert.deepEqual([outcomes[0], outcomes[2]], [null, null])
      assert.equal((outcomes[1] as Error).message, error)
      assert.equal(crossSlot.length, /same slot/.test(error) ? 1 : 0)
      await expectNothingInFlight()
    })
  }

  it('a batch of calls combines no more calls after CROSSSLOT', async () => {
    reply = async (command) => {
      if (isBatch(command)) throw new ErrorReply('CROSSSLOT Keys in request do not hash to the same slot')
      return null
    }
    await run(['a', 'b'])
    sent.length = 0
    assert.deepEqual(reasons(await run(['a', 'b'])), [null, null])
    assert.deepEqual(names(), ['EVALSHA 1', 'EVALSHA 1'])
    await expectNothingInFlight()
  })

  it('a batch of calls still combines after CROSSSLOT for a single key, which caused none', async () => {
    reply = async (command) => {
      if (!isBatch(command)) throw new ErrorReply('CROSSSLOT Keys in request do not hash to the same slot')
      return [[], [1, 2]]
    }
    await run(['a'])
    assert.deepEqual(crossSlot, [])
    assert.deepEqual(reasons(await run(['b', 'c'])), [1, 2])
    await expectNothingInFlight()
  })

  it('a batch of calls reports CROSSSLOT once, however many commands Redis refuses', async () => {
    reply = async (command) => {
      if (command[2] !== '1') throw new ErrorReply('CROSSSLOT Keys in request do not hash to the same slot')
      return 1
    }
    const releases = ['c', 'd'].map((name) => scripts.run(lockRelease(name, 'me:1', 'channel', '0')))
    assert.deepEqual(reasons(await run(['a', 'b'])), [1, 1])
    assert.deepEqual(await Promise.all(releases), [1, 1])
    assert.equal(crossSlot.length, 1)
    await expectNothingInFlight()
  })

  it('a batch of calls is sent with its text after NOSCRIPT, once', async () => {
    reply = async (command) => {
      if (command[0] === 'EVALSHA') throw new ErrorReply('NOSCRIPT No matching script')
      return [[], [1, 2]]
    }
    assert.deepEqual(reasons(await run(['a', 'b'])), [1, 2])
    assert.deepEqual(names(), ['EVALSHA 2', 'EVAL 2'])
    assert.equal(sent[1]?.[1], inTime(forMany(ACQUIRE)).text)
    await expectNothingInFlight()
  })

  it('a batch of calls rejects for every caller if Redis replies NOSCRIPT to the text, too', async () => {
    reply = async () => {
      throw new ErrorReply('NOSCRIPT No matching script')
    }
    for (const reason of reasons(await run(['a', 'b']))) assert.match(String(reason), /NOSCRIPT/)
    assert.deepEqual(names(), ['EVALSHA 2', 'EVAL 2'])
    await expectNothingInFlight()
  })

  it('a batch of calls rejects with the error of Redis for every caller after any other error reply', async () => {
    reply = async () => {
      throw new ErrorReply('LOADING Redis is loading the dataset in memory')
    }
    for (const reason of reasons(await run(['a', 'b']))) assert(reason instanceof ErrorReply)
    assert.deepEqual(names(), ['EVALSHA 2'])
    await expectNothingInFlight()
  })

  it('a batch of calls rejects with NoReplyError for all if the connection fails or the client throws', async () => {
    reply = async () => {
      throw new Error('Connection is closed')
    }
    for (const reason of reasons(await run(['a', 'b']))) assert(reason instanceof NoReplyError)
    reply = () => {
      throw new Error('The client is closed')
    }
    for (const reason of reasons(await run(['a', 'b']))) assert(reason instanceof NoReplyError)
    await expectNothingInFlight()
  })

  it('a batch of calls rejects with NoReplyError for all at its timeout, and ignores a later reply', async () => {
    let resolveReply: (reply: unknown) => void = () => {}
    reply = () => new Promise((resolve) => (resolveReply = resolve))
    const startedAt = clock.now()
    for (const reason of reasons(await clock.until(run(['a', 'b'])))) assert(reason instanceof NoReplyError)
    assert.equal(clock.now() - startedAt, TIMEOUT_MS)
    resolveReply([[0], [null, null]])
    await turn()
    assert.deepEqual(names(), ['EVALSHA 2'])
    await expectNothingInFlight()
  })

  it('a batch of calls gives a call that is repeated alone the timeout of the batch again', async () => {
    reply = (command) => (isBatch(command) ? Promise.resolve([[0], [null, 7]]) : new Promise(() => {}))
    const [a, b] = reasons(await clock.until(run(['a', 'b'])))
    assert(a instanceof NoReplyError)
    assert.equal(b, 7)
    await expectNothingInFlight()
  })

  it('a batch of calls has calls with the same timeout only', async () => {
    reply = () => new Promise(() => {})
    const startedAt = clock.now()
    const endedAfter = (name: string, timeoutMs?: number): Promise<number> =>
      scripts.run(take(name), timeoutMs).then(
        () => assert.fail('there is no reply'),
        () => clock.now() - startedAt,
      )
    const ended = Promise.all([endedAfter('a'), endedAfter('b', 500), endedAfter('c'), endedAfter('d', 500)])
    assert.deepEqual(await clock.until(ended), [TIMEOUT_MS, 500, TIMEOUT_MS, 500])
    for (const [, , count] of sent) assert(Number(count) <= 2)
    await expectNothingInFlight()
  })

  it('a batch of calls has calls of one script, and none overtakes another one on its key', async () => {
    reply = async (command) => (command[2] === '1' ? 1 : [[], [1, 1]])
    const calls = [
      take('a'),
      lockRelease('a', 'me:1', 'channel', '0'),
      take('b'),
      take('a'),
      lockRenew(['c'], ['me:1', 1]),
    ]
    await Promise.all(calls.map((call) => scripts.run(call)))
    assert.deepEqual(
      sent.map(([, , count, ...words]) => words.slice(0, Number(count)).join()),
      ['a,b', 'a', 'a', 'c'],
    )
    await expectNothingInFlight()
  })
})

describe('a variant of a script', () => {
  it('a variant of a script is made once, and for a cluster only if the script publishes', () => {
    const { script: release } = lockRelease('', '', '', '')
    assert.equal(forCluster(ACQUIRE), ACQUIRE)
    assert.notEqual(forCluster(release).sha1, release.sha1)
    assert.equal(forCluster(release), forCluster(release))
    assert.equal(forCluster(release).name, release.name)
    assert.match(forCluster(release).text, /spublish/)
    assert.equal(forMany(ACQUIRE), forMany(ACQUIRE))
  })
})
