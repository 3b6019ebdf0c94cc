/** Connections that go silent, which TCP itself notices after minutes or never. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type Client, type ClientOptions, connect } from '../../src/index.js'
import { isBun, openBun } from '../support/bun.js'
import { watchWholeProcess } from '../support/fixture.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy, type TcpProxy } from '../support/servers/tcp-proxy.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** The guarantee: with the defaults of each driver, locks work again within this time, ms. */
const LIMIT_MS = 10_000

type Ends = (() => unknown)[]
type Open = (url: string, ends: Ends, options?: ClientOptions) => Promise<Client>

/** Each with the default settings of its library and of Holdfast. */
const WAYS: Record<string, Open> = {
  'a URL': (url, _, options) => connect({ url, ...options }),
  'a configuration': (url, _, options) => connect({ config: { singleServerConfig: { address: url } }, ...options }),
  "the user's ioredis": async (url, ends, options) => {
    const redis = new Redis(url)
    redis.on('error', () => {})
    ends.push(() => redis.disconnect())
    return await connect({ client: redis, ...options })
  },
  "the user's node-redis": async (url, ends, options) => {
    const redis = createClient({ url })
    redis.on('error', () => {})
    await redis.connect()
    ends.push(() => redis.isOpen && redis.destroy())
    return await connect({ client: redis, ...options })
  },
}

if (isBun) {
  WAYS["the user's client of Bun"] = async (url, ends, options) => {
    const redis = openBun(url)
    ends.push(() => redis.close())
    return await connect({ client: redis, ...options })
  }
}

describe('connections to an unresponsive server', { concurrency: true }, () => {
  watchWholeProcess()
  for (const [name, way] of Object.entries(WAYS)) describe(name, { concurrency: 1 }, () => connectionsOf(name, way))

  describe('an idle connection', () => {
    const fixture = setUp()

    it('an idle connection is pinged every pingConnectionInterval', async () => {
      const { client, proxy, warnings } = await fixture.open((url) =>
        connect({ config: { singleServerConfig: { address: url, pingConnectionInterval: 1_000 } } }),
      )
      proxy.silence()
      await waitUntil(() => warnings.includes('CONNECTION_REPLACED'), { timeoutMs: LIMIT_MS })
      await client.getLock('h:idle').withLock(() => {})
    })
  })

  describe('a client that its owner closed', () => {
    const fixture = setUp()

    it('a client that its owner closed is not replaced', async () => {
      const { client, proxy, warnings } = await fixture.open(async (url, ends) => {
        const redis = new Redis(url, { maxRetriesPerRequest: 0 })
        ends.push(() => redis.disconnect())
        const opened = await connect({ client: redis, commandTimeoutMs: 500 })
        redis.disconnect()
        return opened
      })
      for (let tries = 0; tries < 8; tries++) {
        await assert.rejects(client.getLock('h:closed').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
        await sleep(500)
      }
      assert.deepEqual(warnings, [])
      assert.equal(proxy.connections, 0)
    })
  })
})

interface Opened {
  readonly client: Client
  readonly proxy: TcpProxy
  /** The codes of its warnings. */
  readonly warnings: string[]
}

/** A server for the tests of a `describe`, and a proxy per client. */
function setUp(): { server: () => RedisServer; ends: Ends; open(way: Open, options?: ClientOptions): Promise<Opened> } {
  let server: RedisServer
  const ends: Ends = []
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })
  return {
    server: () => server,
    ends,
    async open(way, options) {
      const proxy = await startProxy(server.port)
      ends.push(() => proxy.stop())
      const client = await way(proxy.url, ends, options)
      ends.push(() => client.close())
      const warnings: string[] = []
      client.on('warning', (warning) => warnings.push((warning as { code?: string }).code ?? warning.message))
      return { client, proxy, warnings }
    },
  }
}

/** Takes and releases a lock, repeatedly until that works. @returns how long it took, ms */
async function locksAgain(client: Client): Promise<number> {
  const from = performance.now()
  const lockOnce = (): Promise<boolean> =>
    client
      .getLock('h:again')
      .withLock(() => true)
      .catch(() => false)
  await waitUntil(lockOnce, { timeoutMs: 3 * LIMIT_MS, message: 'the client locks again' })
  return performance.now() - from
}

function connectionsOf(name: string, way: Open): void {
  const fixture = setUp()

  it('connections that go silent without being closed are replaced: locks work again within 10 s', async (t) => {
    const { client, proxy, warnings } = await fixture.open(way)
    const held = await client.getLock('h:held').lock()
    assert(proxy.silence() > 0)
    const tookMs = await locksAgain(client)
    t.diagnostic(`${name}: locks again after ${Math.round(tookMs)} ms`)
    assert(tookMs < LIMIT_MS, `${tookMs} ms`)
    assert.deepEqual(warnings, ['CONNECTION_REPLACED'])
    assert(await held.isHeld(), 'what was held before is still held')
    await held.unlock()
  })

  it('a waiter whose subscriber connection goes silent is woken through another one', async () => {
    const { client, proxy, warnings } = await fixture.open(way)
    const { admin, url } = fixture.server()
    const holder = await connect(url)
    fixture.ends.push(() => holder.close())
    const hold = await holder.getLock('h:waited').lock()
    const waiting = client.getLock('h:waited').lock()
    const listeners = async (): Promise<number> =>
      String(await admin.call('CLIENT', 'LIST'))
        .split('\n')
        .filter((line) => / sub=[1-9]/.test(line)).length
    await waitUntil(async () => (await listeners()) === 1)
    proxy.silence()
    await waitUntil(() => warnings.includes('CONNECTION_REPLACED'), { timeoutMs: LIMIT_MS })
    await waitUntil(async () => (await listeners()) >= 1)
    await hold.unlock()
    const outcome = await settlesWithin(waiting, LIMIT_MS)
    assert(outcome.status === 'fulfilled')
    await outcome.value.unlock()
  })

  it('connections are kept when the server is slow for all clients', async () => {
    const { client, warnings } = await fixture.open(way, { commandTimeoutMs: 20_000 })
    await client.getLock('h:slow').withLock(() => {})
    const slow = fixture.server().admin.call('DEBUG', 'SLEEP', '3.5')
    await sleep(50) // so that DEBUG arrives first
    await client.getLock('h:slow').withLock(() => {})
    await slow
    assert.deepEqual(warnings, [])
  })
}
