/** The functions that withLock and withPermit run, and onAcquire and onRelease. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable, Writable } from 'node:stream'
import { describe, it } from 'node:test'
import { type Client, getMultiLock, type WithLockOptions } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep, waitUntil } from '../support/wait-until.js'

type Run = (body: () => unknown) => Promise<unknown>

/** Every call that takes a function. */
const calls: Record<string, (client: Client) => Promise<Run>> = {
  withLock: async (client) => (body) => client.getLock('a').withLock(body),
  tryWithLock: async (client) => (body) => client.getLock('a').tryWithLock(body),
  'withPermit of a semaphore with leases': async (client) => {
    const semaphore = client.getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(1)
    return (body) => semaphore.withPermit(body)
  },
  'withPermit of a semaphore': async (client) => {
    const semaphore = client.getSemaphore('a')
    await semaphore.trySetPermits(1)
    return (body) => semaphore.withPermit(body)
  },
}

describe('a callback', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^a$/ })

  for (const [call, prepare] of Object.entries(calls)) {
    it(`a callback that is a generator function is rejected before anything is acquired: ${call}`, async () => {
      const run = await prepare(await fixture.connect())
      const before = await fixture.server.admin.dump('a')
      const refused = { code: 'LOCK_CONFIG', path: 'fn', lockName: 'a', message: /generator function/ }
      const generators = [
        function* () {
          yield assert.fail('must not run')
        },
        async function* () {
          yield assert.fail('must not run')
        },
      ]
      for (const body of generators) await assert.rejects(run(body), refused)
      assert.deepEqual(await fixture.server.admin.dump('a'), before)
    })

    it(`a callback that returns a generator or stream is rejected, and the lock is released: ${call}`, async () => {
      const run = await prepare(await fixture.connect())
      function* numbers() {
        yield 1
      }
      async function* rows() {
        yield 1
      }
      const unread = [() => Readable.from(['x']), async () => rows(), () => numbers(), () => new Response('x').body]
      for (const body of unread) {
        await assert.rejects(run(body), {
          code: 'LOCK_CONFIG',
          path: 'fn',
          lockName: 'a',
          message: /after the release/,
        })
      }
      assert(await run(() => 'taken again'))
    })

    it(`a callback may return any other value: ${call}`, async () => {
      const run = await prepare(await fixture.connect())
      const values = [undefined, null, 'text', ['x'], new Map(), new Map().values(), new Writable(), () => {}]
      for (const value of values) {
        const outcome = await run(() => value)
        assert.equal(call === 'tryWithLock' ? (outcome as { value: unknown }).value : outcome, value)
      }
    })
  }

  it('a callback that throws wins over a release that fails too, which is a warning', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 300, lockWatchdogTimeoutMs: 3_000 })
    const lost: unknown[] = []
    client.on('lost', (loss) => lost.push(loss))
    const warned = once(client, 'warning')
    const running = client.getLock('a').withLock(() => {
      proxy.freeze()
      throw new Error('of the body')
    })
    await assert.rejects(running, { message: 'of the body' })
    const [warning] = await warned
    assert.equal(warning.code, 'RELEASE_FAILED')
    assert.match(warning.message, /"a"/)
    assert.equal(warning.cause.code, 'LOCK_OUTCOME_UNKNOWN')
    assert.deepEqual(lost, [])
    proxy.pass()
    await (await client.getLock('a').lock({ waitTimeMs: 10_000 })).unlock()
  })
})

describe('onAcquire', () => {
  const fixture = setUpFixture()

  it('onAcquire runs inside the hold: acquiring the same lock there re-enters', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    const counts: number[] = []
    const onAcquire = async (): Promise<void> => {
      await lock.withLock((hold) => counts.push(hold.count))
    }
    assert.equal(await lock.withLock({ onAcquire }, (hold) => counts.push(hold.count)), 2)
    assert.deepEqual(counts, [2, 1])
  })
})

describe('onRelease', () => {
  const fixture = setUpFixture()

  it('an onRelease that throws does not cost the caller the value: its error is a warning', async () => {
    const client = await fixture.connect()
    const warned = once(client, 'warning')
    const onRelease = (): never => {
      throw new Error('of onRelease')
    }
    assert.equal(await client.getLock('a').withLock({ onRelease }, () => 'value'), 'value')
    assert.equal((await warned)[0].message, 'of onRelease')
  })
})

describe('client.withLock()', () => {
  const fixture = setUpFixture()

  it('client.withLock() runs a function with the lock of a name held, or with several', async () => {
    const client = await fixture.connect()
    const held = async () => (await fixture.server.admin.keys('*')).sort()
    assert.deepEqual(await client.withLock('a', held), ['a'])
    assert.deepEqual(await client.withLock(['a'], { leaseTimeMs: 5_000 }, held), ['a'])
    assert.deepEqual(await client.withLock(['b', 'a', 'b'], held), ['a', 'b'])
    assert.deepEqual(await held(), [])
    await client.withLock('a', async () => {
      await client.withLock('a', async (hold) => assert.equal(hold.count, 2))
    })
  })

  it('client.withLock() waits for the waitTimeMs of the client, or of the call', async () => {
    const client = await fixture.connect({ waitTimeMs: 30 })
    const hold = await client.getLock('a').lock()
    for (const names of ['a', ['a', 'b']]) {
      const heldBy = /held by this client/
      await assert.rejects(
        client.withLock(names, () => assert.fail()),
        { code: 'LOCK_WAIT_TIMEOUT', waitTimeMs: 30, heldBy },
      )
      await assert.rejects(
        client.withLock(names, { waitTimeMs: 0 }, () => assert.fail()),
        { code: 'LOCK_WAIT_TIMEOUT', waitTimeMs: 0, heldBy },
      )
    }
    const waiting = client.withLock('a', { waitTimeMs: 10_000 }, () => 'done')
    await sleep(60)
    await hold.unlock()
    assert.equal(await waiting, 'done')
  })

  it('client.withLock() says what to write when it is called wrongly', async () => {
    const client = await fixture.connect()
    const run = (): void => assert.fail()
    for (const [args, said] of [
      [[run], /expected a name or an array of names: \(names, fn\) or \(names, options, fn\)/],
      [[{ waitTimeMs: 5 }, run], /expected a name or an array of names/],
      [[[], run], /expected at least one name/],
      [['a', 'b', run], /expected an array of names: \(\[name, name\], fn\)/],
      [['a', run, { waitTimeMs: 5 }], /expected the options before the function: \(options, fn\)/],
      [['a', { timeout: 5 }, run], /timeout: expected waitTimeMs instead/],
      [['a'], /fn: expected a function to run with the lock/],
    ] as const) {
      const call = client.withLock as (...args: unknown[]) => Promise<unknown>
      await assert.rejects(call.apply(client, [...args]), { code: 'LOCK_CONFIG', message: said })
    }
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('client.withLock() refuses what cannot work before it sends anything', async () => {
    const client = await fixture.connect()
    for (const args of [
      [],
      [5, () => {}],
      [[], () => {}],
      [['a', ''], () => {}],
      ['a'],
      ['a', {}],
      ['a', { wait: 1 }, () => {}],
    ]) {
      const call = client.withLock as (...args: unknown[]) => Promise<unknown>
      await assert.rejects(call.apply(client, args), { code: 'LOCK_CONFIG' })
    }
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })
})

describe("release: 'background'", () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^p$/ })
  const kinds: Record<string, (client: Client) => Promise<(options: WithLockOptions) => Promise<unknown>>> = {
    lock: async (client) => (options) => client.getLock('a').withLock(options, () => 'value'),
    'fair lock': async (client) => (options) => client.getFairLock('a').withLock(options, () => 'value'),
    'write lock': async (client) => (options) =>
      client
        .getReadWriteLock('a')
        .writeLock()
        .withLock(options, () => 'value'),
    'multi-lock': async (client) => (options) =>
      getMultiLock(client.getLock('a'), client.getLock('b')).withLock(options, () => 'value'),
    permit: async (client) => {
      const semaphore = client.getPermitExpirableSemaphore('p')
      await semaphore.trySetPermits(1)
      return ({ release }) => semaphore.withPermit({ release }, () => 'value')
    },
  }

  for (const [kind, prepare] of Object.entries(kinds)) {
    it(`a background release returns the value, and frees the ${kind} for the next call and for others`, async () => {
      const [client, other] = [await fixture.connect(), await fixture.connect()]
      const run = await prepare(client)
      for (let round = 0; round < 20; round++) assert.equal(await run({ release: 'background' }), 'value')
      assert.equal(await (await prepare(other))({}), 'value')
      await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
    })
  }
})
