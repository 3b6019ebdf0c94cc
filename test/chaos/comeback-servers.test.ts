/** Whatever happens to one server, or to a master of a list of servers, every client takes locks again, by itself and soon. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type Client, connect } from '../../src/index.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** From the moment at which the server is there again until every client takes locks, ms. */
const SOON_MS = 5_000
const OUTAGE_MS = 3_000
const CLIENTS = 3

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function serve(clients: readonly Client[], where: RedisServer, limitMs: number): Promise<void> {
  await Promise.all(
    clients.map(async (client, index) => {
      let attempt = 0
      await waitUntil(
        async () => {
          const name = `comeback:${index}:${attempt++}`
          const hold = await client
            .getLock(name)
            .tryLock()
            .catch(() => null)
          const isThere = hold && (await where.admin.exists(name)) === 1
          await hold?.unlock()
          return isThere
        },
        { timeoutMs: limitMs, message: 'every client takes locks again' },
      )
    }),
  )
}

describe('one server', { concurrency: 1 }, () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())

  const ways: Record<string, () => Promise<Client>> = {
    'a URL': () => connect(server.url),
    singleServerConfig: () => connect({ config: { singleServerConfig: { address: server.url } } }),
    'singleServerConfig with a resolver of passwords': () =>
      connect({ config: { singleServerConfig: { address: server.url } }, credentialsResolver: () => ({}) }),
    'an ioredis client of the user': async () => {
      const user = new Redis(server.url)
      user.on('error', () => {})
      ends.push(() => user.disconnect())
      return await connect({ client: user })
    },
    'a node-redis client of the user': async () => {
      const user = createClient({ url: server.url })
      user.on('error', () => {})
      await user.connect()
      ends.push(() => user.destroy())
      return await connect({ client: user })
    },
  }

  const faults: Record<string, () => Promise<void>> = {
    async 'is down for a while'() {
      await server.kill()
      await sleep(OUTAGE_MS)
      await server.restart()
    },
    async 'is frozen for a while'() {
      server.freeze()
      await sleep(OUTAGE_MS)
      server.thaw()
    },
    async 'closes all connections, again and again'() {
      for (let times = 0; times < 10; times++) {
        await server.admin.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'SKIPME', 'yes')
        await sleep(30)
      }
    },
  }

  for (const [fault, inject] of Object.entries(faults)) {
    it(`one server ${fault}: every client acquires locks again within ${SOON_MS / 1_000} s`, async () => {
      const opening = Object.values(ways).flatMap((way) => Array.from({ length: CLIENTS }, way))
      const clients = await Promise.all(opening)
      for (const client of clients) ends.push(() => client.close())
      await serve(clients, server, SOON_MS)
      await inject()
      await serve(clients, server, SOON_MS)
    })
  }
})

describe('a list of servers', { concurrency: 1 }, () => {
  for (const section of ['masterSlaveServersConfig', 'replicatedServersConfig'] as const) {
    it(`${section}: the master is killed and another one promoted: every client acquires locks again within ${SOON_MS / 1_000} s`, async () => {
      const args = ['--repl-diskless-sync-delay', '0']
      const master = await startRedis({ args })
      ends.push(() => master.stop())
      const replica = await startRedis({ args, config: `replicaof 127.0.0.1 ${master.port}` })
      ends.push(() => replica.stop())
      await waitUntil(() => replica.follows(master), { timeoutMs: 10_000, message: 'the replica follows' })
      const config =
        section === 'masterSlaveServersConfig'
          ? { [section]: { masterAddress: master.url, slaveAddresses: [replica.url] } }
          : { [section]: { nodeAddresses: [master.url, replica.url] } }
      const opening = Array.from({ length: CLIENTS }, () => connect({ config, checkLockSyncedSlaves: false }))
      const clients = await Promise.all(opening)
      for (const client of clients) ends.push(() => client.close())
      await serve(clients, master, SOON_MS)
      await master.kill()
      await sleep(OUTAGE_MS)
      await replica.admin.replicaof('NO', 'ONE')
      await serve(clients, replica, SOON_MS)
      assert.match(await replica.admin.info('replication'), /role:master/)
    })
  }
})
