/** Nothing that leaves the library contains a password, whatever fails and however it is printed. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import { Cluster as IoredisCluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { type Client, type ConnectOptions, connect, type RedissonConfig } from '../../src/index.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { MASTER_NAME, startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { makeCertificates, startTlsRedis } from '../support/servers/tls.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const SECRET = 'hunter2-rotated'
/** A server without AUTH and HELLO repeats what it was sent. */
const REPEATS = ['--rename-command', 'AUTH', '', '--rename-command', 'HELLO', '']
const USER = ['ACL', 'SETUSER', 'app', 'on', 'resetpass', '~*', '&*', '+@all'] as const

/** Checks every form in which a program may print a value. */
function assertClean(what: string, value: unknown): void {
  const stacks: string[] = []
  for (let one = value; one instanceof Error; one = one.cause) stacks.push(String(one.stack), one.message, String(one))
  const seen = new Set<unknown>()
  const json = JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null) return typeof part === 'bigint' ? String(part) : part
    if (seen.has(part)) return undefined
    seen.add(part)
    return part instanceof Error ? allOf(part) : part
  })
  const text = [inspect(value, { depth: 20, showHidden: true, maxStringLength: null }), json, ...stacks].join('\n')
  assert.ok(!text.includes(SECRET), `${what} shows the password:\n${text}`)
}

function allOf(error: Error): object {
  return Object.fromEntries(Reflect.ownKeys(error).map((key) => [String(key), Reflect.get(error, key)]))
}

function withUser(url: string): string {
  return url.replace('//', `//app:${SECRET}@`)
}

const CREDENTIALS = { username: 'app', password: SECRET }

function addressOf({ url }: RedisServer): string {
  return url
}

/** The ways to open a client with a user and a password. */
function targets(server: RedisServer, sentinel = server, node = server): Record<string, ConnectOptions> {
  const single: RedissonConfig = { singleServerConfig: { address: addressOf(server), connectTimeout: 3_000 } }
  const sentinels = { sentinelAddresses: [sentinel.url], masterName: MASTER_NAME, connectTimeout: 3_000 }
  return {
    'a URL': { url: withUser(server.url) },
    'a configuration': { config: { ...single, ...CREDENTIALS } },
    'a configuration with RESP2': { config: { ...single, ...CREDENTIALS, protocol: 'RESP2' } },
    'a configuration with the password in its address': {
      config: { singleServerConfig: { address: withUser(server.url), connectTimeout: 3_000 } },
    },
    'a configuration with a resolver': { config: single, credentialsResolver: () => CREDENTIALS },
    'a configuration of a master': {
      config: { masterSlaveServersConfig: { masterAddress: server.url, connectTimeout: 3_000 }, ...CREDENTIALS },
    },
    'a configuration of Sentinel': { config: { sentinelServersConfig: sentinels, ...CREDENTIALS } },
    'a configuration of a cluster': {
      config: { clusterServersConfig: { nodeAddresses: [node.url], connectTimeout: 3_000 }, ...CREDENTIALS },
    },
    'a configuration of a cluster with a resolver': {
      config: { clusterServersConfig: { nodeAddresses: [node.url], connectTimeout: 3_000 } },
      credentialsResolver: () => CREDENTIALS,
    },
  }
}

async function refusal(options: ConnectOptions): Promise<unknown> {
  try {
    await (await connect(options)).close()
  } catch (error) {
    return error
  }
  return assert.fail('it should not connect')
}

describe('a password', () => {
  it('a wrong password is in no error of connect', async () => {
    await using server = await startRedis()
    for (const [what, options] of Object.entries(targets(server))) assertClean(what, await refusal(options))
  })

  it('a password that the server repeats is in no error of connect', async () => {
    await using server = await startRedis({ args: REPEATS })
    for (const [what, options] of Object.entries(targets(server))) assertClean(what, await refusal(options))
    const sentinels = { sentinelAddresses: [server.url], masterName: MASTER_NAME, sentinelPassword: SECRET }
    assertClean('Sentinel', await refusal({ config: { sentinelServersConfig: sentinels } }))
  })

  it('a password is in no error of connect when the server is down', async () => {
    const server = await startRedis()
    await server.stop()
    for (const [what, options] of Object.entries(targets(server))) assertClean(what, await refusal(options))
  })

  it('a password is in no error of connect when TLS fails', async () => {
    using certificates = await makeCertificates({ names: ['DNS:redis.example'] })
    await using tls = await startTlsRedis(certificates, { clientCertificates: 'yes' })
    assertClean('a URL', await refusal({ url: withUser(tls.url) }))
    const { ca, client } = certificates
    for (const files of [{}, { ca }, { ca, servername: 'redis.example' }, { cert: client.cert, key: client.key }]) {
      const config = { singleServerConfig: { address: tls.url }, ...CREDENTIALS, tls: files } as RedissonConfig
      assertClean('a configuration', await refusal({ config }))
    }
    const sslKeystore = { sslKeystore: client.p12File, sslKeystorePassword: SECRET }
    assertClean('a key store', await refusal({ config: { singleServerConfig: { address: tls.url }, ...sslKeystore } }))
  })

  it('a password is in no error of connect when an address lacks its @ or host, or has it as a parameter', async () => {
    const wrong = [`:${SECRET}:6379`, `app:${SECRET}.redis:6379`, `h:6379?password=${SECRET}`, `:${SECRET}`]
    const more = [`h?password=${SECRET}:6379`, `[app:${SECRET}]:6379`, `:x@${SECRET}/y`, `app:${SECRET}@redis`]
    for (const rest of [...wrong, ...more]) {
      for (const scheme of ['redis', 'rediss', 'valkey', 'redis+uds', 'http']) {
        const address = `${scheme}://${rest}`
        for (const config of [
          { singleServerConfig: { address } },
          { clusterServersConfig: { nodeAddresses: [address] } },
          { sentinelServersConfig: { sentinelAddresses: [address], masterName: 'm' } },
        ]) {
          const error = await refusal({ config })
          assert.equal((error as { code?: string }).code, 'LOCK_CONFIG', `${address}: ${error}`)
          assertClean(address, error)
        }
      }
      assertClean('config', await refusal({ config: `redis://${rest}` }))
      if (!/^:x@|@redis$/.test(rest)) assertClean('url', await refusal({ url: `redis://${rest}` }))
    }
  })
})

interface Opened {
  readonly options: ConnectOptions
  readonly end?: () => unknown
}

/** Records everything that a client emits from now on. */
function record(client: Client): unknown[] {
  const emitted: unknown[] = []
  for (const event of ['warning', 'lost', 'longWait', 'longHold'] as const) {
    client.on(event, (...details: unknown[]) => emitted.push(details))
  }
  return emitted
}

async function errorOf(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => undefined,
    (error: unknown) => error,
  )
}

/** Checks what a client emits and throws after `spoil`, while it holds a lock, waits for others and requests more. */
async function expectClean(what: string, client: Client, spoil: () => Promise<void>): Promise<void> {
  const emitted = record(client)
  const hold = await client.getLock(`${what}: held`).lock()
  const semaphore = client.getSemaphore(`${what}: permits`)
  await spoil()
  const waiting = [
    errorOf(client.getLock(`${what}: held`).lock({ waitTimeMs: 2_000 })),
    errorOf(client.getFairLock(`${what}: other`).lock({ waitTimeMs: 2_000 })),
  ]
  const errors: unknown[] = []
  for (const endsAt = performance.now() + 2_500; performance.now() < endsAt; ) {
    errors.push(await errorOf(client.getLock(`${what}: a`).tryLock()), await errorOf(semaphore.tryAcquire()))
    await sleep(20)
  }
  errors.push(...(await Promise.all(waiting)), await errorOf(hold.unlock()), hold.signal.reason)
  const failures = errors.filter((error) => error !== undefined)
  assert.ok(failures.length > 0, `${what}: nothing failed`)
  for (const error of [...failures, await errorOf(client.close())]) assertClean(`an error with ${what}`, error)
  assertClean(`an event with ${what}`, emitted)
  assertClean(`the client with ${what}`, client)
  assertClean(`the hold with ${what}`, hold)
}

/** The same for several clients of the same servers. */
async function expectAllClean(all: Readonly<Record<string, Opened>>, spoil: () => Promise<void>): Promise<void> {
  let ready = 0
  let spoilt: Promise<void> | undefined
  const names = Object.keys(all)
  const spoilOnce = async (): Promise<void> => {
    ready++
    await waitUntil(() => ready === names.length, { timeoutMs: 20_000 })
    spoilt ??= spoil()
    await spoilt
  }
  await Promise.all(
    names.map(async (name) => {
      const { options, end } = all[name] as Opened
      const common = { commandTimeoutMs: 700, lockWatchdogTimeoutMs: 3_000, checkLockSyncedSlaves: false }
      const client = await connect({ ...common, ...options })
      try {
        await expectClean(name, client, spoilOnce)
      } finally {
        await client.close().catch(() => {})
        await end?.()
      }
    }),
  )
}

/** Changes the password of the user and kills its connections. */
async function rotate(servers: readonly RedisServer[]): Promise<void> {
  for (const { admin } of servers) {
    await admin.call(...USER, '>another')
    await admin.call('CLIENT', 'KILL', 'USER', 'app')
  }
}

async function allow(servers: readonly RedisServer[]): Promise<void> {
  for (const { admin } of servers) await admin.call(...USER, `>${SECRET}`)
}

function ofIoredis(client: Redis | IoredisCluster): Opened {
  client.on('error', () => {})
  return { options: { client: client as never }, end: () => client.disconnect() }
}

describe('a password that was rotated', () => {
  async function clientsOf(server: RedisServer): Promise<Record<string, Opened>> {
    await allow([server])
    const url = withUser(server.url)
    const client = createClient({ url })
    client.on('error', () => {})
    await client.connect()
    const { 'a configuration of Sentinel': _, 'a configuration of a cluster': __, ...ours } = targets(server)
    delete ours['a configuration of a cluster with a resolver']
    return {
      ...Object.fromEntries(Object.entries(ours).map(([name, options]) => [name, { options }])),
      'the watchdog thread': { options: { url, watchdog: { thread: true } } },
      'an ioredis client': ofIoredis(new Redis(url)),
      'a node-redis client': {
        options: { client: client as never },
        end: () => client.isOpen && client.destroy(),
      },
    }
  }

  it('a rotated password is in nothing that a client of one server throws, emits or prints', async () => {
    await using server = await startRedis()
    await expectAllClean(await clientsOf(server), () => rotate([server]))
  })

  it('a password that the restarted server repeats is in nothing that a client throws, emits or prints', async () => {
    await using server = await startRedis()
    await expectAllClean(await clientsOf(server), () => server.restart(REPEATS))
  })

  it('a rotated password is in nothing that a client behind Sentinel throws, emits or prints', async () => {
    await using group = await startSentinels({ sentinels: 1, replicas: 0 })
    const master = await group.master()
    await allow([master])
    const [sentinel] = group.sentinels as [RedisServer]
    const options = targets(master, sentinel)['a configuration of Sentinel'] as ConnectOptions
    await expectAllClean({ 'a configuration of Sentinel': { options } }, () => rotate([master]))
  })

  it('a rotated password is in nothing that a client of a cluster throws, emits or prints', async () => {
    await using cluster = await startCluster({ masters: 3, replicasEach: 0 })
    const servers = await cluster.masters()
    await allow(servers)
    const [first] = servers as [RedisServer]
    const client = createCluster({ rootNodes: [{ url: first.url }], defaults: CREDENTIALS })
    client.on('error', () => {})
    await client.connect()
    const ours = Object.entries(targets(first)).filter(([name]) => name.includes('cluster'))
    const all = {
      ...Object.fromEntries(ours.map(([name, options]) => [name, { options }])),
      'an ioredis Cluster': ofIoredis(new IoredisCluster([first.url], { redisOptions: CREDENTIALS })),
      'a node-redis cluster': { options: { client: client as never }, end: () => client.isOpen && client.destroy() },
    }
    await expectAllClean(all, () => rotate(servers))
  })
})

it('neither the process title nor the watchdog thread exposes the password', async () => {
  await using server = await startRedis()
  await allow([server])
  await using client = await connect({ url: withUser(server.url), watchdog: { thread: true } })
  await client.getLock('a').withLock(async () => {
    assert.ok(!process.title.includes(SECRET))
    if (process.platform === 'linux') assert.ok(!readFileSync('/proc/self/cmdline', 'utf8').includes(SECRET))
  })
})
