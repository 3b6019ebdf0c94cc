/** What a client does besides making locks: its warnings, the state of its connections, its thread, its end. */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { PortEvents, RedisPort } from '../../src/adapters/port.js'
import { Client } from '../../src/client.js'
import type { ClientOptions } from '../../src/client-options.js'
import { ReplyError } from '../../src/testing/keyspace.js'
import { threadClock } from '../../src/util/clock.js'
import * as threadClient from '../../src/watchdog/thread-client.js'
import { lockChannel } from '../../src/wire/keys.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

/** A port whose events the test may cause itself. */
class OpenPort extends FakePort {
  events: PortEvents | undefined

  override listen(events: PortEvents): void {
    this.events = events
    super.listen(events)
  }
}

let clock: FakeClock
let port: OpenPort
let client: Client
/** The code of each warning, or its message. */
let warnings: unknown[]

/** @param more  what else the port can do */
function open(options: ClientOptions = {}, more: Partial<RedisPort> = {}): void {
  clock = new FakeClock()
  port = Object.assign(new OpenPort(clock), more)
  client = fakeClient(clock, port, options)
  warnings = []
  client.on('warning', (warning) => warnings.push((warning as { code?: unknown }).code ?? warning.message))
}

beforeEach(() => open())

afterEach(async () => {
  port.fault = () => undefined
  await clock.until(client.close())
})

describe('new Client()', () => {
  it('new Client() says that clients come from connect()', () => {
    for (const given of [undefined, null, {}, 'redis://127.0.0.1']) {
      assert.throws(() => new Client(given as never), {
        code: 'LOCK_CONFIG',
        path: 'Client',
        allowed: /connect\(url\)/,
      })
    }
  })
})

describe('client.off()', () => {
  it('client.off() removes a listener of on() or once(), and returns the client', async () => {
    const report = (): void => assert.fail('it was removed')
    client.on('lost', report).once('lost', report)
    assert.equal(client.off('lost', report).off('lost', report), client)
    assert.equal(client.listenerCount('lost'), 0)
  })
})

describe('client.withLock()', () => {
  it("client.withLock() of one name takes that lock's options, and of several holds all of them", async () => {
    await clock.until(client.withLock('a', { atLeastMs: 1_000 }, () => assert.deepEqual(port.redis.keys, ['a'])))
    assert.deepEqual(port.redis.keys, ['a'])
    await clock.advance(2_000)
    const held = await clock.until(client.withLock(['b', 'c'], () => port.redis.keys))
    assert.deepEqual([[...held].sort(), port.redis.keys], [['b', 'c'], []])
  })
})

describe('a name mapper that cannot unmap a name', () => {
  for (const [what, unmap] of [
    [
      'because it throws',
      (name: string) => {
        if (name.includes('bad')) throw new Error('a bug of the user')
        return name.slice(2)
      },
    ],
    ['because it returns nothing', (name: string) => (name.includes('bad') ? undefined : name.slice(2)) as string],
  ] as const) {
    it(`a name mapper that cannot unmap stops nothing, ${what}: messages have the name, lists the key`, async () => {
      const channels = ['holdfast:request:start', 'holdfast:hold:end', 'holdfast:renew']
      const ignore = (): void => {}
      for (const channel of channels) subscribe(channel, ignore)
      open({ lockWatchdogTimeoutMs: 2_000, nameMapper: { map: (name) => `p:${name}`, unmap } })
      const lost: unknown[] = []
      client.on('lost', ({ error }) => lost.push([error.lockName, error.reason]))
      const good = await clock.until(client.getLock('good').lock())
      await clock.until(client.getLock('bad').lock({ leaseTimeMs: 500 }))
      const renewed = await clock.until(client.getLock('bad 2').lock())
      await clock.advance(10_000)
      assert.deepEqual(lost, [['bad', 'expired']])
      good.assertHeld()
      assert.deepEqual([good.lockName, renewed.lockName], ['good', 'bad 2'])
      const shown = await Promise.all(['good', 'bad 2'].map(async (name) => (await client.fleet.inspect(name)).name))
      assert.deepEqual(shown, ['good', 'p:bad 2'])
      const waiting = client.getLock('bad 2').tryLock({ waitTimeMs: 1_000 })
      await renewed.unlock()
      await (await clock.until(waiting))?.unlock()
      await good.unlock()
      assert.deepEqual(await client.fleet.audit(), [])
      for (const channel of channels) unsubscribe(channel, ignore)
    })
  }
})

describe('the warnings of a client', () => {
  it("a client's warnings contain those of its connection, without keeping the process alive", async () => {
    client.removeAllListeners('warning')
    const warning = new Error('slow')
    port.events?.warning?.(warning)
    assert.equal(clock.keepingAlive, 0)
    const emitted = once(client, 'warning')
    await clock.advance(0)
    assert.deepEqual(await emitted, [warning])
  })

  it('the warnings of a client contain a renewal that Redis refuses, once for all renewals', async () => {
    const hold = await clock.until(client.getLock('a').lock())
    port.fault = ({ name }) =>
      name === 'lock/renew' ? { errorReply: 'NOPERM no permission to run EVALSHA' } : undefined
    await clock.advance(25_000)
    assert.deepEqual(warnings, ['RENEWAL_REFUSED'])
    await hold.unlock()
  })

  it('the warnings of a client contain keys that Redis refuses because they are of different slots', async () => {
    port.fault = ({ keys }) => (keys.length > 1 ? { errorReply: 'CROSSSLOT Keys in request do not hash' } : undefined)
    await assert.rejects(clock.until(client.getFairLock('a').tryLock()), /CROSSSLOT/)
    assert.deepEqual(warnings, ['CROSSSLOT_REFUSED'])
  })

  it('the warnings of a client contain replicas that Redis does not let it ask for', async () => {
    const acknowledge = async (): Promise<never> => {
      throw new ReplyError('NOPERM no permission to run WAIT')
    }
    open({}, { isReplicated: true, acknowledge })
    await (await clock.until(client.getLock('a').lock())).unlock()
    assert.deepEqual(warnings, ['WAIT_REFUSED'])
  })

  it('the warnings of a client contain what onRelease threw each time, whatever its code is', async () => {
    for (const error of [new DOMException('too late', 'TimeoutError'), Object.assign(new Error(), { code: 'OWN' })]) {
      for (const _ of [1, 2]) {
        const onRelease = (): never => {
          throw error
        }
        assert.equal(await clock.until(client.getLock('a').withLock({ onRelease }, () => 'done')), 'done')
      }
    }
    assert.deepEqual(warnings, [23, 23, 'OWN', 'OWN'])
  })

  it('the warnings of a client reach every listener, also after one that throws or listens once', async () => {
    const ofProcess: string[] = []
    const onWarning = ({ message }: Error): void => void ofProcess.push(message)
    process.on('warning', onWarning)
    client.removeAllListeners('warning')
    const heard: string[] = []
    client.once('warning', () => {
      throw new Error('a bug of the user')
    })
    client.once('warning', ({ message }) => heard.push(`once ${message}`))
    client.on('warning', ({ message }) => heard.push(message))
    for (const message of ['slow', 'slower']) port.events?.warning?.(new Error(message))
    await clock.advance(0)
    await turn()
    process.off('warning', onWarning)
    assert.deepEqual(heard, ['once slow', 'slow', 'slower'])
    assert.deepEqual(ofProcess, ['a bug of the user'])
  })

  it('the warnings of a client go to the process if nobody listens and they are meant for it', async () => {
    const ofProcess: string[] = []
    const onWarning = ({ message }: Error): void => void ofProcess.push(message)
    process.on('warning', onWarning)
    client.warnSoon(new Error('heard'), true)
    await clock.advance(0)
    client.removeAllListeners('warning')
    client.warnSoon(new Error('many clients'), true)
    client.warnSoon(new Error('slow'))
    await clock.advance(0)
    await turn()
    process.off('warning', onWarning)
    assert.deepEqual([warnings, ofProcess], [['heard'], ['many clients']])
  })

  it('the warnings of a client are no process warnings as well if a listener throws', async () => {
    const ofProcess: string[] = []
    const onWarning = ({ message }: Error): void => void ofProcess.push(message)
    process.on('warning', onWarning)
    client.on('longWait', () => {
      throw new Error('a bug of the user')
    })
    const hold = await clock.until(client.getLock('a').lock())
    const waiting = client.getLock('a').tryLock({ waitTimeMs: 2_000, warnAfterMs: 1_000 })
    assert.equal(await clock.until(waiting), null)
    await hold.unlock()
    await turn()
    process.off('warning', onWarning)
    assert.deepEqual(ofProcess, ['a bug of the user'])
  })
})

describe('the connections of a client', () => {
  it('connections that were lost and are back have the client check its holds', async () => {
    const hold = await clock.until(client.getLock('a').lock())
    port.redis.delete('a')
    port.reconnect()
    await clock.advance(1_000)
    assert.equal(hold.isLive, false)
  })

  it("connections that lost a subscription, or have it back, make the client's waiters try again", async () => {
    const other = fakeClient(clock, new FakePort(clock, port.redis))
    const foreign = await clock.until(other.getFencedLock('a').lock())
    const waiting = client.getFencedLock('a').lock()
    await clock.advance(100)
    const attempts = (): number => port.sent.filter(({ name }) => name.includes('acquire')).length
    const afterLoss = async (change: () => void): Promise<number> => {
      const before = attempts()
      change()
      await turn()
      return attempts() - before
    }
    assert.equal(await afterLoss(() => port.loseSubscriber()), 1)
    assert.equal(await afterLoss(() => port.resubscribe()), 1)
    assert.equal(await afterLoss(() => port.resubscribe(...port.channels)), 1)
    assert.deepEqual(warnings, ['SUBSCRIBE_REFUSED'])
    await foreign.unlock()
    await (await clock.until(waiting)).unlock()
    await clock.until(other.close())
  })

  it('connections to a cluster allow no lock whose keys are in several slots', async () => {
    open({}, { isCluster: true })
    for (const name of ['a{', 'a{}b', '{}']) {
      assert.notEqual(lockChannel(name), name)
      assert.throws(() => client.getLock(name), { code: 'LOCK_CONFIG', path: 'lock name' })
      assert.throws(() => client.getSemaphore(name), { code: 'LOCK_CONFIG', path: 'semaphore name' })
    }
    await (await clock.until(client.getLock('{a}b').lock())).unlock()
  })
})

/** Sends back, as a refusal, what it gets; is then connected; and ends a moment later. */
const THREAD = `
  import { parentPort } from 'node:worker_threads'
  parentPort.once('message', ({ client, registration }) => {
    const { memory, ...terms } = registration
    const own = { execArgv: process.execArgv, nodeOptions: process.env.NODE_OPTIONS }
    parentPort.postMessage({ client, refused: { message: JSON.stringify({ ...terms, ...own }) } })
    parentPort.postMessage({ client, isReady: true })
    parentPort.on('message', () => process.exit(3))
  })`

describe('the watchdog thread of a client', () => {
  const terms = { connection: 'redis://127.0.0.1', maxBlockMs: 60_000 }
  const fileOf = (source: string): string => `data:text/javascript,${encodeURIComponent(source)}`

  it('the watchdog thread renews as the client does, and its warnings are those of the client', async () => {
    const options = { lockWatchdogTimeoutMs: 6_000, lockWatchdogBatchSize: 7, commandTimeoutMs: 800 }
    client = new Client(port, options, { clock: threadClock })
    const seen: (Error & { code?: string })[] = []
    client.on('warning', (warning) => seen.push(warning))
    await client.protect(threadClient, { ...terms, file: fileOf(THREAD) })
    const { code, cause } = seen[0] as Error & { code?: string }
    assert.equal(code, 'RENEWAL_REFUSED')
    const sent = JSON.parse((cause as Error).message)
    // No loader of the program is in the thread.
    const own = { execArgv: [], nodeOptions: '' }
    assert.deepEqual(sent, { ...terms, periodMs: 2_000, batchSize: 7, commandTimeoutMs: 800, ...own })
    const hold = await client.getLock('a').lock() // the thread hears of it, and ends
    while (seen.length < 2) await turn()
    assert.equal(seen[1]?.code, 'WATCHDOG_THREAD_ENDED')
    await hold.unlock()
    await client.close()
  })

  it('a watchdog thread that cannot be started closes the client', async () => {
    let isSettled = false
    const failing = assert.rejects(
      client.protect(threadClient, { ...terms, file: fileOf('throw new Error("broken")') }),
      {
        code: 'LOCK_CONFIG',
        path: 'watchdog.thread',
      },
    )
    void failing.finally(() => {
      isSettled = true
    })
    while (!isSettled) await clock.advance(1)
    await failing
    assert.equal(port.isClosed, true)
    await assert.rejects(client.getLock('a').lock(), { code: 'LOCK_CLIENT_CLOSED' })
  })
})

describe('the end of a client', () => {
  it('the end of a client is that of its `await using` block', async () => {
    const opened = new OpenPort(clock)
    {
      await using other = new Client(opened)
      await (await other.getLock('a').lock()).unlock()
      assert.equal(opened.isClosed, false)
    }
    assert.equal(opened.isClosed, true)
  })

  it('the end of a client comes with its last release; until then locks can be inspected', async () => {
    const closed = { code: 'LOCK_CLIENT_CLOSED' }
    const [lock, semaphore] = [client.getLock('a'), client.getSemaphore('b')]
    const hold = await clock.until(lock.lock())
    await clock.until(semaphore.trySetPermits(0))
    const closing = client.close({ drainMs: 60_000 })
    await assert.rejects(lock.lock(), closed)
    assert.equal(await clock.until(lock.isLocked()), true)
    await clock.until(semaphore.release())
    await hold.unlock()
    await clock.advance(1_000)
    assert.equal(port.isClosed, true)
    await assert.rejects(lock.isLocked(), closed)
    await assert.rejects(semaphore.release(), closed)
    await closing
  })

  it('the end of a client on a signal is in later errors, and a warning names other handlers', async () => {
    const other = (): void => {}
    process.on('SIGTERM', other) // else the signal would end this process
    try {
      client.closeOnSignals({ drainMs: 0 })
      process.emit('SIGTERM', 'SIGTERM')
      while (!port.isClosed) await clock.advance(1)
      assert.deepEqual(warnings, ['CLOSED_BESIDE_HANDLER'])
      await assert.rejects(client.getLock('a').lock(), { code: 'LOCK_CLIENT_CLOSED', message: /received SIGTERM/ })
      while (process.listenerCount('SIGTERM') > 1) await turn()
    } finally {
      process.off('SIGTERM', other)
    }
  })

  it('the end of a client takes its signal handlers back', async () => {
    const before = process.listenerCount('SIGTERM')
    client.closeOnSignals()
    assert.equal(process.listenerCount('SIGTERM'), before + 1)
    const closing = client.close()
    while (!port.isClosed) await clock.advance(1)
    await closing
    assert.equal(process.listenerCount('SIGTERM'), before)
  })
})
