import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { bun } from '../../src/adapters/bun/port.js'
import { ioredis } from '../../src/adapters/ioredis/port.js'
import { nodeRedis } from '../../src/adapters/node-redis/port.js'
import type { RedisPort } from '../../src/adapters/port.js'
import { connect } from '../../src/index.js'
import { isBun, openBun } from '../support/bun.js'
import { expectNothingLeft, type ProcessWatch, watchProcess } from '../support/leak-check.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Sends a command on the client of the user. */
type Send = (command: string, ...args: string[]) => Promise<unknown>

interface Adapter {
  readonly name: string
  open(url: string): Promise<{ port: RedisPort; end: () => void; send: Send }>
}

const BUN_OPTIONS = {
  Bun: {},
  'Bun that never reconnects, without an offline queue': { autoReconnect: false, enableOfflineQueue: false },
  'Bun without pipelining': { enableAutoPipelining: false },
}

const adapters: readonly Adapter[] = [
  {
    name: 'ioredis',
    async open(url) {
      const redis = new Redis(url)
      redis.on('error', () => {})
      return { port: ioredis(redis), end: () => redis.disconnect(), send: (...command) => redis.call(...command) }
    },
  },
  {
    name: 'ioredis that never reconnects and speaks RESP2, with string numbers',
    async open(url) {
      const redis = new Redis(url, { retryStrategy: () => null, protocol: 2, stringNumbers: true })
      redis.on('error', () => {})
      return { port: ioredis(redis), end: () => redis.disconnect(), send: (...command) => redis.call(...command) }
    },
  },
  {
    name: 'node-redis',
    async open(url) {
      const redis = createClient({ url })
      redis.on('error', () => {})
      await redis.connect()
      const end = (): void => void (redis.isOpen && redis.destroy())
      return { port: nodeRedis(redis), end, send: (...command) => redis.sendCommand(command) }
    },
  },
  {
    name: 'node-redis that never reconnects and speaks RESP2, without an offline queue',
    async open(url) {
      const redis = createClient({ url, RESP: 2, disableOfflineQueue: true, socket: { reconnectStrategy: false } })
      redis.on('error', () => {})
      await redis.connect()
      const end = (): void => void (redis.isOpen && redis.destroy())
      return { port: nodeRedis(redis), end, send: (...command) => redis.sendCommand(command) }
    },
  },
  ...Object.entries(isBun ? BUN_OPTIONS : {}).map(([name, options]) => ({
    name,
    async open(url: string) {
      const redis = openBun(url, options)
      await redis.connect()
      const send: Send = (command, ...args) => redis.send(command, args)
      return { port: bun(redis), end: () => redis.close(), send }
    },
  })),
]

describe('connect()', () => {
  it('connect() rejects a client that does not return the replies of Redis', async () => {
    const legacy = { isOpen: true, options: { legacyMode: true }, sendCommand: () => {}, subscribe: () => {} }
    await assert.rejects(connect({ client: legacy as never }), { code: 'LOCK_CONFIG', message: /legacyMode/ })
  })
})

for (const adapter of adapters) {
  describe(`the port of ${adapter.name}`, () => {
    let server: RedisServer
    let watch: ProcessWatch
    let port: RedisPort
    let end: () => void
    let send: Send
    let resubscribed = 0
    let lost = new Set<string>()

    before(async () => {
      server = await startRedis()
    })
    beforeEach(async () => {
      watch = watchProcess()
      resubscribed = 0
      lost = new Set()
      ;({ port, end, send } = await adapter.open(server.url))
      port.listen({
        reconnected: () => {},
        subscriptionLost: (channel) => lost.add(channel),
        resubscribed: (channel) => {
          assert(lost.has(channel), 'first it is lost')
          resubscribed++
        },
      })
    })
    afterEach(async () => {
      await port.close()
      end()
      await expectNothingLeft(server)
      await watch.assertQuiet()
      watch.stop()
    })
    after(() => server.stop())

    it('the port sends a command and resolves to the reply of Redis', async () => {
      assert.equal(Number(await port.send(['EVAL', 'return 41 + 1', '1', 'a'], 'a')), 42)
      assert.equal(await port.send(['EVAL', 'return nil', '1', 'a'], 'a'), null)
      const list = (await port.send(['EVAL', "return {1, 'two', 3}", '1', 'a'], 'a')) as unknown[]
      assert.deepEqual(list.map(String), ['1', 'two', '3'])
      assert.equal(await port.send(['EVAL', 'return KEYS[1] .. ARGV[1]', '1', 'ä', '锁'], 'ä'), 'ä锁')
    })

    it('the port distinguishes an error reply from a lost connection', async () => {
      for (const script of [
        "return redis.error_reply('WRONGTYPE of something')",
        "return redis.error_reply('BUSY now')",
        'nonsense',
        "return redis.call('hget', KEYS[1])",
      ]) {
        const outcome = await settlesWithin(port.send(['EVAL', script, '1', 'a'], 'a'), 1_000)
        assert(outcome.status === 'rejected')
        assert.equal(port.isErrorReply(outcome.reason), true, String(outcome.reason))
      }
      const missing = await settlesWithin(port.send(['EVALSHA', 'f'.repeat(40), '1', 'a'], 'a'), 1_000)
      assert(missing.status === 'rejected' && port.isErrorReply(missing.reason))
      for (const message of [
        'Connection is closed.',
        'Socket closed unexpectedly',
        'read ECONNRESET',
        'The client is offline',
      ]) {
        assert.equal(port.isErrorReply(new Error(message)), false)
      }
    })

    it('the port receives messages from the moment subscribe() resolves until unsubscribe()', async () => {
      const received: string[] = []
      await port.subscribe('c', (message) => received.push(message))
      assert.equal(await server.admin.publish('c', '0'), 1)
      await waitUntil(() => received.length === 1)
      await server.admin.publish('other', '0')
      await port.unsubscribe('c')
      assert.equal(await server.admin.publish('c', '0'), 0)
      assert.deepEqual(received, ['0'])
    })

    it('the port receives messages of a channel unsubscribed and subscribed again in the same turn', async () => {
      let received = 0
      for (let round = 0; round < 30; round++) {
        const before = received
        await port.subscribe('c', () => received++)
        void port.unsubscribe('c')
        await port.subscribe('c', () => received++)
        await server.admin.publish('c', '0')
        await waitUntil(() => received > before, { timeoutMs: 500, message: `a message arrives in round ${round}` })
        void port.unsubscribe('c')
      }
    })

    it('the port reports each channel as lost, then as resubscribed, when the connection is killed', async () => {
      const received = new Set<string>()
      const channels = Array.from({ length: 50 }, (_, n) => `c:${n}`)
      await Promise.all(channels.map((channel) => port.subscribe(channel, () => received.add(channel))))
      for (let round = 1; round <= 3; round++) {
        received.clear()
        lost.clear()
        await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
        await waitUntil(() => lost.size === 50)
        await waitUntil(() => resubscribed === 50 * round)
        for (const channel of channels) assert.equal(await server.admin.publish(channel, '0'), 1)
        await waitUntil(() => received.size === 50)
      }
      await Promise.all(channels.map((channel) => port.unsubscribe(channel)))
    })

    it('a SUBSCRIBE that is lost with its connection does not block the unsubscribe and subscribe queued behind it', async () => {
      await using proxy = await startProxy(server.port)
      const opened = await adapter.open(proxy.url)
      opened.port.listen({ reconnected: () => {}, resubscribed: () => {} })
      try {
        await opened.port.subscribe('other', () => {})
        let [before, after] = [0, 0]
        proxy.freeze()
        const lost = opened.port.subscribe('c', () => before++)
        lost.catch(() => {})
        await sleep(50) // the first SUBSCRIBE is in flight
        const left = opened.port.unsubscribe('c')
        const again = opened.port.subscribe('c', () => after++)
        await sleep(50)
        proxy.cutAll()
        proxy.pass()
        await settlesWithin(left, 5_000)
        assert.equal((await settlesWithin(again, 5_000)).status, 'fulfilled')
        await waitUntil(async () => (await server.admin.publish('c', '0')) === 1)
        await waitUntil(() => after > 0)
        assert.equal(before, 0)
      } finally {
        await opened.port.close()
        opened.end()
      }
    })

    it("the port closes what it opened, even while subscribing, and leaves the user's client open", async () => {
      const subscribing = port.subscribe('c', () => {}).catch(() => {})
      await port.close()
      await settlesWithin(subscribing, 1_000).catch(() => {})
      await assert.rejects(port.send(['EVAL', "return 'still'", '1', 'a'], 'a'))
      assert.equal(await send('ECHO', 'still'), 'still')
    })
  })
}
