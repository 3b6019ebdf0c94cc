import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import { type Client, connect } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { renewed } from '../support/renewed.js'

const BAD_DURATIONS: readonly unknown[] = [
  Number.NaN,
  1.5,
  -1,
  Number.POSITIVE_INFINITY,
  2 ** 53,
  2 ** 53 + 2,
  9e19,
  '1000',
  '1e3',
  '',
  null,
  {},
  [1000],
  10n,
  true,
]

describe('an invalid argument', () => {
  const fixture = setUpFixture()

  it('an invalid argument is rejected with its name and value before any command is sent', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    const count = await countCommands(fixture.server, async () => {
      for (const value of [...BAD_DURATIONS, 0]) {
        const leaseTimeMs = value as number
        for (const call of [() => lock.lock({ leaseTimeMs }), () => lock.tryLock({ leaseTimeMs })]) {
          await assert.rejects(call, { code: 'LOCK_CONFIG', path: 'leaseTimeMs', lockName: 'a' })
        }
        await assert.rejects(lock.lock({ maxHoldMs: leaseTimeMs }), { code: 'LOCK_CONFIG', path: 'maxHoldMs' })
      }
      for (const value of BAD_DURATIONS) {
        const waitTimeMs = value as number
        await assert.rejects(lock.lock({ waitTimeMs }), { code: 'LOCK_CONFIG', path: 'waitTimeMs' })
        await assert.rejects(lock.tryLock({ waitTimeMs }), { code: 'LOCK_CONFIG', path: 'waitTimeMs' })
      }
      await assert.rejects(lock.lock({ leaseTime: 5 } as object), { code: 'LOCK_CONFIG', path: 'leaseTime' })
      await assert.rejects(lock.lock({ signal: {} as AbortSignal }), { code: 'LOCK_CONFIG', path: 'signal' })
      for (const option of ['onAcquire', 'onRelease'] as const) {
        const wrong = lock.withLock({ [option]: 'x' }, () => assert.fail('must not run'))
        await assert.rejects(wrong, { code: 'LOCK_CONFIG', path: option })
      }
      await assert.rejects(lock.lock({ label: 7 as unknown as string }), { code: 'LOCK_CONFIG', path: 'label' })
      await assert.rejects(lock.lock({ leaseTimeMs: 9 }), { code: 'LOCK_CONFIG', path: 'leaseTimeMs' })
      await assert.rejects(lock.withLock({} as () => void), { code: 'LOCK_CONFIG', path: 'fn' })
      await assert.rejects(client.adopt('b', 'nonsense'), { code: 'LOCK_CONFIG', path: 'holder', lockName: 'b' })
      await assert.rejects(client.close({ drainMs: -1 }), { code: 'LOCK_CONFIG', path: 'drainMs' })
    })
    assert.equal(count.total, 0)
    assert.equal(await lock.isLocked(), false)
  })

  it('an invalid argument is not read from the prototype of the options', async () => {
    const client = await fixture.connect()
    const options = Object.create({ leaseTimeMs: 1, label: 'of the prototype', nonsense: 1 }) as { waitTimeMs?: number }
    options.waitTimeMs = 100
    const hold = await client.getLock('a').lock(options)
    assert.equal(hold.label, undefined)
    assert(hold.remainingMs() > 20_000)
    await hold.unlock()
    await assert.rejects(client.getLock('a').lock(null as unknown as object), { code: 'LOCK_CONFIG' })
  })

  it('an invalid argument is rejected by connect before a connection is opened', async () => {
    for (const target of [
      '',
      'not a url',
      'http://127.0.0.1:6379',
      {},
      { url: fixture.server.url, client: {} },
      { client: {} },
      { url: fixture.server.url, lockWatchdogTimeoutMs: 0 },
      { url: fixture.server.url, commandTimeoutMs: Number.NaN },
      { url: fixture.server.url, lockWatchdogTimeout: 30_000 },
    ]) {
      await assert.rejects(connect(target as string), { code: 'LOCK_CONFIG' })
    }
  })

  it('an invalid argument does not show a password in the error of connect', async () => {
    for (const url of ['redis//:hunter2@127.0.0.1', 'http://:hunter2@127.0.0.1:6379', 'redis://:hunter2@127.0.0.1:1']) {
      await assert.rejects(connect(url), (error: Error) => {
        assert(!JSON.stringify([error.message, String(error.cause), { ...error }]).includes('hunter2'))
        return true
      })
    }
  })

  it('an invalid argument may be a database Redis does not have: nothing is locked in another one', async () => {
    await assert.rejects(connect(`${fixture.server.url}/99`), { message: /out of range/ })
    const client = await connect(`${fixture.server.url}/3`)
    const hold = await client.getLock('a').lock()
    assert.match(await fixture.server.admin.info('keyspace'), /db3:keys=1/)
    await hold.unlock()
    await client.close()
  })

  it('an invalid argument may be a password that is invalid in a URL', async () => {
    await assert.rejects(connect('redis://:100%@127.0.0.1:6379'), { code: 'LOCK_CONFIG', path: 'url', message: /%25/ })
  })

  it('an invalid argument may be a URL with parameters, or whose database is not a number', async () => {
    for (const tail of ['?keyPrefix=app:', '/0?db=1', '#x', '/abc', '/1/2']) {
      await assert.rejects(connect(fixture.server.url + tail), { code: 'LOCK_CONFIG', path: 'url' })
    }
    await assert.rejects(connect('redis://a%2:0b@127.0.0.1:6379'), { code: 'LOCK_CONFIG', path: 'url' })
  })

  it('a server that never replies makes connect give up after 10 s', async () => {
    fixture.server.freeze()
    try {
      await assert.rejects(connect(fixture.server.url), { message: /no reply within 10000 ms/ })
    } finally {
      fixture.server.thaw()
    }
  })

  it('an invalid argument may be a second argument with options, which would be ignored', async () => {
    const inJavaScript = connect as (url: string, options?: unknown) => Promise<Client>
    await assert.rejects(inJavaScript(fixture.server.url, { lockWatchdogTimeoutMs: 5_000 }), {
      code: 'LOCK_CONFIG',
      path: 'connect',
      message: /connect\(\{ url, \.\.\.options \}\)/,
    })
    for (const client of await Promise.all([fixture.server.url].map(connect))) await client.close()
  })

  it('an invalid argument may be an implicitReentry that is neither true nor false', async () => {
    const options = { url: fixture.server.url, implicitReentry: 'no' as unknown as boolean }
    await assert.rejects(connect(options), { code: 'LOCK_CONFIG', path: 'implicitReentry' })
  })

  it('an invalid argument may be a client whose keyPrefix would rewrite keys but not channels', async () => {
    const redis = new Redis(fixture.server.url, { keyPrefix: 'app:', lazyConnect: true })
    await assert.rejects(connect({ client: redis }), { code: 'LOCK_CONFIG', path: 'client', message: /keyPrefix/ })
    redis.disconnect()
  })

  it('an invalid argument may be a client that is not connected or closed, whatever the topology', async () => {
    const { url, port } = fixture.server
    const sentinelRootNodes = [{ host: '127.0.0.1', port }]
    for (const client of [
      createClient({ url }),
      createCluster({ rootNodes: [{ url }] }),
      createSentinel({ name: 'mymaster', sentinelRootNodes }),
    ]) {
      await assert.rejects(connect({ client }), { code: 'LOCK_CONFIG', path: 'client', message: /connect\(\)/ })
    }
    for (const redis of [new Redis(url), new Cluster([url], { lazyConnect: true })]) {
      redis.disconnect()
      if (redis.status !== 'end') await new Promise<unknown>((resolve) => redis.once('end', resolve))
      await assert.rejects(connect({ client: redis }), { code: 'LOCK_CONFIG', path: 'client', message: /closed/ })
    }
  })

  it('an invalid argument may be a cluster client whose keyPrefix moves keys to other slots', async () => {
    const cluster = new Cluster([fixture.server.url], { lazyConnect: true, keyPrefix: 'app:' })
    await assert.rejects(connect({ client: cluster }), { code: 'LOCK_CONFIG', path: 'client', message: /keyPrefix/ })
    cluster.disconnect()
  })
})

describe('a hostile name', () => {
  const fixture = setUpFixture()

  const HOSTILE = [
    '__proto__',
    'constructor',
    'toString',
    '{',
    '}',
    '{}',
    'a}b{c',
    'a{}b',
    'two words',
    'line\r\nbreak\r\n$3\r\nDEL\r\n',
    '\u0000',
    "'); redis.call('flushall'); --",
    '*',
    '🔒'.repeat(100),
    'x'.repeat(1024 * 1024),
  ]

  it('a hostile name is a key like any other: held, renewed, waited for and released', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const other = await fixture.connect()
    const holds = []
    for (const name of HOSTILE) {
      const hold = await client.getLock(name).lock()
      assert.deepEqual(await other.getLock(name).getHolders(), [{ holder: hold.holder, holdCount: 1 }])
      holds.push(hold)
    }
    assert.equal((await fixture.server.admin.keys('*')).length, HOSTILE.length)
    const waiting = HOSTILE.map((name) => other.getLock(name).lock())
    await renewed(holds, 1)
    for (const hold of holds) await hold.unlock()
    for (const hold of await Promise.all(waiting)) await hold.unlock()
  })

  it('a hostile name is rejected if two names would become one key, or no key', async () => {
    const client = await fixture.connect()
    for (const name of ['', 'a\ud800', 'a\udc00b', 'x'.repeat(1024 * 1024 + 1), '🔒'.repeat(300_000)]) {
      assert.throws(() => client.getLock(name), { code: 'LOCK_CONFIG', path: 'lock name' })
    }
    for (const name of [undefined, null, 7, {}, ['a'], Symbol('a')]) {
      assert.throws(() => client.getLock(name as string), { code: 'LOCK_CONFIG', path: 'lock name' })
    }
  })
})
