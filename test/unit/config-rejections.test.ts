import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { after, before, it, describe as suite } from 'node:test'
import { pathToFileURL } from 'node:url'
import { describe } from '../../src/config/deployment.js'
import { loadConfig } from '../../src/config/load.js'
import { KEYS, type RedissonConfig } from '../../src/config/schema.js'
import { connect } from '../../src/index.js'
import { expectRejected, SECRET, singleServer } from '../support/rejected-config.js'

const SECTIONS = Object.keys(KEYS).filter((section) => section !== '')

/** A file with this value of a key. */
function textOf(section: string, key: string, value: string): string {
  const other = section === '' ? 'singleServerConfig:\n  address: redis://a:1\n' : ''
  return section === '' ? `${key}: ${value}\n${other}` : `${section}:\n  ${key}: ${value}\n`
}

/** Whether the value of this key is accepted, whatever else the configuration lacks. */
async function isAccepted(text: string, key: string): Promise<boolean> {
  const error = await loadConfig(text).then(
    () => undefined,
    ({ path }: { path?: string }) => path,
  )
  return error === undefined || !error.endsWith(key)
}

suite('a rejected configuration', () => {
  it('a value that has no text is refused by its path, whatever the key is for', () => {
    const none = { toString: false }
    for (const key of ['sentinelsDiscovery', 'retryInterval', 'readMode', 'masterName', 'database']) {
      const config = { sentinelServersConfig: { [key]: none } } as unknown as RedissonConfig
      assert.throws(() => describe(config), { code: 'LOCK_CONFIG' }, key)
    }
    const config = { ...singleServer({}), keepPubSubOrder: none } as unknown as RedissonConfig
    assert.throws(() => describe(config), { code: 'LOCK_CONFIG' })
  })

  it('an unknown key is rejected, with a suggestion', async () => {
    await expectRejected(singleServer({ adress: 'redis://a:1' }), {
      path: 'singleServerConfig.adress',
      allowed: /address/ as never,
    })
    await expectRejected(singleServer({ 'connect-timeout': 1 }), { allowed: /connectTimeout/ as never })
    await expectRejected(singleServer({}, { timeout: 1 }), { path: 'timeout', allowed: /singleServerConfig/ as never })
    await expectRejected(singleServer({ lockWatchdogTimeout: 1000 }), { allowed: /top/ as never })
    await expectRejected(singleServer({ nonsense: SECRET }), { allowed: "one of the keys of Redisson's configuration" })
    await expectRejected(singleServer({ constructor: 1 }), { path: 'singleServerConfig.constructor' })
  })

  it('an unknown section or a file of a framework is rejected, and the error says where to look', async () => {
    const at = (key: string, value: unknown = { address: 'redis://a:1' }) => ({ ...singleServer(), [key]: value })
    await expectRejected(at('clusterServerConfig'), {
      path: 'clusterServerConfig',
      allowed: /clusterServersConfig/ as never,
    })
    await expectRejected(at('single-server-config'), { allowed: /singleServerConfig/ as never })
    await expectRejected(at('singleserverconfig'), { allowed: /singleServerConfig/ as never })
    await expectRejected(at('singleServerConfig.address', 'redis://a:1'), { allowed: /singleServerConfig/ as never })
    await expectRejected(at('elasticacheServersConfig'), { allowed: /replicatedServersConfig/ as never })
    await expectRejected(at('spring', { redis: {} }), { allowed: /spring\.redis\.redisson\.config/ as never })
    await expectRejected(at('redisson', { threads: 1 }), { allowed: /below redisson at the top level/ as never })
    await expectRejected(at('quarkus.redisson.file', 'x'), { allowed: /below quarkus\.redisson/ as never })
    await expectRejected(at('x-common', { a: 1 }), { allowed: /a server section: .*replicatedServersConfig/ as never })
    const application = { server: { port: 8080 }, logging: 1, spring: { data: {} }, redisson: { config: 'x' } }
    await expectRejected(application, { path: 'redisson', allowed: /redisson\.config/ as never })
    for (const key of ['nonsense', 'x-common', 'spring']) {
      const { message } = (await loadConfig(JSON.stringify(at(key))).catch((error: Error) => error)) as Error
      assert.ok((message.match(/,/g)?.length ?? 0) < 10, message)
    }
  })

  // biome-ignore-start lint/suspicious/noTemplateCurlyInString: variables of a configuration
  it('a variable without a value is rejected in what is used, and named without what may be a secret', async () => {
    const rejected = async (line: string) =>
      String(await loadConfig(`singleServerConfig:\n  address: "redis://a:1"\n  ${line}\n`, { env: {} }).catch(String))
    assert.match(
      await rejected('password: ${PW}'),
      /singleServerConfig\.password: expected the environment variable PW/,
    )
    assert.match(await rejected('password: ${PW}'), /or a default: \$\{PW:-default\}/)
    assert.match(await rejected("password: '${PW:-}'"), /the environment variable PW to be set/)
    const spring = await rejected(`password: \${PW:${SECRET}}`)
    assert.match(spring, /expected \$\{PW:-default\}, with :- before the default/)
    assert.ok(!spring.includes(SECRET))
    assert.match(await rejected('timeout: ${T}'), /timeout: expected the environment variable T/)
    assert.match(await rejected('natMapper: ${N}'), /natMapper/)
    const list = 'clusterServersConfig:\n  nodeAddresses: [${NODES}, "redis://${redis-host}:1"]\n'
    await assert.rejects(loadConfig(list, { env: {} }), /nodeAddresses\[0\]: expected the environment variable NODES/)
    await assert.rejects(loadConfig(list, { env: { NODES: 'redis://a:1' } }), /variable redis-host to be set/)
  })

  // biome-ignore-end lint/suspicious/noTemplateCurlyInString: as above

  it('a value that Java takes in another form is accepted', async () => {
    for (const keepAlive of ['True', 'yes', 'on', 'TRUE', true]) {
      assert.equal(describe(singleServer({ keepAlive }) as RedissonConfig).keepAliveMs, 0)
    }
    assert.equal(describe(singleServer({ keepAlive: 'Off' }) as RedissonConfig).keepAliveMs, undefined)
    const empty = describe(singleServer({ username: '', clientName: '' }) as RedissonConfig)
    assert.deepEqual([empty.username, empty.clientName], [undefined, undefined])
    assert.equal(describe({ singleServerConfig: { address: 'redis://a:1/0' } }).addresses[0]?.port, 1)
    await expectRejected({ singleServerConfig: { address: 'redis://a:1/3' } }, { allowed: /set database: 3/ as never })
    for (const timeout of [0, -1, '0']) {
      const { options, ignored, connectTimeoutMs } = describe(
        singleServer({ timeout, connectTimeout: timeout }) as RedissonConfig,
      )
      assert.deepEqual([options.commandTimeoutMs, connectTimeoutMs, ignored.length], [undefined, 10_000, 2])
    }
    for (const address of [['redis://a:1'], ' redis://a:1 ']) {
      assert.equal(describe({ singleServerConfig: { address } } as unknown as RedissonConfig).addresses[0]?.port, 1)
    }
    assert.equal(describe(singleServer({ timeout: '+3000' }) as RedissonConfig).options.commandTimeoutMs, 3_000)
    const zero = { idleConnectionTimeout: -1, subscriptionsPerConnection: 0, subscriptionConnectionPoolSize: 1 }
    assert.equal(describe(singleServer(zero) as RedissonConfig).ignored.length, 3)
    assert.equal(describe(singleServer({ pingConnectionInterval: -1 }) as RedissonConfig).pingIntervalMs, 0)
    assert.equal(describe(singleServer({ retryAttempts: 2 ** 31 - 1 }) as RedissonConfig).retryAttempts, 1_000)
  })

  it('a key that Redisson removed is ignored with a notice, and one with its default without', () => {
    const { ignored } = describe(
      singleServer(
        { pingTimeout: 1_000, connectionPoolSize: 64, connectionMinimumIdleSize: '24' },
        { useLinuxNativeEpoll: false, threads: 16, codec: { class: 'org.redisson.codec.Kryo5Codec' } },
      ) as RedissonConfig,
    )
    assert.deepEqual(
      ignored.map(({ path, reason }) => [path, /removed it before 3\.12/.test(reason)]),
      [
        ['useLinuxNativeEpoll', true],
        ['singleServerConfig.pingTimeout', true],
      ],
    )
  })

  it('a value of the wrong type or out of range is rejected', async () => {
    await expectRejected(singleServer({ timeout: 'soon' }), { path: 'singleServerConfig.timeout', value: 'soon' })
    await expectRejected(singleServer({ timeout: -2 }), { value: -2, allowed: /whole number from 1/ as never })
    await expectRejected(singleServer({ retryAttempts: 1.5 }), { value: 1.5 })
    await expectRejected(singleServer({}, { lockWatchdogTimeout: 1 }), { path: 'lockWatchdogTimeout', value: 1 })
    await expectRejected(singleServer({}, { checkLockSyncedSlaves: 'y' }), { value: 'y', allowed: 'true or false' })
    await expectRejected(singleServer({}, { protocol: 'resp3' }), { value: 'resp3', allowed: 'RESP2 or RESP3' })
    await expectRejected(singleServer({}, { sslVerificationMode: 'LAX' }), { allowed: 'STRICT or CA_ONLY or NONE' })
    await expectRejected(singleServer({}, { password: { is: SECRET } }), { path: 'password', value: undefined })
    await expectRejected({ clusterServersConfig: { nodeAddresses: ['redis://a:1'], database: -1 } }, { value: -1 })
    for (const scanInterval of [0, -5]) {
      await expectRejected(
        { clusterServersConfig: { nodeAddresses: ['redis://a:1'], scanInterval } },
        { value: scanInterval },
      )
    }
    await expectRejected({ singleServerConfig: 'redis://a:1' }, { path: 'singleServerConfig' })
    await expectRejected('- a\n- b', { allowed: /mapping/ as never })
  })

  it('a number that Java, which shares the file, reads as another one is rejected, whatever its key', async () => {
    const numbers = ['010', '0755', '-010', '+010', '00', '007', '0x10', '0o10', '0b10', '1_000', '1:30']
    let keysTried = 0
    for (const [section, keys] of Object.entries(KEYS)) {
      for (const key of Object.keys(keys)) {
        const isNumber =
          (await isAccepted(textOf(section, key, '1'), key)) && !(await isAccepted(textOf(section, key, 'one'), key))
        if (!isNumber) continue
        keysTried++
        const path = section === '' ? key : `${section}.${key}`
        for (const value of numbers)
          await expectRejected(textOf(section, key, value), { path, value, allowed: /Java/ as never })
      }
    }
    assert(keysTried > 50, `${keysTried} keys`)
    const { database } = describe(
      await loadConfig(`${textOf('singleServerConfig', 'database', '10')}  address: redis://a:1\n`),
    )
    assert.equal(database, 10)
  })

  it('an invalid or missing address is rejected, and one without a port', async () => {
    const at = 'singleServerConfig.address'
    await expectRejected(singleServer({ address: 'redis://a' }), {
      path: at,
      value: 'redis://a',
      allowed: /port is mandatory/ as never,
    })
    await expectRejected(singleServer({ address: '127.0.0.1:6379' }), { path: at })
    await expectRejected(singleServer({ address: `http://:${SECRET}@a:1` }), { path: at, value: '…@a:1' })
    await expectRejected(singleServer({ address: 'redis://a:70000' }), { path: at })
    await expectRejected(singleServer({ address: 'redis://a:6379/3' }), { path: at })
    await expectRejected(singleServer({ address: `redis://:${SECRET}%@a:1` }), { path: at, allowed: /%25/ as never })
    await expectRejected({ singleServerConfig: {} }, { path: at })
    await expectRejected(
      { clusterServersConfig: { nodeAddresses: ['redis://a:1', 'redis://b'] } },
      {
        path: 'clusterServersConfig.nodeAddresses[1]',
        value: 'redis://b',
      },
    )
    await expectRejected(
      { clusterServersConfig: { nodeAddresses: [] } },
      { path: 'clusterServersConfig.nodeAddresses' },
    )
    await expectRejected({ clusterServersConfig: { nodeAddresses: 'redis://a:1' } }, { allowed: 'a list' })
    await expectRejected(
      { clusterServersConfig: { nodeAddresses: ['redis://a:1', 'rediss://b:1'] } },
      { allowed: /all/ as never },
    )
    await expectRejected(
      { sentinelServersConfig: { sentinelAddresses: ['redis://a:1'] } },
      {
        path: 'sentinelServersConfig.masterName',
      },
    )
    await expectRejected(
      { replicatedServersConfig: { nodeAddresses: ['redis+uds:///x'] } },
      { allowed: /socket/ as never },
    )
    assert.equal(
      describe(singleServer({ address: 'redis+uds:///run/redis.sock' }) as RedissonConfig).addresses[0]?.socket,
      '/run/redis.sock',
    )
  })

  it('a configuration without servers is rejected', async () => {
    await expectRejected({ threads: 1 }, { path: 'config', allowed: new RegExp(SECTIONS.join('.*')) as never })
    await expectRejected({ singleServerConfig: null }, { path: 'config' })
  })

  it('a pool smaller than its minimum idle size is rejected', async () => {
    await expectRejected(singleServer({ connectionPoolSize: 10 }), {
      path: 'singleServerConfig.connectionPoolSize',
      value: 10,
      allowed: 'at least connectionMinimumIdleSize (24)',
    })
    await expectRejected(singleServer({ subscriptionConnectionMinimumIdleSize: 51 }), { value: 50 })
    describe(singleServer({ connectionPoolSize: 10, connectionMinimumIdleSize: 5 }) as RedissonConfig)
  })

  it('a Java class in place of a function is rejected, with advice how to pass the function', async () => {
    const text = (key: string): string =>
      `${JSON.stringify(singleServer()).slice(0, -1)}, "${key}": {"class": "com.acme.Mine"}}`
    const value = 'com.acme.Mine'
    await expectRejected(text('nameMapper'), {
      path: 'nameMapper',
      value,
      allowed: /connect\(\{ config, nameMapper/ as never,
    })
    await expectRejected(text('credentialsResolver'), {
      value,
      allowed: /connect\(\{ config, credentialsResolver/ as never,
    })
    await expectRejected(text('commandMapper'), { path: 'commandMapper', value })
    await expectRejected(text('sslTrustManagerFactory'), { value, allowed: /tls\.ca/ as never })
    await expectRejected(singleServer({ retryDelay: { class: 'com.acme.Mine' } }), {
      path: 'singleServerConfig.retryDelay',
      value,
      allowed: /EqualJitterDelay/ as never,
    })
    await expectRejected(
      { clusterServersConfig: { nodeAddresses: ['redis://a:1'], natMapper: { class: value } } },
      {
        path: 'clusterServersConfig.natMapper',
        value,
      },
    )
    const nameMapper = { map: (name: string) => name, unmap: (name: string) => name }
    const file = 'singleServerConfig:\n  address: "redis://a:1"\n  nameMapper: !<com.acme.Mine> {}\n'
    await expectRejected(file, { path: 'singleServerConfig.nameMapper', value })
    assert.equal(describe(await loadConfig(file, { nameMapper })).options.nameMapper, nameMapper)
  })

  it('a delay that cannot work is rejected', async () => {
    const delay = (parameters: string): string =>
      `singleServerConfig: {address: "redis://a:1", retryDelay: !<org.redisson.config.EqualJitterDelay> {${parameters}}}`
    await expectRejected(delay('baseDelay: 1 s'), {
      path: 'singleServerConfig.retryDelay.baseDelay',
      value: '1 s',
      allowed: /PT1S/ as never,
    })
    await expectRejected(delay('baseDelay: PT3S, maxDelay: PT2S'), { path: 'singleServerConfig.retryDelay.maxDelay' })
    await expectRejected(delay('delay: PT1S'), { path: 'singleServerConfig.retryDelay.delay' })
    const { retryDelay } = describe(await loadConfig(delay('baseDelay: P1DT1H1M0.5S, maxDelay: P2D')))
    assert(retryDelay(0) <= 90_060_500 && retryDelay(0) >= 45_030_250)
  })

  it('a file that cannot be read or parsed is rejected without being quoted', async () => {
    await expectRejected('/nowhere/redisson.yaml', {
      path: 'config',
      value: '/nowhere/redisson.yaml',
      allowed: /path of a file/ as never,
    })
    await expectRejected(`password: ${SECRET}\n  singleServerConfig: [`, { allowed: /YAML: \w+ at line \d/ as never })
    await expectRejected(`password: ${SECRET}\npassword: ${SECRET}`, { allowed: /DUPLICATE_KEY at line 2/ as never })
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-config-'))
    try {
      const file = join(dir, 'redisson.json')
      writeFileSync(file, `{"password": "${SECRET}" oops`)
      await expectRejected(file, { path: file, allowed: /JSON/ as never })
    } finally {
      rmSync(dir, { recursive: true })
    }
  })

  it('connect rejects a configuration before it opens anything', async () => {
    await assert.rejects(connect({ config: { singleServerConfig: { address: 'redis://a' } } }), {
      path: 'singleServerConfig.address',
    })
    await assert.rejects(connect({ config: singleServer() as RedissonConfig, url: 'redis://127.0.0.1:1' }), {
      path: 'connect',
    })
    await assert.rejects(connect({ url: 'redis://127.0.0.1:1', credentialsResolver: () => ({}) }), {
      path: 'credentialsResolver',
    })
    await assert.rejects(connect({ url: 'redis://127.0.0.1:1', nameMapper: {} as never }), { path: 'nameMapper' })
    await assert.rejects(connect({ url: 'redis://127.0.0.1:1', lockWatchdogBatchSize: 0 }), {
      path: 'lockWatchdogBatchSize',
    })
  })
})

suite('certificates', () => {
  let dir: string
  const tls = (keys: object): object => ({ singleServerConfig: { address: 'rediss://a:1' }, ...keys })

  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'holdfast-config-'))
    writeFileSync(join(dir, 'store.jks'), Buffer.from('feedfeed00000002', 'hex'))
    writeFileSync(join(dir, 'ca.pem'), '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n')
  })
  after(() => rmSync(dir, { recursive: true }))

  it('certificates are read from a PEM file by path or URL, or given in code', () => {
    const file = join(dir, 'ca.pem')
    for (const sslTruststore of [file, pathToFileURL(file).href, `file:${file}`]) {
      assert.match(String(describe(tls({ sslTruststore }) as RedissonConfig).tls?.ca), /BEGIN CERTIFICATE/)
    }
    const fromHere = `file:./${relative(process.cwd(), file)}`
    assert.match(String(describe(tls({ sslTruststore: fromHere }) as RedissonConfig).tls?.ca), /BEGIN CERTIFICATE/)
    const { tls: options } = describe(tls({ tls: { servername: 'redis.example' } }) as RedissonConfig)
    assert.equal(options?.servername, 'redis.example')
  })

  it('a Java key store is rejected with the command that converts it', async () => {
    const file = join(dir, 'store.jks')
    await expectRejected(tls({ sslTruststore: file }), {
      path: 'sslTruststore',
      value: file,
      allowed: /keytool .*PEM|PEM.*keytool/ as never,
    })
    await expectRejected(tls({ sslKeystore: file, sslKeystorePassword: SECRET }), {
      path: 'sslKeystore',
      allowed: /PKCS12/ as never,
    })
    await expectRejected(
      { singleServerConfig: { address: 'rediss://a:1', sslKeystore: file } },
      { path: 'singleServerConfig.sslKeystore' },
    )
    await expectRejected(tls({ sslTruststore: join(dir, 'nowhere') }), {
      path: 'sslTruststore',
      allowed: /can be read/ as never,
    })
    await expectRejected(tls({ tls: { ca_: 'x' } }), { path: 'tls.ca_' })
    await expectRejected(tls({ sslCiphers: ['ROT13'] }), { path: 'sslCiphers' })
  })

  it('certificates are verified as sslVerificationMode says, or sslEnableEndpointIdentification of 3.x', () => {
    const mode = (top: object, server: object = {}) =>
      describe({ singleServerConfig: { address: 'rediss://a:1', ...server }, ...top } as RedissonConfig).tls
    assert.equal(mode({})?.rejectUnauthorized, undefined)
    assert.equal(mode({})?.checkServerIdentity, undefined)
    assert.equal(mode({ sslVerificationMode: 'NONE' })?.rejectUnauthorized, false)
    assert.equal(typeof mode({ sslVerificationMode: 'CA_ONLY' })?.checkServerIdentity, 'function')
    assert.equal(mode({}, { sslEnableEndpointIdentification: false })?.rejectUnauthorized, false)
    assert.deepEqual(
      [mode({ sslProtocols: ['TLSv1.3', 'TLSv1.2'] })].map((options) => [options?.minVersion, options?.maxVersion]),
      [['TLSv1.2', 'TLSv1.3']],
    )
  })
})
