import { after, afterEach, before, beforeEach } from 'node:test'
import { type BaseClientConfiguration, GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
import type { RedisPort } from '../../src/adapters/port.js'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, type ClientOptions, connect } from '../../src/index.js'
import { timersLeft, watchProcess } from './leak-check.js'
import { startCluster } from './servers/redis-cluster.js'
import { type RedisServer, startRedis } from './servers/redis-server.js'
import { waitUntil } from './wait-until.js'

// Glide prints each error reply and each failed reconnect.
Logger.setLoggerConfig('off')

/** Glide ends the connections of a closed client at its next reconciliation, by default up to 3 s later. */
const OPTIONS = { requestTimeout: 1_000, advancedConfiguration: { pubsubReconciliationIntervalMs: 300 } }
const END_MS = 10_000

type Glide = GlideClient | GlideClusterClient

export interface GlideTopology {
  readonly name: string
  start(): Promise<Servers>
  open(options: BaseClientConfiguration): Promise<Glide>
}

interface Servers {
  readonly nodes: readonly RedisServer[]
  /** The server that owns this channel or key. */
  nodeOf(key: string): Promise<RedisServer>
  stop(): Promise<void>
}

export const GLIDE_TOPOLOGIES: readonly GlideTopology[] = [
  {
    name: 'one server',
    async start() {
      const server = await startRedis()
      return { nodes: [server], nodeOf: async () => server, stop: () => server.stop() }
    },
    open: (options) => GlideClient.createClient(options),
  },
  { name: 'a cluster', start: () => startCluster(), open: (options) => GlideClusterClient.createClient(options) },
]

export interface GlideFixture {
  readonly isCluster: boolean
  /** What a test opens: closed after it. */
  readonly glides: Glide[]
  readonly clients: Client[]
  servers(): Servers
  open(options?: Partial<BaseClientConfiguration>): Promise<Glide>
  openPort(): Promise<RedisPort>
  client(options?: ClientOptions): Promise<Client>
  /** The channels that are subscribed to at the servers. */
  channels(): Promise<unknown[]>
}

/** Servers for the tests of a `describe`; checks after each test that nothing is left of it. */
export function setUpGlide(topology: GlideTopology): GlideFixture {
  let servers: Servers
  const glides: Glide[] = []
  const clients: Client[] = []
  const open: GlideFixture['open'] = async (options) => {
    const addresses = servers.nodes.map(({ host, port }) => ({ host, port }))
    const glide = await topology.open({ ...OPTIONS, addresses, ...options })
    glides.push(glide)
    return glide
  }
  const openPort = async (): Promise<RedisPort> => valkeyGlide(await open(), { subscriber: open })
  const channels = async (): Promise<unknown[]> => {
    const list = (node: RedisServer, kind: string) => node.admin.call('PUBSUB', kind) as Promise<unknown[]>
    const all = servers.nodes.flatMap((node) => [list(node, 'CHANNELS'), list(node, 'SHARDCHANNELS')])
    return (await Promise.all(all)).flat()
  }
  const flush = async ({ admin }: RedisServer): Promise<void> => {
    if (((await admin.call('ROLE')) as unknown[])[0] === 'master') await admin.flushall()
  }
  let watch: ReturnType<typeof watchProcess>
  let timers: number

  before(async () => {
    servers = await topology.start()
  })
  beforeEach(() => {
    watch = watchProcess()
    timers = timersLeft()
  })
  afterEach(async () => {
    try {
      for (const one of clients) await one.close()
      for (const glide of glides) glide.close()
      const isQuiet = async (): Promise<boolean> => (await channels()).length === 0
      await waitUntil(isQuiet, { timeoutMs: END_MS, message: 'no channel is left' })
      await waitUntil(() => timersLeft(timers) <= 0, { timeoutMs: 2_000, message: 'no timer is left' })
      await watch.assertQuiet()
    } finally {
      watch.stop()
      glides.length = 0
      clients.length = 0
      await Promise.all(servers.nodes.map(flush))
    }
  })
  after(async () => {
    try {
      const isQuiet = async (): Promise<boolean> =>
        (await Promise.all(servers.nodes.map((node) => node.connections()))).flat().length === 0
      await waitUntil(isQuiet, { timeoutMs: END_MS, message: 'no connection is left' })
    } finally {
      await servers.stop()
    }
  })

  return {
    isCluster: topology.name === 'a cluster',
    glides,
    clients,
    servers: () => servers,
    open,
    openPort,
    async client(options = {}) {
      const opened = await connect({ client: await openPort(), checkLockSyncedSlaves: false, ...options })
      clients.push(opened)
      return opened
    },
    channels,
  }
}
