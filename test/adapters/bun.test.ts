/** Bun's RedisClient as a port. What needs Bun runs on it in `npm run verify -- consumers`; port.test.ts has the rest. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type BunRedisLike, bun } from '../../src/adapters/bun/port.js'
import type { RedisPort } from '../../src/adapters/port.js'
import { connect } from '../../src/index.js'
import { isBun, openBun } from '../support/bun.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { startRedis } from '../support/servers/redis-server.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

describe("a client with the structure of Bun's", () => {
  const standIn = (mode: string): BunRedisLike => ({
    connected: true,
    bufferedAmount: 0,
    connect: async () => ({ mode }),
    close() {},
    send: async () => 'PONG',
    duplicate: async () => standIn(mode),
    subscribe: async () => 1,
    unsubscribe: async () => undefined,
  })

  it('a client of Bun is recognised by its structure, and taken by connect()', async () => {
    const client = await connect({ client: standIn('standalone') })
    await client.close()
  })

  for (const [mode, message] of [
    ['cluster', /part of a cluster, which Bun's RedisClient does not support/],
    ['sentinel', /this is a Sentinel, which Bun's RedisClient cannot ask/],
  ] as const) {
    it(`a client of Bun that is connected to a server in the mode ${mode} is refused by connect()`, async () => {
      await assert.rejects(connect({ client: standIn(mode) }), { code: 'LOCK_CONFIG', message })
    })
  }

  it('bun() refuses what is no client of Bun', () => {
    assert.throws(() => bun({} as never), { code: 'LOCK_CONFIG' })
  })
})

if (isBun) describeOnBun()

function describeOnBun(): void {
  describe("Bun's own client", () => {
    const fixture = setUpFixture(drivers.find(({ name }) => name.includes('Bun')))

    function open(url: string, options?: object): { redis: BunRedisLike; port: RedisPort } {
      const redis = openBun(url, options)
      const port = bun(redis)
      fixture.onEnd(() => {
        redis.close()
        return port.close()
      })
      return { redis, port }
    }

    it('a client of Bun that is part of a cluster is refused', async () => {
      await using server = await startRedis({ args: ['--cluster-enabled', 'yes'] })
      const redis = openBun(server.url)
      await assert.rejects(connect({ client: redis }), { code: 'LOCK_CONFIG', message: /part of a cluster/ })
      redis.close()
    })

    for (const options of [{}, { enableAutoPipelining: false }]) {
      it(`a command whose connection broke is never repeated, with ${JSON.stringify(options)}`, async () => {
        await using proxy = await startProxy(fixture.server.port)
        const { port } = open(proxy.url, options)
        await port.send(['PING'], 'n')
        proxy.dropNextReply((request) => /INCR/.test(request))
        const [first, second] = [port.send(['INCR', 'n'], 'n'), port.send(['INCR', 'n'], 'n')]
        const lost = await Promise.allSettled([first, second])
        assert.deepEqual(
          lost.map((one) => one.status === 'rejected' && port.isErrorReply(one.reason)),
          [false, false],
        )
        const count = Number(await port.send(['INCR', 'n'], 'n'))
        assert(count === 2 || count === 3, `${count}: the second one may have run`)
        assert.equal(await port.send(['DEL', 'n'], 'n'), 1)
      })
    }

    it('a connection that was lost is back in the database that was selected', async () => {
      const { admin } = fixture.server
      const redis = openBun(fixture.server.url)
      await redis.connect()
      await redis.send('SELECT', ['3'])
      const port = bun(redis)
      let reconnects = 0
      port.listen({ reconnected: () => reconnects++, resubscribed() {} })
      await port.send(['SET', 'here', '1'], 'here')
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal')
      await waitUntil(() => reconnects === 1)
      assert.match(String(await port.send(['CLIENT', 'INFO'], '')), / db=3 /)
      assert.equal(await port.send(['DEL', 'here'], 'here'), 1)
      await port.close()
      redis.close()
    })

    it('a channel that Redis refuses is rejected, and the others stay subscribed', async () => {
      const { admin, url } = fixture.server
      await admin.acl('SETUSER', 'app', 'reset', 'on', '>pw', '+@all', '~*', '&ok*')
      fixture.onEnd(() => admin.acl('DELUSER', 'app'))
      const { port } = open(url.replace('redis://', 'redis://app:pw@'))
      const messages: string[] = []
      await port.subscribe('ok:1', (message) => messages.push(message))
      const refused = port.subscribe('no:1', () => {})
      const allowed = port.subscribe('ok:2', (message) => messages.push(message))
      await settlesWithin(assert.rejects(refused, /NOPERM/), 5_000)
      await settlesWithin(allowed, 5_000)
      await waitUntil(async () => (await admin.publish('ok:1', 'one')) === 1)
      await waitUntil(async () => (await admin.publish('ok:2', 'two')) === 1)
      await waitUntil(() => messages.length === 2)
      assert.deepEqual(messages, ['one', 'two'])
      // Bun keeps the listener of a channel that was refused.
      await admin.acl('SETUSER', 'app', '&no*')
      await port.unsubscribe('no:1')
      await port.subscribe('no:1', (message) => messages.push(message))
      await admin.publish('no:1', 'three')
      await waitUntil(() => messages.length === 3)
      assert.deepEqual(messages, ['one', 'two', 'three'])
    })

    it('a channel that is left before the first SUBSCRIBE is confirmed is not subscribed to', async () => {
      await using proxy = await startProxy(fixture.server.port)
      const sent = proxy.record()
      proxy.delay(300, (request) => /SUBSCRIBE/.test(request))
      const { port } = open(proxy.url)
      const [left, kept] = ['redisson_lock__channel:{a}', 'redisson_lock__channel:{b}']
      const subscribing = port.subscribe(left, () => {})
      await waitUntil(() => sent.some((bytes) => /SUBSCRIBE/.test(String(bytes))))
      await port.unsubscribe(left)
      await subscribing
      await port.subscribe(kept, () => {})
      await waitUntil(async () => (await fixture.server.admin.pubsub('CHANNELS')).join() === kept)
    })

    it('a subscription that is lost without a word is reported although the server cannot be reached', async () => {
      await using proxy = await startProxy(fixture.server.port)
      const { port } = open(proxy.url)
      const channel = 'redisson_lock__channel:{a}'
      const events: string[] = []
      port.listen({
        reconnected() {},
        subscriptionLost: () => events.push('lost'),
        resubscribed: () => events.push('back'),
      })
      await port.subscribe(channel, () => {})
      proxy.refuse()
      proxy.cutAll()
      await waitUntil(() => events.includes('lost'))
      assert.deepEqual(events, ['lost'])
      await proxy.accept()
      await waitUntil(() => events.includes('back'), { timeoutMs: 15_000 })
      assert.equal(await fixture.server.admin.publish(channel, ''), 1)
    })
  })
}
