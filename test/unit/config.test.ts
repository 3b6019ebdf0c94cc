import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, it, describe as suite } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Deployment, describe } from '../../src/config/deployment.js'
import { loadConfig } from '../../src/config/load.js'
import { KEYS, type RedissonConfig } from '../../src/config/schema.js'
import { type ConfigError, connect } from '../../src/index.js'

const ROOT = rootOf(dirname(fileURLToPath(import.meta.url)))
const FIXTURES = join(ROOT, 'test/fixtures/config')
const FILES = readdirSync(FIXTURES).sort()
const SECTIONS = Object.keys(KEYS).filter((section) => section !== '')

function rootOf(dir: string): string {
  return existsSync(join(dir, 'package.json')) ? dir : rootOf(dirname(dir))
}

async function open(file: string, env: Record<string, string> = {}): Promise<Deployment> {
  return describe(await loadConfig(join(FIXTURES, file), { env }))
}

/** What must not be in any message. */
const SECRET = 'hunter2'

async function refused(source: RedissonConfig | string | object, expected: Partial<ConfigError>): Promise<void> {
  const error = await Promise.resolve()
    .then(async () =>
      describe(typeof source === 'string' ? await loadConfig(source, { env: {} }) : (source as RedissonConfig)),
    )
    .then(
      () => assert.fail(`accepted: ${JSON.stringify(source)}`),
      (error: ConfigError) => error,
    )
  assert.equal(error.code, 'LOCK_CONFIG', error.stack)
  for (const [key, value] of Object.entries(expected)) {
    const found = error[key as keyof ConfigError]
    if (value instanceof RegExp) assert.match(String(found), value)
    else assert.deepEqual(found, value, error.message)
  }
  assert(!JSON.stringify([error.message, error.stack, String(error.cause), { ...error }]).includes(SECRET))
}

function single(keys: object = {}, top: object = {}): object {
  return { singleServerConfig: { address: 'redis://127.0.0.1:6379', ...keys }, ...top }
}

suite('a file of Redisson', () => {
  for (const file of FILES) {
    it(`${file} is accepted unchanged`, async () => {
      const { mode, addresses } = await open(file)
      assert.equal(
        mode,
        { single: 'single', 'master-slave': 'masterSlave' }[file.replace(/-\d.*/, '')] ?? file.replace(/-\d.*/, ''),
      )
      assert(addresses.length > 0)
    })
  }

  it('may have every key: the files of this test have them all', () => {
    const texts = FILES.map((file) => readFileSync(join(FIXTURES, file), 'utf8'))
    const all = texts.join('\n')
    const missing = Object.entries(KEYS).flatMap(([section, keys]) => {
      const where = section === '' ? all : texts.filter((text) => text.includes(section)).join('\n')
      // Those of 3.x are the same in every section; ours is in no file.
      const shared = Object.keys(KEYS['singleServerConfig'] ?? {}).filter(
        (key) => section !== '' && key in (KEYS['replicatedServersConfig'] ?? {}),
      )
      return Object.keys(keys).filter(
        (key) => key !== 'tls' && !new RegExp(`\\b${key}"?:`).test(shared.includes(key) ? all : where),
      )
    })
    assert.deepEqual(missing, [])
  })

  it('of 4.x means what it says', async () => {
    const env = { REDIS_HOST: 'redis.example', REDIS_PASSWORD: 's3cret' }
    const deployment = await open('single-4.yaml', env)
    assert.deepEqual(deployment.addresses, [{ host: 'redis.example', port: 6379, isTls: false }])
    assert.deepEqual([deployment.username, deployment.password, deployment.database], ['orders', 's3cret', 2])
    assert.equal(deployment.clientName, 'orders')
    assert.equal(deployment.protocol, 3)
    assert.equal(deployment.connectTimeoutMs, 2000)
    assert.equal(deployment.retryAttempts, 3)
    assert.equal(deployment.keepAliveMs, 60_000)
    assert.deepEqual(deployment.options, {
      lockWatchdogTimeoutMs: 20_000,
      lockWatchdogBatchSize: 50,
      fairLockWaitTimeoutMs: 60_000,
      checkLockSyncedSlaves: false,
      slavesSyncTimeoutMs: 500,
      commandTimeoutMs: 1500,
    })
    for (const attempt of [0, 1, 5, 1_000]) {
      const [delay, back] = [deployment.retryDelay(attempt), deployment.reconnectionDelay(attempt)]
      assert(delay >= 500 && delay <= 2_000, String(delay))
      assert(back >= 0 && back <= 10_000, String(back))
    }
  })

  it('of 3.x has user, password, TLS and the like in the section of the servers', async () => {
    const deployment = await open('single-3.yaml')
    // Text, as it stands there, although YAML would see a number.
    assert.deepEqual([deployment.username, deployment.password], ['orders', '0123'])
    assert.equal(deployment.retryDelay(7), 1500)
    assert.equal(deployment.keepAliveMs, undefined)
    assert.equal(deployment.isNoDelay, false)
    assert.equal(deployment.tls, undefined)
  })

  it('has defaults of Redisson', async () => {
    const deployment = await loadConfig('singleServerConfig: {address: "redis://a:1"}').then(describe)
    assert.equal(deployment.connectTimeoutMs, 10_000)
    assert.equal(deployment.retryAttempts, 4)
    assert.equal(deployment.database, 0)
    assert.equal(deployment.keepAliveMs, 0)
    assert.equal(deployment.pingIntervalMs, 30_000)
    assert.deepEqual(deployment.options, {})
    const retry = deployment.retryDelay(3)
    assert(retry >= 1_000 && retry <= 2_000)
    assert.equal((await open('cluster-4.yaml')).scanIntervalMs, 5_000)
    assert.equal((await open('sentinel-4.yaml')).scanIntervalMs, 1_000)
    assert.equal((await open('replicated-4.yaml')).options.checkLockSyncedSlaves, true)
  })

  it('names Sentinels, with a password of their own, and the addresses that they tell are mapped', async () => {
    const old = await open('sentinel-3.yaml')
    assert.deepEqual(old.sentinel, {
      masterName: 'mymaster',
      username: 'watcher',
      password: 'hunter3',
      isDiscovering: false,
    })
    assert.equal(old.password, SECRET)
    assert.deepEqual(old.natMap?.('10.0.0.1:6379'), { host: '203.0.113.1', port: 6379 })
    assert.equal(old.natMap?.('10.0.0.2:6379'), null)
    const json = await open('sentinel-3.json')
    assert.deepEqual(json.natMap?.('10.0.0.1:6379'), { host: '203.0.113.1', port: 7000 })
    const { addresses, sentinel, password, tls } = await open('sentinel-4.yaml')
    assert.deepEqual(addresses, [{ host: '::1', port: 26379, isTls: true, password: 'hunter3' }])
    assert.deepEqual([sentinel.password, password], ['hunter3', SECRET])
    assert.equal(tls?.checkServerIdentity?.('any', {} as never), undefined)
  })

  it('names servers of which one is the master, by IPv6, too', async () => {
    const { addresses } = await open('master-slave-4.yaml')
    assert.deepEqual(addresses[0], {
      host: '10.0.0.1',
      port: 6379,
      isTls: false,
      username: 'orders',
      password: 'pa ss',
    })
    assert.deepEqual(
      (await open('replicated-4.yaml')).addresses.map(({ host, port }) => [host, port]),
      [
        ['2001:db8::1', 6379],
        ['2001:db8::2', 6379],
      ],
    )
  })

  it('is text or a URL as well as a path', async () => {
    const url = pathToFileURL(join(FIXTURES, 'cluster-4.yaml'))
    assert.equal(describe(await loadConfig(url)).mode, 'cluster')
    assert.equal(describe(await loadConfig(readFileSync(url, 'utf8'))).mode, 'cluster')
    assert.equal(describe(await loadConfig('{"singleServerConfig": {"address": "redis://a:1"}}')).mode, 'single')
    assert.equal(describe(await loadConfig('{singleServerConfig: {address: "redis://a:1"}}')).mode, 'single')
  })

  it('has variables: the environment, a default, or as it stands', async () => {
    const text = `singleServerConfig: {address: "redis://\${A}:\${B:-2}", clientName: "\${NOBODY}-\${C:-x:-y}"}`
    const { addresses, clientName } = describe(await loadConfig(text, { env: { A: 'a', C: '' } }))
    assert.deepEqual(addresses, [{ host: 'a', port: 2, isTls: false }])
    assert.equal(clientName, `\${NOBODY}-`)
  })

  it('takes the first of several sections of servers, in the order of Redisson, and says which it leaves', async () => {
    const { mode, ignored } = describe({
      singleServerConfig: { address: 'redis://a:1' },
      masterSlaveServersConfig: { masterAddress: 'redis://a:1' },
      clusterServersConfig: { nodeAddresses: ['redis://a:1'] },
    })
    assert.equal(mode, 'masterSlave')
    assert.deepEqual(
      ignored.map(({ path }) => path),
      ['singleServerConfig', 'clusterServersConfig'],
    )
  })

  it('takes the top before the section', () => {
    const { password, keepAliveMs } = describe(
      single({ password: 'old', keepAlive: false }, { password: 'new', tcpKeepAlive: true }) as RedissonConfig,
    )
    assert.deepEqual([password, keepAliveMs], ['new', 0])
  })

  it('has keys that mean nothing here: each is told with its path and the reason', async () => {
    const { ignored } = await open('single-4.yaml')
    const paths = ignored.map(({ path }) => path)
    for (const path of ['singleServerConfig.connectionPoolSize', 'threads', 'codec', 'transportMode'])
      assert(paths.includes(path), path)
    for (const path of ['lockWatchdogTimeout', 'password', 'singleServerConfig.timeout'])
      assert(!paths.includes(path), path)
    assert(ignored.every(({ reason }) => reason.length > 10))
    // What is not there is not told of.
    assert(!paths.includes('executor'))
  })
})

suite('a configuration is refused, with path, value and what is allowed,', () => {
  it('if a key does not exist, with what may have been meant', async () => {
    await refused(single({ adress: 'redis://a:1' }), { path: 'singleServerConfig.adress', allowed: /address/ as never })
    await refused(single({ 'connect-timeout': 1 }), { allowed: /connectTimeout/ as never })
    await refused(single({}, { timeout: 1 }), { path: 'timeout', allowed: /singleServerConfig/ as never })
    await refused(single({ lockWatchdogTimeout: 1000 }), { allowed: /top/ as never })
    await refused(single({ nonsense: SECRET }), { allowed: /one of the keys .*retryAttempts/ as never })
    await refused(single({ constructor: 1 }), { path: 'singleServerConfig.constructor' })
  })

  it('if a value is of the wrong kind or out of range', async () => {
    await refused(single({ timeout: 'soon' }), { path: 'singleServerConfig.timeout', value: 'soon' })
    await refused(single({ timeout: -1 }), { value: -1, allowed: /whole number from 1/ as never })
    await refused(single({ retryAttempts: 1.5 }), { value: 1.5 })
    await refused(single({}, { lockWatchdogTimeout: 1 }), { path: 'lockWatchdogTimeout', value: 1 })
    await refused(single({}, { checkLockSyncedSlaves: 'yes' }), { value: 'yes', allowed: 'true or false' })
    await refused(single({}, { protocol: 'resp3' }), { value: 'resp3', allowed: 'RESP2 or RESP3' })
    await refused(single({}, { sslVerificationMode: 'LAX' }), { allowed: 'STRICT or CA_ONLY or NONE' })
    await refused(single({}, { password: { is: SECRET } }), { path: 'password', value: undefined })
    await refused({ clusterServersConfig: { nodeAddresses: ['redis://a:1'], database: 1 } }, { value: 1 })
    for (const scanInterval of [0, -5]) {
      await refused({ clusterServersConfig: { nodeAddresses: ['redis://a:1'], scanInterval } }, { value: scanInterval })
    }
    await refused({ singleServerConfig: 'redis://a:1' }, { path: 'singleServerConfig' })
    await refused('- a\n- b', { allowed: /mapping/ as never })
  })

  it('if an address is none, has no port, or is missing', async () => {
    const at = 'singleServerConfig.address'
    await refused(single({ address: 'redis://a' }), {
      path: at,
      value: 'redis://a',
      allowed: /port is mandatory/ as never,
    })
    await refused(single({ address: '127.0.0.1:6379' }), { path: at })
    await refused(single({ address: `http://:${SECRET}@a:1` }), { path: at, value: '…@a:1' })
    await refused(single({ address: 'redis://a:70000' }), { path: at })
    await refused(single({ address: 'redis://a:6379/3' }), { path: at })
    await refused(single({ address: `redis://:${SECRET}%@a:1` }), { path: at, allowed: /%25/ as never })
    await refused({ singleServerConfig: {} }, { path: at })
    await refused(
      { clusterServersConfig: { nodeAddresses: ['redis://a:1', 'redis://b'] } },
      {
        path: 'clusterServersConfig.nodeAddresses[1]',
        value: 'redis://b',
      },
    )
    await refused({ clusterServersConfig: { nodeAddresses: [] } }, { path: 'clusterServersConfig.nodeAddresses' })
    await refused({ clusterServersConfig: { nodeAddresses: 'redis://a:1' } }, { allowed: 'a list' })
    await refused(
      { clusterServersConfig: { nodeAddresses: ['redis://a:1', 'rediss://b:1'] } },
      { allowed: /all/ as never },
    )
    await refused(
      { sentinelServersConfig: { sentinelAddresses: ['redis://a:1'] } },
      {
        path: 'sentinelServersConfig.masterName',
      },
    )
    await refused({ replicatedServersConfig: { nodeAddresses: ['redis+uds:///x'] } }, { allowed: /socket/ as never })
    assert.equal(
      describe(single({ address: 'redis+uds:///run/redis.sock' }) as RedissonConfig).addresses[0]?.socket,
      '/run/redis.sock',
    )
  })

  it('if there are no servers', async () => {
    await refused({ threads: 1 }, { path: 'config', allowed: new RegExp(SECTIONS.join('.*')) as never })
    await refused({ singleServerConfig: null }, { path: 'config' })
  })

  it('if a pool is smaller than what is to idle in it', async () => {
    await refused(single({ connectionPoolSize: 10 }), {
      path: 'singleServerConfig.connectionPoolSize',
      value: 10,
      allowed: 'at least connectionMinimumIdleSize (24)',
    })
    await refused(single({ subscriptionConnectionMinimumIdleSize: 51 }), { value: 50 })
    describe(single({ connectionPoolSize: 10, connectionMinimumIdleSize: 5 }) as RedissonConfig)
  })

  it('if a class of Java stands for what we need a function for, with how to give it', async () => {
    const text = (key: string): string =>
      `${JSON.stringify(single()).slice(0, -1)}, "${key}": {"class": "com.acme.Mine"}}`
    const value = 'com.acme.Mine'
    await refused(text('nameMapper'), { path: 'nameMapper', value, allowed: /connect\(\{ config, nameMapper/ as never })
    await refused(text('credentialsResolver'), { value, allowed: /connect\(\{ config, credentialsResolver/ as never })
    await refused(text('commandMapper'), { path: 'commandMapper', value })
    await refused(text('sslTrustManagerFactory'), { value, allowed: /tls\.ca/ as never })
    await refused(single({ retryDelay: { class: 'com.acme.Mine' } }), {
      path: 'singleServerConfig.retryDelay',
      value,
      allowed: /EqualJitterDelay/ as never,
    })
    await refused(
      { clusterServersConfig: { nodeAddresses: ['redis://a:1'], natMapper: { class: value } } },
      {
        path: 'clusterServersConfig.natMapper',
        value,
      },
    )
    const nameMapper = { map: (name: string) => name, unmap: (name: string) => name }
    const file = 'singleServerConfig:\n  address: "redis://a:1"\n  nameMapper: !<com.acme.Mine> {}\n'
    await refused(file, { path: 'singleServerConfig.nameMapper', value })
    assert.equal(describe(await loadConfig(file, { nameMapper })).options.nameMapper, nameMapper)
  })

  it('if a delay cannot work', async () => {
    const delay = (parameters: string): string =>
      `singleServerConfig: {address: "redis://a:1", retryDelay: !<org.redisson.config.EqualJitterDelay> {${parameters}}}`
    await refused(delay('baseDelay: 1 s'), {
      path: 'singleServerConfig.retryDelay.baseDelay',
      value: '1 s',
      allowed: /PT1S/ as never,
    })
    await refused(delay('baseDelay: PT3S, maxDelay: PT2S'), { path: 'singleServerConfig.retryDelay.maxDelay' })
    await refused(delay('delay: PT1S'), { path: 'singleServerConfig.retryDelay.delay' })
    const { retryDelay } = describe(await loadConfig(delay('baseDelay: P1DT1H1M0.5S, maxDelay: P2D')))
    assert(retryDelay(0) <= 90_060_500 && retryDelay(0) >= 45_030_250)
  })

  it('if the file cannot be read or parsed, without quoting it', async () => {
    await refused('/nowhere/redisson.yaml', {
      path: 'config',
      value: '/nowhere/redisson.yaml',
      allowed: /path of a file/ as never,
    })
    await refused(`password: ${SECRET}\n  singleServerConfig: [`, { allowed: /YAML: \w+ at line \d/ as never })
    await refused(`password: ${SECRET}\npassword: ${SECRET}`, { allowed: /DUPLICATE_KEY at line 2/ as never })
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-config-'))
    try {
      const file = join(dir, 'redisson.json')
      writeFileSync(file, `{"password": "${SECRET}" oops`)
      await refused(file, { path: file, allowed: /JSON/ as never })
    } finally {
      rmSync(dir, { recursive: true })
    }
  })

  it('by connect as well, before anything is opened', async () => {
    await assert.rejects(connect({ config: { singleServerConfig: { address: 'redis://a' } } }), {
      path: 'singleServerConfig.address',
    })
    await assert.rejects(connect({ config: single() as RedissonConfig, url: 'redis://127.0.0.1:1' }), {
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

suite('a hostile file', () => {
  const address = 'singleServerConfig: {address: "redis://a:1"}\n'
  const anchors = (count: number): string =>
    Array.from({ length: count }, (_, at) => `k${at}: &a${at} x\nl${at}: *a${at}\n`).join('')

  for (const [what, text, allowed] of [
    ['an alias to itself', `${address}nameMapper: &a [*a]`, /alias to itself/],
    ['an alias to itself as a value', `nameMapper: &a {b: *a}\n${address}`, /alias to itself/],
    ['two that name each other', `a: &a {b: &b {c: *a, d: *b}}\n${address}`, /alias to itself/],
    ['an alias of nothing', `${address}nameMapper: *a`, /BAD_ALIAS at line 2/],
    ['3,000 levels of maps', `${address}nameMapper: ${'{a: '.repeat(3_000)}${'}'.repeat(3_000)}`, /YAML/],
    ['100 levels of lists', `${address}nameMapper: ${'['.repeat(100)}${']'.repeat(100)}`, /levels/],
    ['400 levels of indentation', Array.from({ length: 400 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'), /YAML/],
    ['90,000 open brackets', `${'['.repeat(90_000)}\n`, /YAML/],
    ['3,000 anchors with aliases', anchors(3_000) + address, /keys/],
    ['30,000 anchors with aliases', anchors(30_000) + address, /at most 100000 characters/],
    ['7,000 keys', Array.from({ length: 7_000 }, (_, at) => `key${at}: x\n`).join('') + address, /keys/],
    [
      'a bomb of aliases',
      `a: &a [${'x,'.repeat(99)}x]\nb: &b [${'*a,'.repeat(99)}*a]\nc: [${'*b,'.repeat(99)}*b]`,
      /values/,
    ],
    ['variables that do not end', `password: "${'${a:-'.repeat(19_000)}"\n${address}`, undefined],
    ['variables that end late', `password: "${'${a:-'.repeat(19_000)}}"\n${address}`, undefined],
    ['names of variables that do not end', `password: "${'${a'.repeat(30_000)}"\n${address}`, undefined],
    [
      '200,000 characters of variables',
      `password: "${'${a:-'.repeat(40_000)}"\n${address}`,
      /at most 100000 characters/,
    ],
    ['a second document', `${address}---\nsingleServerConfig: {address: "redis://b:1"}`, /MULTIPLE_DOCS at line 2/],
  ] as [string, string, RegExp | undefined][]) {
    it(`takes less than a second of the processor: ${what}`, async () => {
      // Of the processor, as others may be using it.
      const startedAt = process.cpuUsage()
      // Those that are odd, but say something: only how long they take counts.
      if (allowed === undefined) await loadConfig(text, { env: {} })
      else await refused(text, { allowed: allowed as never })
      const { user, system } = process.cpuUsage(startedAt)
      const tookMs = (user + system) / 1_000
      assert.ok(tookMs < 1_000, `it took ${Math.round(tookMs)} ms`)
    })
  }
})

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: variables of a configuration
suite('a variable', () => {
  const nameIn = async (clientName: string, env: Record<string, string | undefined>): Promise<string | undefined> =>
    describe(await loadConfig(`singleServerConfig: {address: "redis://a:1", clientName: '${clientName}'}`, { env }))
      .clientName

  it('is one of the environment, and not what every object has', async () => {
    const text = '${constructor} ${toString} ${__proto__} ${hasOwnProperty:-x}'
    assert.equal(await nameIn(text, {}), '${constructor} ${toString} ${__proto__} x')
    assert.equal(
      await nameIn(text, Object.create({ toString: 'inherited' })),
      '${constructor} ${toString} ${__proto__} x',
    )
    assert.equal(await nameIn('${constructor}', { constructor: 'x' } as never), 'x')
  })

  it('has as its default what stands before the next brace', async () => {
    assert.equal(await nameIn('${a:-b}c}${d:-e}', {}), 'bc}e')
    assert.equal(await nameIn('${a:-b:-c}', {}), 'b:-c')
    assert.equal(await nameIn('${a:-${b:-c}', { b: 'B' }), '${b:-c')
    assert.equal(await nameIn('${a}}${a', { a: 'A' }), 'A}${a')
  })
})

// biome-ignore-end lint/suspicious/noTemplateCurlyInString: as above

suite('aliases', () => {
  it('mean the last anchor of their name before them, also inside of what is repeated', async () => {
    const parse = (await import('../../src/config/yaml.js')).parseYaml
    const text = 'a: &y {p: &x one, q: *x}\nb: &x two\nc: *y\nd: *x\n'
    const y = { p: 'one', q: 'one' }
    assert.deepEqual(await parse(text), { a: y, b: 'two', c: y, d: 'two' })
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

  it('are those of a PEM file, by path or URL, or given in code', () => {
    const file = join(dir, 'ca.pem')
    for (const sslTruststore of [file, pathToFileURL(file).href, `file:${file}`]) {
      assert.match(String(describe(tls({ sslTruststore }) as RedissonConfig).tls?.ca), /BEGIN CERTIFICATE/)
    }
    const { tls: options } = describe(tls({ tls: { servername: 'redis.example' } }) as RedissonConfig)
    assert.equal(options?.servername, 'redis.example')
  })

  it('of a Java key store are refused with the command that converts it', async () => {
    const file = join(dir, 'store.jks')
    await refused(tls({ sslTruststore: file }), {
      path: 'sslTruststore',
      value: file,
      allowed: /keytool .*PEM|PEM.*keytool/ as never,
    })
    await refused(tls({ sslKeystore: file, sslKeystorePassword: SECRET }), {
      path: 'sslKeystore',
      allowed: /PKCS12/ as never,
    })
    await refused(
      { singleServerConfig: { address: 'rediss://a:1', sslKeystore: file } },
      { path: 'singleServerConfig.sslKeystore' },
    )
    await refused(tls({ sslTruststore: join(dir, 'nowhere') }), {
      path: 'sslTruststore',
      allowed: /can be read/ as never,
    })
    await refused(tls({ tls: { ca_: 'x' } }), { path: 'tls.ca_' })
    await refused(tls({ sslCiphers: ['ROT13'] }), { path: 'sslCiphers' })
  })

  it('are checked as sslVerificationMode says; sslEnableEndpointIdentification is its name in 3.x', () => {
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

it('docs/configuration.md names every key', () => {
  const words = new Set(readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8').match(/\w+/g))
  const missing = Object.entries(KEYS).flatMap(([section, keys]) => [section, ...Object.keys(keys)])
  assert.deepEqual(
    [...new Set(missing)].filter((name) => name !== '' && !words.has(name)),
    [],
  )
})
