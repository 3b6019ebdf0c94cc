/** Sentinels that are silent, and such that know the servers by other names than those that the client sees. */
import assert from 'node:assert/strict'
import { lookup } from 'node:dns'
import { afterEach, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createSentinel } from 'redis'
import { type Client, connect } from '../../src/index.js'
import { MASTER_NAME, type SentinelGroup, startSentinels } from '../support/servers/redis-sentinel.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const LIMIT_MS = 20_000

type Nodes = { host: string; port: number }[]
type Open = (sentinels: Nodes, ends: (() => unknown)[]) => Promise<Client>

const WAYS: Record<string, Open> = {
  'a configuration': (sentinels) => {
    const sentinelAddresses = sentinels.map(({ host, port }) => `redis://${host}:${port}`)
    return connect({ config: { sentinelServersConfig: { sentinelAddresses, masterName: MASTER_NAME } } })
  },
  "the user's ioredis": async (sentinels, ends) => {
    const redis = new Redis({ sentinels, name: MASTER_NAME })
    redis.on('error', () => {})
    ends.push(() => redis.disconnect())
    return await connect({ client: redis })
  },
  "the user's node-redis": async (sentinels, ends) => {
    const sentinel = createSentinel({ name: MASTER_NAME, sentinelRootNodes: sentinels })
    sentinel.on('error', () => {})
    await sentinel.connect()
    ends.push(() => sentinel.isOpen && sentinel.destroy())
    return await connect({ client: sentinel })
  },
}

describe('Sentinels', { concurrency: 1 }, () => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })

  async function open(
    way: Open,
    sentinels: SentinelGroup['sentinels'],
  ): Promise<{ client: Client; warnings: string[] }> {
    const client = await way(
      sentinels.map(({ host, port }) => ({ host, port })),
      ends,
    )
    ends.push(() => client.close())
    const warnings: string[] = []
    client.on('warning', (warning) => warnings.push((warning as { code?: string }).code ?? warning.message))
    await client.getLock('sentinels').withLock(() => {})
    return { client, warnings }
  }

  async function locksAgain(client: Client): Promise<void> {
    const lockOnce = (): Promise<boolean> =>
      client
        .getLock('sentinels')
        .withLock(() => true)
        .catch(() => false)
    await waitUntil(lockOnce, { timeoutMs: LIMIT_MS, message: 'the client locks again' })
  }

  // When this fails, node-redis is corrected: then no test must allow such a connection any more.
  it('Sentinels keep a connection that node-redis, without Holdfast, ends while it reconnects', async () => {
    const group = await startSentinels({ hostName: 'localhost', sentinels: 1 })
    ends.push(() => group.stop())
    let delayMs = 0
    const sentinel = createSentinel({
      name: MASTER_NAME,
      sentinelRootNodes: group.sentinels.map(({ port }) => ({ host: 'localhost', port })),
      nodeClientOptions: {
        socket: {
          lookup: (name, options, found) => void setTimeout(() => lookup(name, options, found), delayMs),
        },
      },
    })
    sentinel.on('error', () => {})
    await sentinel.connect()
    delayMs = 300
    const { admin } = await group.master()
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await sleep(delayMs / 2)
    await sentinel.destroy()
    await sleep(delayMs)
    const isUnused = (connection: string): boolean => / cmd=(NULL|client\|setinfo) /.test(connection)
    await waitUntil(async () => (await group.connections()).some(isUnused), { message: 'such a connection' })
  })

  it('Sentinels whose first is silent when the master dies lead to its successor', async (t) => {
    const group = await startSentinels({ sentinels: 4 })
    ends.push(() => group.stop())
    const clients = await Promise.all(Object.values(WAYS).map((way) => open(way, group.sentinels)))
    const [first] = group.sentinels
    first?.freeze()
    ends.push(() => first?.thaw())
    await group.killMaster()
    const from = performance.now()
    const again = clients.map(async ({ client }, index) => {
      await locksAgain(client)
      t.diagnostic(`${Object.keys(WAYS)[index]}: ${Math.round(performance.now() - from)} ms`)
    })
    await Promise.all(again)
  })

  it('Sentinels that all fall silent cost grants for 10 s, as their master may have been replaced', async () => {
    const group = await startSentinels()
    ends.push(() => group.stop())
    const clients = await Promise.all(Object.values(WAYS).map((way) => open(way, group.sentinels)))
    for (const sentinel of group.sentinels) sentinel.freeze()
    ends.push(() => group.sentinels.map((sentinel) => sentinel.thaw()))
    const isRefused = async (client: Client): Promise<boolean> =>
      await client
        .getLock('sentinels')
        .tryWithLock(() => {})
        .then(
          () => false,
          (error) => error.code === 'LOCK_NOT_REPLICATED' && error.message.includes('do not confirm it'),
        )
    // Until then the last reply counts, for a second.
    await Promise.all(clients.map(({ client }) => waitUntil(() => isRefused(client), { message: 'a refusal' })))
    await Promise.all(clients.map(({ client }) => locksAgain(client)))
  })

  it('Sentinels that know the servers by name replace no connection but for a successor', async (t) => {
    const group = await startSentinels({ hostName: 'localhost' })
    ends.push(() => group.stop())
    const clients = await Promise.all(Object.values(WAYS).map((way) => open(way, group.sentinels)))
    await group.failover()
    await Promise.all(clients.map(({ client }) => locksAgain(client)))
    await group.killMaster()
    await group.waitForFailover()
    await Promise.all(clients.map(({ client }) => locksAgain(client)))
    for (const [index, { warnings }] of clients.entries()) {
      t.diagnostic(`${Object.keys(WAYS)[index]}: ${warnings.join()}`)
      assert(warnings.filter((code) => code === 'CONNECTION_REPLACED').length <= 2, warnings.join())
    }
  })
})
