/** Holdfast over HTTP: requests that get lost, late or doubled, servers that answer something else, and clients beside it. */
import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { inspect } from 'node:util'
import { Redis } from '@upstash/redis'
import { http } from '../../src/adapters/http/port.js'
import { type Client, type ClientOptions, connect, type Hold, type Semaphore } from '../../src/index.js'
import { fairQueue, orderedQueue, turnQueueKey } from '../../src/wire/keys.js'
import { Dice } from '../support/dice.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { type Fault, startUpstashFront, type UpstashFront } from '../support/servers/upstash-front.js'
import { STORED_REPLIES } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Less than a poll of a waiter that relies on messages, and more than any of one that does not. */
const SOON_MS = 3_000

describe('over HTTP', () => {
  const fixture = setUpFixture(drivers[0], [], { keysThatStay: STORED_REPLIES })
  const seed = Math.floor(Math.random() * 2 ** 31)

  async function overHttp(options: ClientOptions = {}): Promise<{ client: Client; front: UpstashFront }> {
    const front = await startUpstashFront(fixture.server.url)
    fixture.onEnd(() => front.stop())
    const redis = new Redis({ url: front.url, token: front.token })
    const client = await connect({ client: redis, ...options })
    fixture.onEnd(() => client.close())
    return { client, front }
  }

  /** Redis knows the scripts, and the client knows the time of Redis. */
  async function warmedUp(options?: ClientOptions): Promise<{ client: Client; front: UpstashFront }> {
    const both = await overHttp(options)
    await both.client.getLock('warm').withLock(() => {})
    await both.client.getFairLock('warm').withLock(() => {})
    return both
  }

  async function requestsOf({ arrived }: UpstashFront, work: () => Promise<unknown>): Promise<number> {
    const before = arrived.requests
    await work()
    return arrived.requests - before
  }

  const isFree = async (): Promise<boolean> => (await fixture.server.admin.exists('a')) === 0

  it('the client of @upstash/redis and the front understand each other', async () => {
    const front = await startUpstashFront(fixture.server.url)
    fixture.onEnd(() => front.stop())
    const redis = new Redis({ url: front.url, token: front.token })
    assert.equal(await redis.set('text', 'ä'), 'OK')
    assert.deepEqual(await redis.pipeline().get('text').del('text').exec(), ['ä', 1])
    await assert.rejects(redis.eval('return redis.error_reply("ERR no")', [], []), /ERR no/)
  })

  it('a free lock costs two requests, and the commands of one turn go in one', async () => {
    const { client, front } = await warmedUp()
    assert.equal(await requestsOf(front, () => client.getLock('a').withLock(() => {})), 2)
    const commands = front.arrived.commands
    const takeBoth = () => Promise.all([client.getLock('a').lock(), client.getFairLock('b').lock()])
    let holds: Hold[] = []
    assert.equal(
      await requestsOf(front, async () => {
        holds = await takeBoth()
      }),
      1,
    )
    assert.equal(front.arrived.commands - commands, 2)
    await Promise.all(holds.map((hold) => hold.unlock()))
  })

  it('an error reply to one command of a request is none to the others', async () => {
    const { client } = await warmedUp()
    await fixture.server.admin.set('text', 'not a lock')
    const [hold, wrong] = await Promise.allSettled([client.getLock('a').lock(), client.getFairLock('text').lock()])
    assert(hold.status === 'fulfilled' && wrong.status === 'rejected')
    assert.equal(wrong.reason.code, 'LOCK_WRONG_TYPE')
    await hold.value.unlock()
    await fixture.server.admin.del('text')
  })

  it('a waiter asks up to eight times a second, but not while its own client has the lock', async () => {
    const { client, front } = await warmedUp()
    const other = await fixture.connect()
    const held = await other.getLock('a').lock()
    const waiting = client.getLock('a').lock()
    const [began, before] = [performance.now(), front.arrived.requests]
    await waitUntil(() => front.arrived.requests - before > 11)
    // From 1 ms to 128 ms, doubled each time: 8 in the first 255 ms.
    const most = 1 + 8 + (performance.now() - began) / 128
    assert(front.arrived.requests - before <= most)
    await held.unlock()
    const hold = await waiting
    const behind = client.getLock('a').lock()
    assert((await requestsOf(front, () => sleep(500))) <= 2)
    await hold.unlock()
    await (await behind).unlock()
  })

  it('an address and a token are enough', async () => {
    const front = await startUpstashFront(fixture.server.url)
    fixture.onEnd(() => front.stop())
    await using client = await connect({ client: http({ url: `${front.url}/`, token: front.token }) })
    assert.equal(await client.getLock('a').withLock(() => 'done'), 'done')
  })

  it('no reply may come from a cache', async () => {
    const { client } = await warmedUp()
    const sent = mock.method(globalThis, 'fetch')
    try {
      await client.getLock('a').withLock(() => {})
      const inits = sent.mock.calls.map((call) => call.arguments[1])
      assert.deepEqual([...new Set(inits.map((init) => (init as { cache?: string }).cache))], ['no-store'])
    } finally {
      sent.mock.restore()
    }
  })

  it('what cannot work is refused, and no secret is shown', async () => {
    const secret = 'hidden-secret'
    const refusals = [
      () => http({ url: 'redis://127.0.0.1', token: secret }),
      () => http({ url: `https://user:${secret}@127.0.0.1`, token: 'x' }),
      () => http({ url: `https://127.0.0.1/?_token=${secret}`, token: 'x' }),
      () => http({ url: 'https://127.0.0.1', token: `${secret}\n` }),
      () => http({ url: 'https://127.0.0.1' } as { url: string; token: string }),
      () => http(new Redis({ request: async () => ({ result: null as never }) })),
    ]
    for (const refuse of refusals) {
      assert.throws(refuse, (error: Error) => {
        assert.doesNotMatch(inspect(error, { depth: 9 }), new RegExp(secret))
        return 'code' in error && error.code === 'LOCK_CONFIG'
      })
    }
    const redis = new Redis({ url: 'https://127.0.0.1', token: secret })
    const confirmed = connect({ client: redis, checkLockSyncedSlaves: true })
    await assert.rejects(confirmed, { code: 'LOCK_CONFIG', path: 'checkLockSyncedSlaves, checkLockFsynced' })
    await assert.rejects(connect({ client: redis, watchdog: { thread: true } }), { code: 'LOCK_CONFIG' })
  })

  it('a wrong token is an error at once, without the token', async () => {
    const front = await startUpstashFront(fixture.server.url)
    fixture.onEnd(() => front.stop())
    await using client = await connect({ client: new Redis({ url: front.url, token: 'wrong-token' }) })
    const failing = await settlesWithin(client.getLock('a').lock(), SOON_MS)
    assert(failing.status === 'rejected')
    assert.match(failing.reason.message, /^WRONGPASS the server refused the token \(HTTP 401\)/)
    assert.doesNotMatch(inspect(failing.reason, { depth: 9 }), /wrong-token/)
  })

  for (const [status, body, message] of [
    [200, '<html>Welcome</html>', /HTTP 200, without a reply of Redis/],
    [200, '{}', /HTTP 200, without a reply of Redis/],
    [302, '', /HTTP 302, without a reply of Redis/],
    [429, '{"error":"ERR max requests limit exceeded"}', /HTTP 429, ERR max requests limit exceeded/],
    [500, '<html>Internal Server Error</html>', /HTTP 500, without a reply of Redis/],
  ] as const) {
    it(`a server that answers ${status} ${body} leaves the outcome open, and a waiter asks again`, async () => {
      const { client, front } = await warmedUp({ commandTimeoutMs: 1_000 })
      front.fault = () => ({ is: 'answered', status, body })
      await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN', message })
      let answers = 0
      front.fault = () => (++answers <= 3 ? { is: 'answered', status, body } : undefined)
      const hold = await client.getLock('a').lock()
      assert(answers > 3)
      await hold.unlock()
      await waitUntil(isFree)
    })
  }

  it('a connection that died unnoticed is replaced, and its holds are checked', async () => {
    const { client, front } = await warmedUp()
    const lost = new Promise((resolve) => client.once('lost', ({ error }) => resolve(error.reason)))
    await client.getLock('gone').lock()
    await fixture.server.admin.del('gone')
    let requests = 0
    front.fault = () => (++requests === 1 ? { is: 'request lost' } : undefined)
    const hold = await client.getLock('a').tryLock()
    assert.equal(await hold?.isHeld(), true)
    assert.equal(await lost, 'gone')
    await hold?.unlock()
  })

  for (const is of ['request lost', 'reply lost', 'silence'] as const) {
    it(`if the fault is always "${is}", the outcome is unknown, and what was taken is released`, async () => {
      const { client, front } = await warmedUp({ commandTimeoutMs: 500 })
      front.fault = () => ({ is })
      await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' })
      if (is === 'reply lost') assert.equal(await isFree(), false)
      front.fault = () => undefined
      await waitUntil(isFree, { timeoutMs: 10_000 })
    })
  }

  it('a request that is later than the time limit takes nothing', async () => {
    const { client, front } = await warmedUp({ commandTimeoutMs: 200 })
    let late = 0
    front.fault = () => (++late === 1 ? { is: 'late', ms: 400 } : undefined)
    await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await sleep(600)
    assert.equal(await isFree(), true)
  })

  it('a lease counts from before the request', async () => {
    const { client, front } = await warmedUp()
    front.fault = () => ({ is: 'late', ms: 400 })
    const hold = await client.getLock('a').lock({ leaseTimeMs: 2_000 })
    assert(hold.remainingMs() <= 1_600, `${hold.remainingMs()} ms`)
    front.fault = () => undefined
    await hold.unlock()
  })

  it('two clients never overlap while requests get lost, late and doubled', async () => {
    const dice = new Dice(seed)
    const faults: readonly (Fault | undefined)[] = [
      { is: 'request lost' },
      { is: 'reply lost' },
      { is: 'late', ms: 150 },
      { is: 'doubled', ms: 50 },
      ...Array<undefined>(8).fill(undefined),
    ]
    // What a copy takes for nobody ends with its lease.
    const options = { commandTimeoutMs: 1_000, lockWatchdogTimeoutMs: 2_000 }
    const both = [await warmedUp(options), await warmedUp(options)]
    for (const { front } of both) front.fault = () => dice.pick(faults)
    const inside = new Set<Hold>()
    let overlaps = 0
    const work = async ({ client }: { client: Client }): Promise<void> => {
      for (let sections = 0; sections < 6; ) {
        const section = client.getLock('a').withLock(async (hold) => {
          for (const other of inside) if (other.remainingMs() > 0 && hold.remainingMs() > 0) overlaps++
          inside.add(hold)
          await sleep(dice.between(0, 10))
          inside.delete(hold)
          sections++
        })
        await section.catch(({ code }) => assert.match(code, /^LOCK_(OUTCOME_UNKNOWN|LEASE_LOST)$/))
      }
    }
    await Promise.all(both.flatMap((one) => [work(one), work(one)]))
    assert.equal(overlaps, 0, `with the seed ${seed}`)
    for (const { front } of both) front.fault = () => undefined
    await waitUntil(isFree, { timeoutMs: 10_000 })
  })

  it('no permit gets lost, and none is granted twice, while requests get lost and late', async () => {
    const dice = new Dice(seed)
    const faults = [{ is: 'request lost' }, { is: 'reply lost' }, { is: 'late', ms: 50 }] as const
    const both = [await warmedUp(), await warmedUp()]
    const [semaphore, other] = both.map(({ client }) => client.getSemaphore('a')) as [Semaphore, Semaphore]
    await semaphore.trySetPermits(2)
    for (const { front } of both) front.fault = () => (dice.chance(0.3) ? dice.pick(faults) : undefined)
    let inside = 0
    let most = 0
    const work = async (one: Semaphore): Promise<void> => {
      for (let sections = 0; sections < 6; sections++) {
        const section = one.withPermit(async () => {
          most = Math.max(most, ++inside)
          await sleep(dice.between(0, 10))
          inside--
        })
        await section.catch(({ code }) => assert.equal(code, 'LOCK_OUTCOME_UNKNOWN'))
      }
    }
    await Promise.all([work(semaphore), work(semaphore), work(other), work(other)])
    assert(most <= 2, `${most} at once, with the seed ${seed}`)
    for (const { front } of both) front.fault = () => undefined
    await waitUntil(async () => (await semaphore.availablePermits()) === 2, { timeoutMs: 10_000 })
    await semaphore.delete()
  })

  it('clients with and without messages serve each other, and one without has no place in the turn queue', async () => {
    const { client } = await warmedUp()
    const withMessages = await fixture.connect()
    const [one, other] = [client.getLock('a'), withMessages.getLock('a')]
    for (const [holding, waiting] of [
      [one, other],
      [other, one],
    ] as const) {
      const hold = await holding.lock()
      const next = settlesWithin(waiting.lock(), 10_000)
      const isQueued = async (): Promise<boolean> => (await fixture.server.admin.exists(turnQueueKey('a'))) === 1
      if (waiting === other) await waitUntil(isQueued)
      else await sleep(300)
      assert.equal(await isQueued(), waiting === other)
      const releasedAt = performance.now()
      await hold.unlock()
      const outcome = await next
      assert(performance.now() - releasedAt < SOON_MS)
      assert(outcome.status === 'fulfilled')
      await outcome.value.unlock()
    }
  })

  for (const [title, lockOf, waiting] of [
    ['a fair lock', (client: Client) => client.getFairLock('a'), () => fixture.server.admin.llen(fairQueue('a'))],
    [
      'an ordered lock',
      (client: Client) => client.getLock('a', { order: 'fifo' }),
      () => fixture.server.admin.zcard(orderedQueue('a')),
    ],
  ] as const) {
    it(`${title} serves waiters with and without messages in order`, async () => {
      const [{ client: one }, { client: two }] = [await warmedUp(), await warmedUp()]
      const three = await fixture.connect()
      const hold = await lockOf(one).lock()
      const order: number[] = []
      const waits: Promise<unknown>[] = []
      for (const [index, client] of [two, three, one, two].entries()) {
        const wait = lockOf(client).withLock(async () => {
          order.push(index)
          await sleep(20)
        })
        waits.push(wait)
        await waitUntil(async () => (await waiting()) === index + 1)
      }
      await hold.unlock()
      await settlesWithin(Promise.all(waits), 10_000)
      assert.deepEqual(order, [0, 1, 2, 3])
    })
  }

  it('others see its holds without a description, and cannot interrupt them', async () => {
    const { client } = await overHttp()
    const operator = await fixture.connect({ inspection: true })
    const hold = await client.getLock('a').lock()
    await sleep(1_500) // a client with messages would have described itself
    const { holders } = await operator.fleet.inspect('a')
    assert.deepEqual(
      holders.map(({ holder, status }) => [holder, status]),
      [[hold.holder, 'unlisted']],
    )
    const asked = performance.now()
    const { doubts, holders: seen } = await client.fleet.inspect('a')
    assert.equal(seen[0]?.holder, hold.holder)
    assert(performance.now() - asked < SOON_MS, JSON.stringify(doubts))
    const forced = await operator.fleet.forceUnlock('a', { holder: hold.holder, reason: 'test' })
    assert.equal(forced.outcome, 'unreachable')
    await hold.unlock()
  })

  it('close() gives up the requests that nobody has answered', async () => {
    const { client, front } = await warmedUp({ commandTimeoutMs: 300 })
    front.fault = () => ({ is: 'silence' })
    await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    assert(front.unanswered.size > 0)
    await client.close()
    await waitUntil(() => front.unanswered.size === 0)
  })
})
