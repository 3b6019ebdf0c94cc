import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { GLIDE_TOPOLOGIES, setUpGlide } from '../support/valkey-glide.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

for (const topology of GLIDE_TOPOLOGIES) {
  describe(`the port of valkey-glide with ${topology.name}`, () => {
    const { isCluster, glides, servers, open, openPort } = setUpGlide(topology)
    let port: RedisPort
    let reconnected = 0
    let resubscribed = 0
    const lost = new Set<string>()

    beforeEach(async () => {
      port = await openPort()
      reconnected = 0
      resubscribed = 0
      lost.clear()
      port.listen({
        reconnected: () => reconnected++,
        subscriptionLost: (channel) => lost.add(channel),
        resubscribed: () => resubscribed++,
      })
    })
    afterEach(() => port.close())

    /** Publishes in each way that the channel is subscribed to. @returns the number of receivers */
    const publish = async (channel: string, message: string): Promise<number> => {
      const { admin } = await servers().nodeOf(channel)
      const plain = await admin.publish(channel, message)
      return isCluster ? plain + Number(await admin.call('SPUBLISH', channel, message)) : plain
    }
    const WAYS = isCluster ? 2 : 1

    it('the port of valkey-glide sends a command and resolves to the reply of Redis', async () => {
      assert.equal(await port.send(['EVAL', 'return 41 + 1', '1', 'a'], 'a'), 42)
      assert.equal(await port.send(['EVAL', 'return nil', '1', 'a'], 'a'), null)
      assert.deepEqual(await port.send(['EVAL', "return {1, 'two', false}", '1', 'a'], 'a'), [1, 'two', null])
      assert.equal(await port.send(['EVAL', 'return KEYS[1] .. ARGV[1]', '1', 'ä', '锁'], 'ä'), 'ä锁')
      assert.equal(await port.send(['EVAL', "return redis.status_reply('FINE')", '1', 'b'], 'b'), 'FINE')
    })

    it('the port of valkey-glide rejects with an error reply in the words of Redis', async () => {
      const replies: readonly (readonly [script: string, message: RegExp])[] = [
        ["return redis.error_reply('WRONGTYPE of something')", /^WRONGTYPE of something/],
        ["return redis.error_reply('BUSY now')", /^BUSY now/],
        ["return redis.error_reply('NOPERM it')", /^NOPERM it/],
        ["return redis.error_reply('NOREPLICAS it')", /^NOREPLICAS it/],
        ["return redis.error_reply('OOM it: full')", /^OOM it: full/],
        ['nonsense', /^ERR Error compiling script/],
        ["return redis.call('hget', KEYS[1])", /^ERR Wrong number of args/],
      ]
      // In a cluster glide itself retries these until its timeout.
      const notNow: typeof replies = [
        ["return redis.error_reply('READONLY You')", /^READONLY You/],
        ["return redis.error_reply('LOADING it')", /^LOADING it/],
        ["return redis.error_reply('MASTERDOWN it')", /^MASTERDOWN it/],
        ["return redis.error_reply('TRYAGAIN it')", /^TRYAGAIN it/],
      ]
      for (const [script, message] of isCluster ? replies : [...replies, ...notNow]) {
        const outcome = await settlesWithin(port.send(['EVAL', script, '1', 'a'], 'a'), 5_000)
        assert(outcome.status === 'rejected')
        assert.match((outcome.reason as Error).message, message)
        assert.equal(port.isErrorReply(outcome.reason), true)
      }
      await assert.rejects(port.send(['EVALSHA', 'f'.repeat(40), '1', 'a'], 'a'), /^ReplyError: NOSCRIPT /)
      for (const message of ['Connection is closed.', 'timed out', 'IO error'])
        assert.equal(port.isErrorReply(new Error(message)), false)
    })

    it('the port of valkey-glide does not mistake a timeout or a closed client for an error reply', async () => {
      const glide = await open()
      const other = valkeyGlide(glide)
      const node = await servers().nodeOf('a')
      node.freeze()
      const frozen = await settlesWithin(other.send(['GET', 'a'], 'a'), 10_000)
      node.thaw()
      assert(frozen.status === 'rejected' && !other.isErrorReply(frozen.reason))
      glide.close()
      const closed = await settlesWithin(other.send(['GET', 'a'], 'a'), 10_000)
      assert(closed.status === 'rejected' && !other.isErrorReply(closed.reason))
    })

    it('the port of valkey-glide receives messages from when subscribe() resolves until unsubscribe()', async () => {
      const received: string[] = []
      await port.subscribe('c', (message) => received.push(message))
      assert.equal(await publish('c', '0'), WAYS)
      await waitUntil(() => received.length === WAYS)
      await publish('other', '0')
      await port.unsubscribe('c')
      assert.equal(await publish('c', '0'), 0)
      assert.deepEqual(new Set(received), new Set(['0']))
    })

    it('the port of valkey-glide receives messages of a channel it left and joined again in one turn', async () => {
      let received = 0
      for (let round = 0; round < 20; round++) {
        await port.subscribe('c', () => received++)
        void port.unsubscribe('c')
        await port.subscribe('c', () => received++)
        const before = received
        assert.equal(await publish('c', '0'), WAYS)
        await waitUntil(() => received === before + WAYS, { message: `round ${round} arrives` })
        await port.unsubscribe('c')
      }
    })

    it('the port of valkey-glide reports channels as lost, then as resubscribed, after a kill', async () => {
      const received = new Set<string>()
      const names = Array.from({ length: 30 }, (_, n) => `c:${n}`)
      await Promise.all(names.map((name) => port.subscribe(name, () => received.add(name))))
      // A connection from before the first check is no reconnect.
      await sleep(1_200)
      for (let round = 1; round <= 2; round++) {
        received.clear()
        lost.clear()
        const before = resubscribed
        await Promise.all(servers().nodes.map(({ admin }) => admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')))
        await waitUntil(() => resubscribed > before, { timeoutMs: 15_000, message: `reported in round ${round}` })
        assert(lost.size > 0)
        for (const name of names) assert.equal(await publish(name, '0'), WAYS)
        await waitUntil(() => received.size === names.length)
      }
      await Promise.all(names.map((name) => port.unsubscribe(name)))
    })

    it('the port of valkey-glide reports when the command connection has been replaced', async () => {
      assert.equal(await port.send(['EVAL', 'return 1', '1', 'a'], 'a'), 1)
      const { admin } = await servers().nodeOf('a')
      const before = reconnected
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await waitUntil(() => reconnected > before, { timeoutMs: 10_000, message: 'it is reported' })
    })

    it('the port of valkey-glide queries replicas on the connection of the write, and reports a new one', async () => {
      await port.send(['SET', 'a', '1'], 'a')
      const before = reconnected
      const acknowledgement = await port.acknowledge?.('a', 1_000)
      assert.deepEqual(acknowledgement, isCluster ? { replicas: 1, acknowledged: 1 } : { replicas: 0, acknowledged: 0 })
      assert.equal(reconnected, before)
      const { admin } = await servers().nodeOf('a')
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await waitUntil(
        async () => {
          const outcome = await settlesWithin(port.acknowledge?.('a', 100) ?? Promise.reject(), 5_000)
          return outcome.status === 'fulfilled'
        },
        { timeoutMs: 10_000, message: 'it replies again' },
      )
      assert(reconnected > before)
    })

    it("the port of valkey-glide closes what it opened, and leaves the user's client open", async () => {
      let opening: ReturnType<typeof open> | undefined
      const subscriber = () => {
        opening = open()
        return opening
      }
      const glide = await open()
      const other = valkeyGlide(glide, { subscriber })
      other.listen({ reconnected: () => {}, resubscribed: () => {} })
      const subscribing = other.subscribe('c', () => {}).catch(() => {})
      while (!opening) await null
      await other.close()
      await settlesWithin(subscribing, 5_000)
      await assert.rejects(other.send(['EVAL', "return 'still'", '1', 'a'], 'a'))
      assert.equal(String(await glide.customCommand(['ECHO', 'still'])), 'still')
      const opened = await opening
      await assert.rejects(async () => await opened.customCommand(['PING']), { name: 'ClosingError' })
    })

    it('the port of valkey-glide opens another subscriber when its subscriber was closed', async () => {
      let received = 0
      await port.send(['EXISTS', 'a'], 'a') // opens the client that carries commands
      await port.subscribe('c', () => received++)
      glides.at(-1)?.close()
      const before = resubscribed
      await waitUntil(() => resubscribed > before, { timeoutMs: 15_000, message: 'it is reported' })
      await publish('c', '0')
      await waitUntil(() => received > 0)
      await port.unsubscribe('c')
    })

    it('the port of valkey-glide rejects a subscription without a subscriber, or with a callback on it', async () => {
      const subscriptions = { channelsAndPatterns: {}, callback: () => {} }
      const subscriber = () => open({ pubsubSubscriptions: subscriptions } as never)
      const glide = await open()
      for (const refusing of [valkeyGlide(glide, { subscriber }), valkeyGlide(glide)]) {
        refusing.listen({ reconnected: () => {}, resubscribed: () => {} })
        const outcome = await settlesWithin(
          refusing.subscribe('c', () => {}),
          5_000,
        )
        assert(outcome.status === 'rejected' && refusing.isErrorReply(outcome.reason))
        assert.match(String(outcome.reason), /callback|\{ subscriber \}/)
        await refusing.close()
      }
    })

    it('the port of valkey-glide rejects a subscription the ACL forbids, without endless retries', async () => {
      const admins = servers().nodes.map(({ admin }) => admin)
      await Promise.all(admins.map((admin) => admin.call('ACL', 'SETUSER', 'default', 'resetchannels', '&allowed*')))
      try {
        await port.subscribe('allowed', () => {})
        const outcome = await settlesWithin(
          port.subscribe('forbidden', () => {}),
          20_000,
        )
        assert(outcome.status === 'rejected' && port.isErrorReply(outcome.reason))
        for (const admin of admins) {
          const rejected = /cmdstat_s?subscribe:.*rejected_calls=(\d+)/.exec(await admin.info('commandstats'))?.[1]
          assert(Number(rejected ?? 0) < 200, `${rejected} were rejected`)
        }
      } finally {
        await Promise.all(admins.map((admin) => admin.call('ACL', 'SETUSER', 'default', 'allchannels')))
      }
      await port.unsubscribe('allowed')
    })
  })
}
