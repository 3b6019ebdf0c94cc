/** Every server section of a configuration, with a password, and with servers that are down or silent. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, connect as openSocket, type Server, type Socket } from 'node:net'
import { after, afterEach, before, describe, it } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { type Client, connect, type RedissonConfig } from '../../src/index.js'
import { timersLeft, watchProcess } from '../support/leak-check.js'
import { ADMIN } from '../support/rights.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import { type SentinelGroup, startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { makeCertificates } from '../support/servers/tls.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const USER = 'shop'
const PASSWORD = 'hunter2'
const SENTINEL_USER = 'watcher'
const SENTINEL_PASSWORD = 'hunter3'
/** Without the password, only what the tests need to see that a server is up. */
const STRANGER = ['default', 'on', 'nopass', '-@all', '+ping', '+info|server']
const RIGHTS = ['on', `>${PASSWORD}`, '~*', '&*', '+@all']
const ARGS = [
  ...['--user', ...STRANGER, '--user', USER, ...RIGHTS, '--masteruser', ADMIN, '--masterauth', 'none'],
  ...['--repl-diskless-sync-delay', '0'],
]
const SENTINEL_CONFIG = `user ${STRANGER.join(' ')}\nuser ${SENTINEL_USER} on >${SENTINEL_PASSWORD} ~* &* +@all`
const CONNECT_MS = 6_000
const BACK_MS = 5_000
const CREDENTIALS = { username: USER, password: PASSWORD }

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

/** Accepts connections and never replies, like a frozen machine. */
async function startSilent(): Promise<{ url: string; stop: () => void }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  const port = await listening(server)
  const stop = (): void => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { url: `redis://127.0.0.1:${port}`, stop }
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function open(config: RedissonConfig): Promise<Client> {
  const client = await connect({ config })
  ends.push(() => client.close())
  return client
}

async function takesLocks(client: Client): Promise<void> {
  for (const name of ['a', 'b', 'c', 'd']) await client.getLock(name).withLock(() => {})
}

async function takesLocksAgain(client: Client): Promise<void> {
  await waitUntil(
    () =>
      takesLocks(client).then(
        () => true,
        () => false,
      ),
    { timeoutMs: BACK_MS, message: 'locks are taken again' },
  )
}

/** Kills the connections of clients, and no others. */
async function cutClients(servers: readonly RedisServer[]): Promise<void> {
  for (const { admin } of servers) await admin.call('CLIENT', 'KILL', 'USER', USER)
}

describe('a configuration with a password', { concurrency: 1 }, () => {
  const replicas: RedisServer[] = []
  let single: RedisServer
  let master: RedisServer
  let group: SentinelGroup
  let cluster: Cluster
  let silent: Awaited<ReturnType<typeof startSilent>>
  const dead = 'redis://127.0.0.1:1'

  before(async () => {
    silent = await startSilent()
    single = await startRedis({ args: ARGS })
    master = await startRedis({ args: ARGS })
    for (const _ of [1, 2]) {
      const replica = await startRedis({ args: ARGS, config: `replicaof 127.0.0.1 ${master.port}` })
      replicas.push(replica)
      await waitUntil(() => replica.follows(master), { timeoutMs: 10_000, message: 'the replica follows' })
    }
    group = await startSentinels({ args: ARGS, sentinelConfig: SENTINEL_CONFIG })
    cluster = await startCluster({ args: ARGS })
  })
  after(async () => {
    silent.stop()
    for (const server of [single, master, ...replicas]) await server.stop()
    await group.stop()
    await cluster.stop()
  })

  const sections: Record<string, (strangers: readonly string[], user: string) => RedissonConfig> = {
    masterSlaveServersConfig: ([masterAddress, ...others], user) => ({
      masterSlaveServersConfig: {
        connectTimeout: CONNECT_MS,
        masterAddress: masterAddress ?? withUser(replicas[0], user),
        slaveAddresses: [...others, withUser(replicas[1], user), withUser(master, user)],
      },
    }),
    replicatedServersConfig: (strangers, user) => ({
      replicatedServersConfig: {
        connectTimeout: CONNECT_MS,
        nodeAddresses: [...strangers, ...[...replicas, master].map((server) => withUser(server, user))],
      },
    }),
    sentinelServersConfig: (strangers) => ({
      sentinelServersConfig: {
        connectTimeout: CONNECT_MS,
        sentinelAddresses: [...strangers, ...group.sentinels.map(({ url }) => url)],
        masterName: group.masterName,
        sentinelUsername: SENTINEL_USER,
        sentinelPassword: SENTINEL_PASSWORD,
      },
    }),
    clusterServersConfig: (strangers, user) => ({
      clusterServersConfig: {
        connectTimeout: CONNECT_MS,
        nodeAddresses: [...strangers, ...cluster.nodes.slice(0, 2).map((server) => withUser(server, user))],
      },
    }),
  }

  function withUser(server: RedisServer | undefined, user: string): string {
    return (server as RedisServer).url.replace('//', `//${user}`)
  }

  const strangers: Record<string, () => string[]> = {
    'all servers reply': () => [],
    'the first server is down': () => [dead],
    'the first server is silent': () => [silent.url],
    'one server is down and one is silent': () => [silent.url, dead],
  }

  for (const protocol of ['RESP2', 'RESP3'] as const) {
    for (const [section, config] of Object.entries(sections)) {
      for (const [condition, members] of Object.entries(strangers)) {
        it(`${section}, ${protocol}: connects and takes locks when ${condition}`, async () => {
          // Several clients: in a cluster ioredis queries the nodes in random order.
          const all = Array.from({ length: 4 }, () => open({ ...config(members(), ''), ...CREDENTIALS, protocol }))
          for (const client of await Promise.all(all)) await takesLocks(client)
        })
      }
    }

    it(`singleServerConfig, ${protocol}: connects and takes locks`, async () => {
      await takesLocks(await open({ singleServerConfig: { address: single.url }, ...CREDENTIALS, protocol }))
      const address = withUser(single, `${USER}:${PASSWORD}@`)
      await takesLocks(await open({ singleServerConfig: { address }, protocol }))
    })

    it(`singleServerConfig, ${protocol}: connect fails in time when the server is silent`, async () => {
      const config = { singleServerConfig: { address: silent.url, connectTimeout: 500 }, ...CREDENTIALS, protocol }
      await assert.rejects(connect({ config }), /no reply within 500 ms/)
    })
  }

  for (const section of ['masterSlaveServersConfig', 'replicatedServersConfig', 'clusterServersConfig']) {
    it(`${section}: user and password may be in the addresses`, async () => {
      await takesLocks(await open(sections[section]?.([], `${USER}:${PASSWORD}@`) as RedissonConfig))
    })
  }

  it('sentinelServersConfig: user and password of the Sentinels may be in their addresses', async () => {
    const config: RedissonConfig = {
      sentinelServersConfig: {
        sentinelAddresses: group.sentinels.map((one) => withUser(one, `${SENTINEL_USER}:${SENTINEL_PASSWORD}@`)),
        masterName: group.masterName,
      },
      ...CREDENTIALS,
    }
    await takesLocks(await open(config))
  })

  it('sentinelServersConfig: TLS is used for Sentinels and servers', async () => {
    using certificates = await makeCertificates()
    const front = async ({ port }: RedisServer): Promise<number> => {
      const server = createTlsServer({ cert: certificates.server.cert, key: certificates.server.key }, (socket) => {
        const plain = openSocket(port, '127.0.0.1')
        for (const [one, other] of [
          [socket, plain],
          [plain, socket],
        ] as const) {
          one.on('error', () => other.destroy()).on('close', () => other.destroy())
          one.pipe(other)
        }
      })
      ends.push(() => server.close())
      return await listening(server)
    }
    const hostsPortMap: Record<string, string> = {}
    for (const server of [...group.servers, ...group.sentinels]) {
      hostsPortMap[`127.0.0.1:${server.port}`] = `127.0.0.1:${await front(server)}`
    }
    const sentinelAddresses = group.sentinels.map(({ port }) => `rediss://${hostsPortMap[`127.0.0.1:${port}`]}`)
    const config: RedissonConfig = {
      sentinelServersConfig: {
        sentinelAddresses,
        masterName: group.masterName,
        sentinelUsername: SENTINEL_USER,
        sentinelPassword: SENTINEL_PASSWORD,
        natMapper: { class: 'org.redisson.api.HostPortNatMapper', hostsPortMap },
      },
      ...CREDENTIALS,
      tls: { ca: certificates.ca },
    }
    const client = await open(config)
    await takesLocks(client)
    await cutClients(group.servers)
    await takesLocksAgain(client)
  })

  it('sentinelServersConfig: connect rejects with WRONGPASS, without the password', async () => {
    const servers = { sentinelAddresses: group.sentinels.map(({ url }) => url), masterName: group.masterName }
    const ofSentinels = { sentinelUsername: SENTINEL_USER, sentinelPassword: SENTINEL_PASSWORD }
    const wrong: RedissonConfig[] = [
      { sentinelServersConfig: { ...servers, ...ofSentinels, sentinelPassword: 'hunter4' }, ...CREDENTIALS },
      { sentinelServersConfig: { ...servers, ...ofSentinels }, ...CREDENTIALS, password: 'hunter4' },
    ]
    for (const config of wrong) {
      await assert.rejects(connect({ config }), (error: Error) => {
        assert.match(error.message, /WRONGPASS/)
        assert(!JSON.stringify(error).includes('hunter4'))
        return true
      })
    }
    const unknown = { ...servers, ...ofSentinels, masterName: 'nobody' }
    await assert.rejects(connect({ config: { sentinelServersConfig: unknown, ...CREDENTIALS } }), /no master "nobody"/)
  })

  it('connect fails in time when a credentials resolver never settles', async () => {
    const resolver = (): Promise<never> => new Promise(() => {})
    const replicated: RedissonConfig = sections['replicatedServersConfig']?.([], '') ?? {}
    const config = { replicatedServersConfig: { ...replicated.replicatedServersConfig, connectTimeout: 500 } }
    await assert.rejects(connect({ config, credentialsResolver: resolver }), /no reply within 500 ms/)
  })

  it('a Sentinel that goes silent later does not delay the client: it queries the others', async () => {
    const [first, ...others] = group.sentinels as [RedisServer, ...RedisServer[]]
    const proxy = await startProxy(first.port)
    ends.push(() => proxy.stop())
    const client = await open({
      sentinelServersConfig: {
        sentinelAddresses: [proxy.url, ...others.map(({ url }) => url)],
        sentinelsDiscovery: false,
        masterName: group.masterName,
        sentinelUsername: SENTINEL_USER,
        sentinelPassword: SENTINEL_PASSWORD,
      },
      ...CREDENTIALS,
    })
    await takesLocks(client)
    proxy.freeze()
    await cutClients(group.servers)
    await takesLocksAgain(client)
  })

  for (const section of ['masterSlaveServersConfig', 'replicatedServersConfig'] as const) {
    it(`${section}: a replica that goes silent later does not keep the client from its master`, async () => {
      const client = await open({ ...sections[section]?.([], ''), ...CREDENTIALS })
      await takesLocks(client)
      replicas[0]?.freeze()
      ends.push(() => replicas[0]?.thaw())
      await cutClients([master])
      await takesLocksAgain(client)
    })
  }

  it('clusterServersConfig: closes the client for good, also while it requests the slots', async () => {
    const timersBefore = timersLeft()
    for (let round = 0; round < 20; round++) {
      const config = { clusterServersConfig: { nodeAddresses: cluster.nodes.map(({ url }) => url), scanInterval: 2 } }
      const client = await connect({ config: { ...config, ...CREDENTIALS } })
      await sleep(round)
      await client.close()
    }
    await waitUntil(() => timersLeft(timersBefore) <= 0, { message: 'no timer is left' })
  })

  it('clusterServersConfig: a replica that goes silent later does not keep the client from the masters', async () => {
    const client = await open({ ...sections['clusterServersConfig']?.([], ''), ...CREDENTIALS })
    await takesLocks(client)
    const masters = await cluster.masters()
    const [replica] = await cluster.replicasOf(masters[0] as RedisServer)
    replica?.freeze()
    ends.push(async () => {
      replica?.thaw()
      await cluster.settled()
    })
    await cutClients(masters)
    // A frozen replica acknowledges nothing, and its master has no other one.
    const others = masters.slice(1)
    await waitUntil(
      async () => {
        for (let at = 0; at < 50; at++) {
          const name = `lock:${at}`
          if (!others.includes(await cluster.nodeOf(name))) continue
          const hold = await client
            .getLock(name)
            .tryLock()
            .catch(() => undefined)
          if (!hold) return false
          await hold.unlock()
        }
        return true
      },
      { timeoutMs: 2 * BACK_MS, message: 'locks are taken again' },
    )
  })

  it('many servers do not make Node warn about too many listeners', async () => {
    const process = watchProcess()
    ends.push(() => process.stop())
    const many = Array.from({ length: 15 }, (_, at) => `redis://127.0.0.${at + 2}:1`)
    for (const section of ['replicatedServersConfig', 'sentinelServersConfig']) {
      await takesLocks(await open({ ...sections[section]?.(many, ''), ...CREDENTIALS }))
    }
    await process.assertQuiet()
  })

  it('a reply that never ends is rejected', async () => {
    const babbling = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.write(`$${2 ** 30}\r\n${'x'.repeat(2 ** 20)}`))
    })
    const port = await listening(babbling)
    ends.push(() => babbling.close())
    const config = { replicatedServersConfig: { nodeAddresses: [`redis://127.0.0.1:${port}`] } }
    await assert.rejects(connect({ config }), /a reply of more than/)
  })
})
