import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient, createClientPool } from 'redis'
import { Client, connect, getMultiLock } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'

/** What JavaScript can pass, and TypeScript refuses. */
type Loose = (...args: unknown[]) => Promise<unknown>

describe('a call that is written wrongly', () => {
  const fixture = setUpFixture()

  it('a wrong call says what to write, before any command is sent: options after the function', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    const permits = client.getPermitExpirableSemaphore('p')
    const semaphore = client.getSemaphore('s')
    const calls = {
      withLock: lock.withLock.bind(lock),
      tryWithLock: lock.tryWithLock.bind(lock),
      withPermit: semaphore.withPermit.bind(semaphore),
      tryWithPermit: semaphore.tryWithPermit.bind(semaphore),
      'withPermit with leases': permits.withPermit.bind(permits),
      'tryWithPermit with leases': permits.tryWithPermit.bind(permits),
    } as unknown as Record<string, Loose>
    const count = await countCommands(fixture.server, async () => {
      for (const [name, call] of Object.entries(calls)) {
        const wrong = call(() => assert.fail('must not run'), { waitTimeMs: 1_000 })
        const refusal = {
          code: 'LOCK_CONFIG',
          path: 'options',
          message: /options before the function: \(options, fn\)/,
        }
        await assert.rejects(wrong, refusal, name)
      }
    })
    assert.equal(count.total, 0)
    const inJavaScript = lock.withLock.bind(lock) as unknown as Loose
    assert.equal(await inJavaScript(() => 'ran', undefined), 'ran')
  })

  it('a wrong call says what to write: options by their names in other libraries', async () => {
    const client = await fixture.connect()
    const count = await countCommands(fixture.server, async () => {
      for (const [option, name] of [
        ['waitTime', 'waitTimeMs'],
        ['timeout', 'waitTimeMs'],
        ['acquireTimeout', 'waitTimeMs'],
        ['ttl', 'leaseTimeMs'],
        ['leaseTime', 'leaseTimeMs'],
        ['duration', 'leaseTimeMs'],
        ['maxHold', 'maxHoldMs'],
      ] as const) {
        const message = new RegExp(`^${option}: expected ${name} instead, one of the options leaseTimeMs, `)
        const wrong = client.getLock('a').lock({ [option]: 1_000 } as object)
        await assert.rejects(wrong, { code: 'LOCK_CONFIG', path: option, lockName: 'a', message })
      }
      const unknown = client.getLock('a').lock({ constructor: 1 } as object)
      await assert.rejects(unknown, { message: /^constructor: expected one of the options leaseTimeMs/ })
    })
    assert.equal(count.total, 0)
    for (const [option, name] of [
      ['timeout', 'commandTimeoutMs'],
      ['ttl', 'lockWatchdogTimeoutMs'],
      ['lockWatchdogTimeout', 'lockWatchdogTimeoutMs'],
      ['redis', 'client'],
    ]) {
      const wrong = connect({ url: fixture.server.url, [option as string]: 1 })
      await assert.rejects(wrong, { code: 'LOCK_CONFIG', message: new RegExp(`^${option}: expected ${name} instead`) })
    }
  })

  it('a wrong call says what to write: a function or a number for the options', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const inJavaScript = lock.lock.bind(lock) as unknown as Loose
    await assert.rejects(
      inJavaScript(() => {}),
      { code: 'LOCK_CONFIG', message: /with the lock held in withLock\(fn\)/ },
    )
    await assert.rejects(inJavaScript(5_000), { code: 'LOCK_CONFIG', message: /an object with some of leaseTimeMs/ })
  })

  it('a wrong call says what to write: connect with a client, several, a host and port, or ours', async () => {
    const inJavaScript = connect as Loose
    const { url, port } = fixture.server
    const redis = new Redis(url, { lazyConnect: true })
    const nodeRedis = createClient({ url })
    const own = await fixture.connect()
    for (const [target, said] of [
      [redis, /write connect\(\{ client: redis \}\)/],
      [nodeRedis, /write connect\(\{ client: redis \}\)/],
      [own, /connect\(\{ client: redis \}\)/],
      [[redis], /one target: .*getRedLock/],
      [[url], /one target/],
      [new URL(url), /url\.href/],
      [{ host: '127.0.0.1', port }, /connect\('redis:\/\/host:port'\)/],
      [{ socket: { host: '127.0.0.1', port } }, /connect\('redis:\/\/host:port'\)/],
    ] as const) {
      await assert.rejects(inJavaScript(target), { code: 'LOCK_CONFIG', path: 'connect', message: said })
    }
    redis.disconnect()
  })

  it('a wrong call says what to write: something else as the option client', async () => {
    const { url } = fixture.server
    const own = await fixture.connect()
    const pool = createClientPool({ url })
    for (const [client, said] of [
      [[], /call connect once for each server/],
      [Promise.resolve(), /await it first/],
      [own, /not a client of Holdfast/],
      [pool, /not a pool of createClientPool\(\).*createClient\(\)/],
      [{ send_command: () => {} }, /node-redis 3 or older/],
      [{}, /expected an ioredis, node-redis, valkey-glide, Bun or @upstash\/redis client$/],
      [null, /expected an ioredis, node-redis, valkey-glide, Bun or @upstash\/redis client$/],
    ] as const) {
      await assert.rejects(connect({ client: client as never }), { code: 'LOCK_CONFIG', path: 'client', message: said })
    }
  })

  it('a wrong call says what to write: new Client()', () => {
    const inJavaScript = Client as unknown as new (target?: unknown) => Client
    for (const target of [undefined, fixture.server.url, { url: fixture.server.url }]) {
      assert.throws(() => new inJavaScript(target), { code: 'LOCK_CONFIG', message: /write `await connect\(url\)`/ })
    }
  })

  it("a wrong call says what to write: a multi-lock of an array, of a multi-lock or of a copy's lock", async () => {
    const client = await fixture.connect()
    const [a, b] = [client.getLock('a'), client.getLock('b')]
    const inJavaScript = getMultiLock as unknown as (...locks: unknown[]) => unknown
    for (const [wrong, said] of [
      [[a, b], /write \.\.\.locks/],
      [getMultiLock(a, b), /pass the locks that this one is made of/],
      [{ withLock: () => {} }, /another copy.*npm ls holdfast/],
      ['a', /expected a lock of a client/],
    ] as const) {
      assert.throws(() => inJavaScript(wrong), { code: 'LOCK_CONFIG', path: 'getMultiLock: lock 1', message: said })
    }
  })
})

// With RESP3, the default of ioredis 6, a client that has subscribed also takes commands.
describe('an ioredis client in subscriber mode', () => {
  const fixture = setUpFixture()

  it('an ioredis client in subscriber mode is refused by connect', async () => {
    const redis = new Redis(fixture.server.url, { protocol: 2 })
    fixture.onEnd(() => redis.disconnect())
    await redis.subscribe('redisson_lock__channel:{news}')
    await assert.rejects(connect({ client: redis }), {
      code: 'LOCK_CONFIG',
      path: 'client',
      message: /in subscriber mode\. Pass another, such as redis\.duplicate\(\)/,
    })
  })

  it('an ioredis client may subscribe later: Holdfast has a connection of its own', async () => {
    const redis = new Redis(fixture.server.url, { protocol: 2 })
    fixture.onEnd(() => redis.disconnect())
    const client = await connect({ client: redis })
    fixture.onEnd(() => client.close())
    await redis.subscribe('redisson_lock__channel:{news}')
    await client.getLock('a').withLock(() => {})
  })
})
