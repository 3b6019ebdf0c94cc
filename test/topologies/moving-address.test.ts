/** One address that leads to another server after a failover, as managed services have it. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { GlideClient } from '@valkey/valkey-glide'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, connect } from '../../src/index.js'
import { type Driver, drivers } from '../support/drivers.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy, type TcpProxy } from '../support/servers/tcp-proxy.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const LIMIT_MS = 20_000

const WAYS: readonly Driver[] = [
  ...drivers,
  {
    name: 'a configuration',
    async open(url, options) {
      const config = { singleServerConfig: { address: url } }
      return { client: await connect({ config, ...options }), end: async () => {} }
    },
  },
  {
    name: 'a glide client of the user',
    async open(url, options) {
      const { hostname: host, port } = new URL(url)
      const settings = { addresses: [{ host, port: Number(port) }], requestTimeout: 1_000 }
      const glide = await GlideClient.createClient(settings)
      const subscriber = (): Promise<GlideClient> => GlideClient.createClient(settings)
      return {
        client: await connect({ client: valkeyGlide(glide, { subscriber }), ...options }),
        end: async () => glide.close(),
      }
    },
  },
]

describe('one address', { concurrency: true }, () => {
  for (const way of WAYS) {
    describe(way.name, { concurrency: 1 }, () => {
      let master: RedisServer
      let replica: RedisServer
      const ends: (() => unknown)[] = []
      before(async () => {
        master = await startRedis()
        replica = await startRedis()
      })
      after(() => Promise.all([master.stop(), replica.stop()]))
      afterEach(async () => {
        for (const end of ends.splice(0).reverse()) await end()
      })

      async function open(): Promise<{ client: Client; proxy: TcpProxy; warnings: string[] }> {
        const proxy = await startProxy(master.port)
        const { client, end } = await way.open(proxy.url, {})
        ends.push(
          () => proxy.stop(),
          end,
          () => client.close(),
        )
        const warnings: string[] = []
        client.on('warning', (warning) => warnings.push((warning as { code?: string }).code ?? warning.message))
        return { client, proxy, warnings }
      }

      it('holds are kept when an address moves while the old master lives on as a replica', async () => {
        await replica.admin.replicaof('127.0.0.1', master.port)
        await waitUntil(() => replica.follows(master), { timeoutMs: LIMIT_MS, message: 'the replica follows' })
        const { client, proxy } = await open()
        const held = await client.getLock('moved:held').lock()
        await waitUntil(async () => (await replica.admin.exists('moved:held')) === 1)
        await replica.admin.replicaof('NO', 'ONE')
        proxy.moveTo(replica.port)
        await master.admin.replicaof('127.0.0.1', replica.port)
        const lockOnce = (): Promise<boolean> =>
          client
            .getLock('moved:next')
            .withLock(() => true)
            .catch(() => false)
        await waitUntil(lockOnce, { timeoutMs: LIMIT_MS, message: 'the client locks again' })
        assert(await held.isHeld(), 'what was held before is still held')
        await held.unlock()
        assert.equal(await replica.admin.exists('moved:held'), 0)
        ;[master, replica] = [replica, master]
      })

      it('no connection is replaced while an operator pauses the server', async () => {
        const { client, warnings } = await open()
        await client.getLock('paused').withLock(() => {})
        await master.admin.call('CLIENT', 'PAUSE', '6000', 'WRITE')
        const locking = client.getLock('paused').withLock(() => true)
        await sleep(5_000)
        await master.admin.call('CLIENT', 'UNPAUSE')
        assert(await locking)
        assert.deepEqual(warnings, [])
      })
    })
  }
})
