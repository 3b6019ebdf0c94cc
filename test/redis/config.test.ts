/** Redisson configurations on real servers. For Sentinel and clusters see test/topologies. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { inspect } from 'node:util'
import { loadConfig } from '../../src/config/load.js'
import { type Client, type ConnectOptions, connect, type RedissonConfig } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { recordMessages } from '../support/key-contents.js'
import { timersLeft } from '../support/leak-check.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { type Certificates, makeCertificates, startTlsRedis, type TlsRedis } from '../support/servers/tls.js'
import { listening } from '../support/subscribers.js'
import { waitUntil } from '../support/wait-until.js'

/** The name of the connections of these tests in CLIENT LIST. */
const CLIENT_NAME = 'holdfast-config-test'

/** Expects connect to fail soon, without secrets and without leftovers. @returns the error */
async function refusal(target: ConnectOptions): Promise<Error> {
  const startedAt = performance.now()
  const timers = timersLeft()
  const error = await connect(target).then(
    () => assert.fail('connected'),
    (error: Error) => error,
  )
  assert(performance.now() - startedAt < 8_000, 'soon')
  assert(!inspect(error, { depth: 10 }).includes('hunter2'), 'no secrets')
  await waitUntil(() => timersLeft(timers) <= 0, { timeoutMs: 2_000, message: 'no timer is left' })
  return error
}

describe('connect, with a configuration of one server,', () => {
  const fixture = setUpFixture(undefined, ['--user', 'orders', 'on', '>hunter2', '~*', '&*', '+@all'])
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-config-'))
  after(() => rmSync(dir, { recursive: true }))

  async function open(options: ConnectOptions): Promise<Client> {
    const client = await connect(options)
    fixture.onEnd(() => client.close())
    return client
  }

  function file(text: string): string {
    const path = join(dir, 'redisson.yaml')
    writeFileSync(path, text)
    return path
  }

  const single = (server: object = {}, top: object = {}): RedissonConfig => ({
    singleServerConfig: { address: fixture.server.url, ...server },
    ...top,
  })

  it('a configuration file sets user, password, database and client name', async () => {
    const config = file(`
singleServerConfig:
  address: "${fixture.server.url}"
  username: orders
  password: "\${SECRET:-hunter2}"
  database: 3
  clientName: ${CLIENT_NAME}
  connectionPoolSize: 65
codec: !<org.redisson.codec.JsonJacksonCodec> {}
lockWatchdogTimeout: 12000
`)
    const client = await open({ config })
    const warnings: (Error & { code?: string; keys?: readonly { path: string }[] })[] = []
    client.on('warning', (warning) => warnings.push(warning))
    const hold = await client.getLock('a').lock()
    const list = String(await fixture.server.admin.client('LIST'))
    assert.match(list, new RegExp(`name=${CLIENT_NAME} .*db=3 .*user=orders`))
    await fixture.server.admin.select(3)
    const ttl = await fixture.server.admin.pttl('a')
    await fixture.server.admin.select(0)
    assert(ttl > 10_000 && ttl <= 12_000, String(ttl))
    await hold.unlock()
    assert.deepEqual(
      warnings.map(({ code, keys }) => [code, keys?.map(({ path }) => path)]),
      [['CONFIG_KEYS_IGNORED', ['codec', 'singleServerConfig.connectionPoolSize']]],
    )
  })

  it('options of connect take precedence over the configuration', async () => {
    const config = single({}, { lockWatchdogTimeout: 12_000 })
    const client = await open({ config, lockWatchdogTimeoutMs: 20_000, commandTimeoutMs: undefined })
    await client.getLock('a').withLock(async () => {
      assert((await fixture.server.admin.pttl('a')) > 12_000)
    })
  })

  it('a name mapper maps the names of all objects: their keys, their channels, and in adopt', async () => {
    const nameMapper = { map: (name: string) => `app:${name}`, unmap: (key: string) => key.slice(4) }
    const client = await open({ config: single({}, { nameMapper }) })
    const lock = client.getLock('a')
    const hold = await lock.lock()
    assert.deepEqual(await fixture.server.admin.keys('*'), ['app:a'])
    assert.equal(hold.lockName, 'a')
    const waiting = client.getLock('a').lock()
    await waitUntil(async () => (await fixture.server.admin.exists('holdfast_turn_queue:{app:a}')) === 1)
    await hold.unlock()
    const next = await waiting
    const holder = await next.handOver()
    const adopted = await client.adopt(next.lockName, holder)
    const messages = await recordMessages(fixture)
    await adopted.unlock()
    assert.deepEqual(await messages(), [['redisson_lock__channel:{app:a}', '0']])
    await client
      .getReadWriteLock('b')
      .readLock()
      .withLock(async () => {
        assert((await fixture.server.admin.keys('*')).every((key) => /^(app:b|\{app:b\}:|holdfast_client:)/.test(key)))
      })
    await client.getSemaphore('c').trySetPermits(1)
    assert.equal(await fixture.server.admin.get('app:c'), '1')
    // A nested call for the same name has the same owner.
    await client.getLock('d').withLock(async () => {
      await client.getLock('d').withLock(async () => assert.deepEqual(await fixture.server.admin.hvals('app:d'), ['2']))
    })
    await fixture.server.admin.flushall()
  })

  it('a URL of a Unix socket is used, with user and password, also by the watchdog thread', async () => {
    const socket = join(dir, 'redis.sock')
    await using server = await startRedis({
      args: ['--unixsocket', socket, '--user', 'orders', 'on', '>hunter2', '~*', '&*', '+@all'],
    })
    for (const url of [`redis+uds://${socket}`, `valkey+uds://orders:hunter2@${socket}`]) {
      await using client = await connect({ url, watchdog: { thread: true } })
      const hold = await client.getLock('a').lock()
      const waiting = client.getLock('a').lock()
      await hold.unlock()
      await (await waiting).unlock()
    }
    assert.match(String(await server.admin.call('ACL', 'LOG')), /^$/)
    await assert.rejects(connect(`redis+uds://${socket}.not`), /ENOENT.*redis\.sock\.not/)
    await refusal({ url: `redis+uds://orders:hunter2x@${socket}` })
  })

  it('a URL of a Unix socket that is written otherwise is refused with the form to write', async () => {
    for (const url of [
      'unix:///run/redis.sock',
      '/run/redis.sock',
      'redis+unix:///run/redis.sock',
      'redis+uds://run',
    ]) {
      await assert.rejects(connect(url), { code: 'LOCK_CONFIG', path: 'url', message: /redis\+uds:\/\/.*\/path/ })
    }
    await assert.rejects(connect('redis+uds:///run/redis.sock?db=1'), {
      code: 'LOCK_CONFIG',
      message: /without parameters/,
    })
  })

  it('fairLockWaitTimeout of the configuration applies to the waiters of a fair lock', async () => {
    const client = await open({ config: single({}, { fairLockWaitTimeout: 40_000 }) })
    const hold = await client.getFairLock('a').lock()
    const waiting = client.getFairLock('a').lock()
    const deadlines = await waitUntil(async () => {
      const entries = await fixture.server.admin.zrange('redisson_lock_timeout:{a}', '0', '-1', 'WITHSCORES')
      return entries.length > 0 && entries
    })
    // The lease of the holder is added to it.
    const left = Number(deadlines[1]) - Date.now()
    assert(left > 40_000 && left <= 71_000, String(left))
    await hold.unlock()
    await (await waiting).unlock()
  })

  it('a credentials resolver is called for each connection', async () => {
    let password = 'hunter2'
    const mapped: string[] = []
    const client = await open({
      config: single({ clientName: CLIENT_NAME }),
      credentialsResolver: async ({ host, port }) => {
        mapped.push(`${host}:${port}`)
        return { username: 'orders', password }
      },
    })
    const hold = await client.getLock('a').lock()
    const waiting = client.getLock('a').lock()
    await listening(fixture)
    assert.deepEqual(mapped, Array(2).fill(`127.0.0.1:${fixture.server.port}`))

    password = 'rotated'
    await fixture.server.admin.call('ACL', 'SETUSER', 'orders', 'resetpass', '>rotated')
    await fixture.server.admin.call('CLIENT', 'KILL', 'USER', 'orders')
    await hold.unlock()
    await (await waiting).unlock()
    await fixture.server.admin.call('ACL', 'SETUSER', 'orders', 'resetpass', '>hunter2')
    assert(mapped.length >= 3)
  })

  it('with lazyInitialization or lazy, connect resolves without a Redis, and the first command connects', async () => {
    const config = single({}, { lazyInitialization: true })
    const ways: ConnectOptions[] = [
      { config },
      { config: single(), lazy: true },
      { url: fixture.server.url, lazy: true },
    ]
    for (const way of ways) {
      await fixture.server.kill()
      const client = await open(way)
      await fixture.server.restart()
      await client.getLock('a').withLock(async () => assert.deepEqual(await fixture.server.admin.keys('*'), ['a']))
    }
  })

  it('a lazy client fails its commands while there is no Redis, and works from when there is one', async () => {
    await fixture.server.kill()
    const client = await open({ url: fixture.server.url, lazy: true, commandTimeoutMs: 300 })
    await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN', message: /ECONNREFUSED/ })
    await fixture.server.restart()
    await waitUntil(() => client.withLock('a', () => true).catch(() => false))
  })

  it('lazy: false takes precedence over lazyInitialization, and lazy is refused where it cannot be', async () => {
    const nobody = { singleServerConfig: { address: 'redis://127.0.0.1:1' }, lazyInitialization: true }
    assert.match((await refusal({ config: nobody, lazy: false })).message, /ECONNREFUSED/)
    const { url } = fixture.server
    const impossible: ConnectOptions[] = [
      { client: fixture.server.admin, lazy: true },
      { url, lazy: true, watchdog: { thread: true } },
      { url, lazy: 'yes' as never },
    ]
    for (const options of impossible) await assert.rejects(connect(options), { code: 'LOCK_CONFIG', path: 'lazy' })
  })

  it('connect fails soon, without secrets, if Redis refuses it or cannot be reached', async () => {
    const wrong = await refusal({ config: single({ username: 'orders', password: 'hunter2!' }) })
    assert.match(wrong.message, /WRONGPASS/)
    const credentialsResolver = () => ({ username: 'orders', password: 'hunter2!' })
    assert.match((await refusal({ config: single(), credentialsResolver })).message, /WRONGPASS/)
    const failing = () => Promise.reject(new Error('the vault is closed'))
    assert.match((await refusal({ config: single(), credentialsResolver: failing })).message, /vault is closed/)
    const nobody = { singleServerConfig: { address: 'redis://:hunter2@127.0.0.1:1' } }
    assert.match((await refusal({ config: nobody })).message, /ECONNREFUSED/)
    assert.match((await refusal({ config: single({ database: 99 }) })).message, /out of range/)
  })

  it('connect names the addresses that do not reply', async () => {
    const { port } = fixture.server
    const address = `redis://127.0.0.1:${port}`
    const credentialsResolver = () => ({ password: '' })
    fixture.server.freeze()
    try {
      const silent = `127.0.0.1:${port}: no reply within 300 ms`
      assert.equal((await refusal({ config: single({ connectTimeout: 300 }) })).message, silent)
      assert.equal((await refusal({ config: single({ connectTimeout: 300 }), credentialsResolver })).message, silent)
      const clusterServersConfig = { nodeAddresses: [address], connectTimeout: 300 }
      assert.equal(
        (await refusal({ config: { clusterServersConfig } })).message,
        `cannot connect through 127.0.0.1:${port}: no reply in time`,
      )
      const replicatedServersConfig = { nodeAddresses: [address, 'redis://127.0.0.1:1'], connectTimeout: 300 }
      assert.match(
        (await refusal({ config: { replicatedServersConfig } })).message,
        new RegExp(`127.0.0.1:${port}, 127.0.0.1:1`),
      )
    } finally {
      fixture.server.thaw()
    }
  })

  describe('connect, with a configuration or without any,', () => {
    const { HOLDFAST_CONFIG, REDIS_URL } = process.env
    afterEach(() => {
      for (const [name, value] of Object.entries({ HOLDFAST_CONFIG, REDIS_URL })) {
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
      }
    })

    it('connect without arguments uses HOLDFAST_CONFIG, or else REDIS_URL', async () => {
      process.env['HOLDFAST_CONFIG'] = file(`singleServerConfig: {address: "${fixture.server.url}", database: 4}`)
      process.env['REDIS_URL'] = 'redis://127.0.0.1:1'
      const first = await connect()
      await first
        .getLock('a')
        .withLock(async () => assert.match(await fixture.server.admin.info('keyspace'), /db4:keys=1/))
      await first.close()
      delete process.env['HOLDFAST_CONFIG']
      process.env['REDIS_URL'] = `${fixture.server.url}/5`
      const second = await connect()
      await second
        .getLock('a')
        .withLock(async () => assert.match(await fixture.server.admin.info('keyspace'), /db5:keys=1/))
      await second.close()
    })
  })
})

describe('connect, with certificates in its configuration,', () => {
  let certificates: Certificates
  let tls: TlsRedis
  before(async () => {
    certificates = await makeCertificates({ names: ['DNS:redis.example'] })
    tls = await startTlsRedis(certificates, { clientCertificates: 'yes' })
  })
  after(async () => {
    await tls.stop()
    certificates.remove()
  })

  async function works(top: RedissonConfig): Promise<void> {
    await using client = await connect({ config: { singleServerConfig: { address: tls.url }, ...top } })
    await client.getLock('a').withLock(async () => assert.deepEqual(await tls.server.admin.keys('*'), ['a']))
  }

  it('a CA is trusted, a client certificate is sent, and CA_ONLY ignores the host name', async () => {
    const { caFile, client } = certificates
    const keystore = { sslKeystore: client.p12File, sslKeystorePassword: client.p12Password }
    await works({ sslTruststore: caFile, sslVerificationMode: 'CA_ONLY', ...keystore })
    await works({ sslVerificationMode: 'NONE', ...keystore })
    const { ca } = certificates
    await works({ tls: { ca, cert: client.cert, key: client.key, servername: 'redis.example' } })
  })

  it('certificates in code are in place of the Java stores of a file, with connect and with loadConfig', async () => {
    const { ca, client } = certificates
    const code = { tls: { ca, cert: client.cert, key: client.key, servername: 'redis.example' } }
    const stores = 'sslTruststore: "file:/nowhere/trust.jks"\nsslKeystore: "file:/nowhere/key.jks"\n'
    const text = `singleServerConfig: {address: "${tls.url}"}\n${stores}sslKeystorePassword: secret\n`
    await assert.rejects(loadConfig(text), /trust\.jks/)
    await works(await loadConfig(text, code))
    await using connected = await connect({ config: text, ...code })
    await connected.getLock('a').withLock(() => {})
    await assert.rejects(connect({ url: tls.url, ...code }), { path: 'tls' })
    const plain = { singleServerConfig: { address: 'redis://127.0.0.1:1' } }
    await assert.rejects(connect({ config: plain, ...code }), { path: 'tls', allowed: /rediss:/ })
  })

  it('connect fails if the certificate is for another host or untrusted, or the client certificate is missing', async () => {
    const { ca, client } = certificates
    const { cert, key } = client
    const config = (files: object): ConnectOptions => ({
      config: { singleServerConfig: { address: tls.url }, tls: files },
    })
    assert.match((await refusal(config({ ca, cert, key }))).message, /altnames/)
    assert.match((await refusal(config({ cert, key }))).message, /self-signed|unable to (get|verify)/)
    assert.match(
      (await refusal(config({ ca, servername: 'redis.example' }))).message,
      /alert|certificate|closed|ECONNRESET/,
    )
  })
})

describe('connect, with several servers of which one is the master,', () => {
  const args = ['--repl-diskless-sync-delay', '0']
  let servers: [RedisServer, RedisServer]
  let client: Client | undefined

  before(async () => {
    servers = await Promise.all([startRedis({ args }), startRedis({ args })])
  })
  beforeEach(async () => {
    await servers[1].admin.replicaof('NO', 'ONE')
    await follow(servers[0], servers[1])
  })
  afterEach(async () => {
    await client?.close()
    client = undefined
    for (const { admin } of servers) {
      await waitUntil(async () => !String(await admin.client('LIST')).includes(`name=${CLIENT_NAME}`))
    }
  })
  after(async () => {
    for (const server of servers) await server.stop()
  })

  async function follow(replica: RedisServer, master: RedisServer): Promise<void> {
    await replica.admin.replicaof('127.0.0.1', master.port)
    await waitUntil(async () => /master_link_status:up/.test(await replica.admin.info('replication')), {
      timeoutMs: 10_000,
    })
  }

  const shared = { clientName: CLIENT_NAME, connectTimeout: 5_000 }
  const ways: [name: string, config: () => RedissonConfig][] = [
    [
      'masterSlaveServersConfig',
      () => ({
        masterSlaveServersConfig: { ...shared, masterAddress: servers[0].url, slaveAddresses: [servers[1].url] },
        checkLockSyncedSlaves: false,
      }),
    ],
    [
      'replicatedServersConfig',
      () => ({
        replicatedServersConfig: { ...shared, nodeAddresses: ['redis://127.0.0.1:1', servers[0].url, servers[1].url] },
        checkLockSyncedSlaves: false,
      }),
    ],
  ]
  for (const [name, config] of ways) {
    it(`${name}: finds the master, whatever the order of the addresses`, async () => {
      client = await connect({ config: config() })
      const hold = await client.getLock('a').lock()
      assert.equal(await servers[1].admin.exists('a'), 1)
      await hold.unlock()
    })

    it(`${name}: after the master is demoted, holders and waiters find the next one`, async () => {
      client = await connect({ config: config() })
      const other = await connect({ config: config() })
      try {
        const hold = await client.getLock('a').lock()
        const waiting = other.getLock('a').lock()
        await waitUntil(async () => (await servers[1].admin.pubsub('CHANNELS')).length === 1)
        await waitUntil(async () => (await servers[0].admin.exists('a')) === 1)

        await servers[0].admin.replicaof('NO', 'ONE')
        await follow(servers[1], servers[0])
        hold.assertHeld()
        await hold.unlock()
        const next = await waiting
        assert.equal(await servers[0].admin.hlen('a'), 1)
        await next.unlock()
      } finally {
        await other.close()
      }
    })
  }

  it('after the master is gone, the client finds the next one', async () => {
    client = await connect({ config: (ways[0] as (typeof ways)[0])[1]() })
    await client.getLock('a').withLock(() => {})
    await servers[1].kill()
    await servers[0].admin.replicaof('NO', 'ONE')
    const hold = await client.getLock('a').lock()
    assert.equal(await servers[0].admin.exists('a'), 1)
    await hold.unlock()
    await servers[1].restart()
  })

  it('connect fails soon if none of the servers is a master, or all reject the password', async () => {
    const master = servers[0].url
    const config: RedissonConfig = { masterSlaveServersConfig: { ...shared, masterAddress: master } }
    assert.match((await refusal({ config })).message, /is not a master/)
    const wrong: RedissonConfig = {
      replicatedServersConfig: { ...shared, nodeAddresses: servers.map(({ url }) => url) },
      username: 'nobody',
      password: 'hunter2',
    }
    assert.match((await refusal({ config: wrong })).message, /WRONGPASS/)
    const nobody = { replicatedServersConfig: { nodeAddresses: ['redis://127.0.0.1:1', 'redis://127.0.0.1:2'] } }
    assert.match((await refusal({ config: nobody })).message, /ECONNREFUSED/)
  })
})
