import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { it, describe as suite } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Deployment, describe } from '../../src/config/deployment.js'
import { loadConfig } from '../../src/config/load.js'
import { KEYS, type RedissonConfig } from '../../src/config/schema.js'
import { expectRejected, SECRET, singleServer } from '../support/rejected-config.js'

const ROOT = rootOf(dirname(fileURLToPath(import.meta.url)))
const FIXTURES = join(ROOT, 'test/fixtures/config')
const FILES = readdirSync(FIXTURES).sort()

function rootOf(dir: string): string {
  return existsSync(join(dir, 'package.json')) ? dir : rootOf(dirname(dir))
}

async function open(file: string, env: Record<string, string> = {}): Promise<Deployment> {
  return describe(await loadConfig(join(FIXTURES, file), { env }))
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

  it('every key is accepted: the fixtures contain all of them', () => {
    const texts = FILES.map((file) => readFileSync(join(FIXTURES, file), 'utf8'))
    const all = texts.join('\n')
    const missing = Object.entries(KEYS).flatMap(([section, keys]) => {
      const where = section === '' ? all : texts.filter((text) => text.includes(section)).join('\n')
      // Keys of 3.x are the same in every section; our own is in no file.
      const shared = Object.keys(KEYS['singleServerConfig'] ?? {}).filter(
        (key) => section !== '' && key in (KEYS['replicatedServersConfig'] ?? {}),
      )
      return Object.keys(keys).filter(
        (key) => key !== 'tls' && !new RegExp(`\\b${key}"?:`).test(shared.includes(key) ? all : where),
      )
    })
    assert.deepEqual(missing, [])
  })

  it('a 4.x file: its values are applied', async () => {
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

  it('a 3.x file: user, password and TLS are read from the server section', async () => {
    const deployment = await open('single-3.yaml')
    // The text of the file, although YAML would read a number.
    assert.deepEqual([deployment.username, deployment.password], ['orders', '0123'])
    assert.equal(deployment.retryDelay(7), 1500)
    assert.equal(deployment.keepAliveMs, undefined)
    assert.equal(deployment.isNoDelay, false)
    assert.equal(deployment.tls, undefined)
  })

  it('absent keys have the defaults of Redisson', async () => {
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

  it('Sentinels may have their own password, and the addresses that they name are mapped', async () => {
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

  it('lists of servers are accepted, also with IPv6 addresses', async () => {
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

  it('a configuration may be given as text, a file URL or a path', async () => {
    const url = pathToFileURL(join(FIXTURES, 'cluster-4.yaml'))
    assert.equal(describe(await loadConfig(url)).mode, 'cluster')
    assert.equal(describe(await loadConfig(readFileSync(url, 'utf8'))).mode, 'cluster')
    assert.equal(describe(await loadConfig('{"singleServerConfig": {"address": "redis://a:1"}}')).mode, 'single')
    assert.equal(describe(await loadConfig('{singleServerConfig: {address: "redis://a:1"}}')).mode, 'single')
  })

  it('variables are replaced by the environment or a default', async () => {
    const text = `singleServerConfig: {address: "redis://\${A}:\${B:-2}", clientName: "x\${D}-\${C:-x:-y}"}`
    const { addresses, clientName } = describe(await loadConfig(text, { env: { A: 'a', C: '', D: '$' + '{E}' } }))
    assert.deepEqual(addresses, [{ host: 'a', port: 2, isTls: false }])
    assert.equal(clientName, `x\${E}-`, 'a value may look like a variable')
  })

  it('a variable without a value in a comment or in a key without effect does no harm', async () => {
    const text = `# \${NOBODY}\nsingleServerConfig:\n  address: "redis://a:1"\n  connectionPoolSize: 70\nsslProvider: "\${NOBODY}"`
    const { ignored } = describe(await loadConfig(text, { env: {} }))
    assert.deepEqual(
      ignored.map(({ path }) => path),
      ['sslProvider', 'singleServerConfig.connectionPoolSize'],
    )
  })

  it('of several server sections the first in the order of Redisson is used, and the others are reported', async () => {
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

  it('the top level takes precedence over the section', () => {
    const { password, keepAliveMs } = describe(
      singleServer({ password: 'old', keepAlive: false }, { password: 'new', tcpKeepAlive: true }) as RedissonConfig,
    )
    assert.deepEqual([password, keepAliveMs], ['new', 0])
  })

  it('keys without effect are reported with their path and the reason', async () => {
    const { ignored } = await open('single-4.yaml')
    const paths = ignored.map(({ path }) => path)
    for (const path of ['sslTruststorePassword', 'sslKeystoreType']) assert(paths.includes(path), path)
    // With the value that it has in Redisson anyway.
    for (const path of ['threads', 'codec', 'singleServerConfig.connectionPoolSize'])
      assert(!paths.includes(path), path)
    for (const path of ['lockWatchdogTimeout', 'password', 'singleServerConfig.timeout'])
      assert(!paths.includes(path), path)
    assert(ignored.every(({ reason }) => reason.length > 10))
    // An absent key is not reported.
    assert(!paths.includes('executor'))
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
    [
      '9,000 merged maps',
      `a: &a {k: x}\nb: {${'<<: *a, '.repeat(9_000)}}\n${address}`,
      /one of the keys|a server section/,
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
    it(`a hostile file costs less than a second of CPU time: ${what}`, async () => {
      // CPU time, as other processes may be running.
      const startedAt = process.cpuUsage()
      // Odd but valid: only the time counts.
      if (allowed === undefined) await loadConfig(text, { env: {} })
      else await expectRejected(text, { allowed: allowed as never })
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

  it('a variable is read from the environment, not from the prototype of objects', async () => {
    const text = '${constructor} ${toString} ${__proto__} ${hasOwnProperty:-x}'
    for (const env of [{}, Object.create({ constructor: 'inherited' })]) {
      await assert.rejects(nameIn(text, env), /variable constructor to be set/)
    }
    assert.equal(await nameIn('${constructor}', { constructor: 'x' } as never), 'x')
  })

  it('the default of a variable ends at the next brace', async () => {
    assert.equal(await nameIn('${a:-b}c}${d:-e}', {}), 'bc}e')
    assert.equal(await nameIn('${a:-b:-c}', {}), 'b:-c')
    assert.equal(await nameIn('${a:-${b:-c}', { b: 'B' }), '${b:-c')
    assert.equal(await nameIn('${a}}${a', { a: 'A' }), 'A}${a')
    assert.equal(await nameIn("${a:-it is ''quoted''}", {}), "it is 'quoted'")
  })
})

// biome-ignore-end lint/suspicious/noTemplateCurlyInString: as above

suite('aliases', () => {
  it('a map has the entries of those that it merges, its own first, then those of the first', async () => {
    const parse = (await import('../../src/config/yaml.js')).parseYaml
    const text = 'a: &a {p: 1, q: 1}\nb: &b {q: 2, r: 2}\nc: {<<: [*a, *b], p: 3}\nd: {r: 4, <<: *b}\n'
    const { c, d } = (await parse(text)) as Record<string, unknown>
    assert.deepEqual(
      [c, d],
      [
        { p: '3', q: '1', r: '2' },
        { q: '2', r: '4' },
      ],
    )
    const polluted = (await parse('a: {<<: {__proto__: {x: 1}}}')) as { a: object }
    assert.deepEqual(Object.keys(polluted.a), ['__proto__'])
  })

  it('an alias refers to the last preceding anchor of its name, also inside a repeated node', async () => {
    const parse = (await import('../../src/config/yaml.js')).parseYaml
    const text = 'a: &y {p: &x one, q: *x}\nb: &x two\nc: *y\nd: *x\n'
    const y = { p: 'one', q: 'one' }
    assert.deepEqual(await parse(text), { a: y, b: 'two', c: y, d: 'two' })
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
