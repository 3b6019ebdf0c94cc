import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { type BaseClientConfiguration, GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
import type { RedisPort } from '../../src/adapters/port.js'
import { type GlideLike, valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, type ClientOptions, ConfigError, connect } from '../../src/index.js'
import { timersLeft, watchProcess } from '../support/leak-check.js'
import { startCluster } from '../support/redis-cluster.js'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

// Glide prints each error reply and each failed reconnect.
Logger.setLoggerConfig('off')

/** Glide ends the connections of a closed client only the next time that it looks after them, up to 3 s later. */
const OPTIONS = { requestTimeout: 1_000, advancedConfiguration: { pubsubReconciliationIntervalMs: 300 } }
const END_MS = 10_000

interface Topology {
  readonly name: string
  start(): Promise<Servers>
  open(options: BaseClientConfiguration): Promise<GlideClient | GlideClusterClient>
}

interface Servers {
  readonly nodes: readonly RedisServer[]
  /** Where this channel or key is. */
  nodeOf(key: string): Promise<RedisServer>
  stop(): Promise<void>
}

const topologies: readonly Topology[] = [
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

for (const topology of topologies) {
  describe(`valkey-glide and ${topology.name}`, () => {
    const isCluster = topology.name === 'a cluster'
    let servers: Servers
    let glides: (GlideClient | GlideClusterClient)[] = []
    let clients: Client[] = []
    let watch: ReturnType<typeof watchProcess>
    let timers: number

    const open = async (): Promise<GlideClient | GlideClusterClient> => {
      const addresses = servers.nodes.map(({ host, port }) => ({ host, port }))
      const glide = await topology.open({ ...OPTIONS, addresses })
      glides.push(glide)
      return glide
    }
    const openPort = async (): Promise<RedisPort> => valkeyGlide(await open(), { subscriber: open })
    const client = async (options: ClientOptions = {}): Promise<Client> => {
      const opened = await connect({ client: await openPort(), checkLockSyncedSlaves: false, ...options })
      clients.push(opened)
      return opened
    }
    const connections = async (): Promise<string[]> =>
      (await Promise.all(servers.nodes.map((node) => node.connections()))).flat()
    const channels = async (): Promise<unknown[]> => {
      const ask = (node: RedisServer, kind: string) => node.admin.call('PUBSUB', kind) as Promise<unknown[]>
      const all = servers.nodes.flatMap((node) => [ask(node, 'CHANNELS'), ask(node, 'SHARDCHANNELS')])
      return (await Promise.all(all)).flat()
    }

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
        await waitUntil(async () => (await channels()).length === 0, {
          timeoutMs: END_MS,
          message: 'no channel is left',
        })
        await waitUntil(() => timersLeft(timers) <= 0, { timeoutMs: 2_000, message: 'no timer is left' })
        await watch.assertQuiet()
      } finally {
        watch.stop()
        glides = []
        clients = []
        const roles = servers.nodes.map(async ({ admin }) => {
          if (((await admin.call('ROLE')) as unknown[])[0] === 'master') await admin.flushall()
        })
        await Promise.all(roles)
      }
    })
    after(async () => {
      try {
        await waitUntil(async () => (await connections()).length === 0, {
          timeoutMs: END_MS,
          message: 'no connection is left',
        })
      } finally {
        await servers.stop()
      }
    })

    describe('the port', () => {
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

      /** Of `channel`, by each way that it is listened on. */
      const publish = async (channel: string, message: string): Promise<number> => {
        const { admin } = await servers.nodeOf(channel)
        const plain = await admin.publish(channel, message)
        return isCluster ? plain + Number(await admin.call('SPUBLISH', channel, message)) : plain
      }
      const WAYS = isCluster ? 2 : 1

      it('sends a command and answers what Redis replied', async () => {
        assert.equal(await port.send(['EVAL', 'return 41 + 1', '1', 'a'], 'a'), 42)
        assert.equal(await port.send(['EVAL', 'return nil', '1', 'a'], 'a'), null)
        assert.deepEqual(await port.send(['EVAL', "return {1, 'two', false}", '1', 'a'], 'a'), [1, 'two', null])
        assert.equal(await port.send(['EVAL', 'return KEYS[1] .. ARGV[1]', '1', 'ä', '锁'], 'ä'), 'ä锁')
        assert.equal(await port.send(['EVAL', "return redis.status_reply('FINE')", '1', 'b'], 'b'), 'FINE')
      })

      it('rejects with an error reply in the words of Redis', async () => {
        const replies: readonly (readonly [script: string, message: RegExp])[] = [
          ["return redis.error_reply('WRONGTYPE of something')", /^WRONGTYPE of something/],
          ["return redis.error_reply('BUSY now')", /^BUSY now/],
          ["return redis.error_reply('NOPERM it')", /^NOPERM it/],
          ["return redis.error_reply('NOREPLICAS it')", /^NOREPLICAS it/],
          ["return redis.error_reply('OOM it: full')", /^OOM it: full/],
          ['nonsense', /^ERR Error compiling script/],
          ["return redis.call('hget', KEYS[1])", /^ERR Wrong number of args/],
        ]
        // In a cluster glide itself goes on trying, until its time-out.
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

      it('does not take a time-out or a closed client for an error reply', async () => {
        const glide = await open()
        const other = valkeyGlide(glide)
        const node = await servers.nodeOf('a')
        node.freeze()
        const frozen = await settlesWithin(other.send(['GET', 'a'], 'a'), 10_000)
        node.thaw()
        assert(frozen.status === 'rejected' && !other.isErrorReply(frozen.reason))
        glide.close()
        const closed = await settlesWithin(other.send(['GET', 'a'], 'a'), 10_000)
        assert(closed.status === 'rejected' && !other.isErrorReply(closed.reason))
      })

      it('hears a channel from the moment subscribe() resolves until unsubscribe()', async () => {
        const heard: string[] = []
        await port.subscribe('c', (message) => heard.push(message))
        assert.equal(await publish('c', '0'), WAYS)
        await waitUntil(() => heard.length === WAYS)
        await publish('other', '0')
        await port.unsubscribe('c')
        assert.equal(await publish('c', '0'), 0)
        assert.deepEqual(new Set(heard), new Set(['0']))
      })

      it('hears a channel that was left and joined again in the same turn', async () => {
        let heard = 0
        for (let round = 0; round < 20; round++) {
          await port.subscribe('c', () => heard++)
          void port.unsubscribe('c')
          await port.subscribe('c', () => heard++)
          const before = heard
          assert.equal(await publish('c', '0'), WAYS)
          await waitUntil(() => heard === before + WAYS, { message: `round ${round} is heard` })
          await port.unsubscribe('c')
        }
      })

      it('reports each channel as lost, then as heard again, when the connection is killed', async () => {
        const heard = new Set<string>()
        const names = Array.from({ length: 30 }, (_, n) => `c:${n}`)
        await Promise.all(names.map((name) => port.subscribe(name, () => heard.add(name))))
        // What was there before the first look is no reconnect.
        await sleep(1_200)
        for (let round = 1; round <= 2; round++) {
          heard.clear()
          lost.clear()
          const before = resubscribed
          await Promise.all(servers.nodes.map(({ admin }) => admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')))
          await waitUntil(() => resubscribed > before, { timeoutMs: 15_000, message: `told in round ${round}` })
          assert(lost.size > 0)
          for (const name of names) assert.equal(await publish(name, '0'), WAYS)
          await waitUntil(() => heard.size === names.length)
        }
        await Promise.all(names.map((name) => port.unsubscribe(name)))
      })

      it('says when the connection for commands is another one', async () => {
        assert.equal(await port.send(['EVAL', 'return 1', '1', 'a'], 'a'), 1)
        const { admin } = await servers.nodeOf('a')
        const before = reconnected
        await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await waitUntil(() => reconnected > before, { timeoutMs: 10_000, message: 'it is told' })
      })

      it('asks the replicas on the connection of the write, and says when it was another one', async () => {
        await port.send(['SET', 'a', '1'], 'a')
        const before = reconnected
        const answer = await port.acknowledge?.('a', 1_000)
        assert.deepEqual(answer, isCluster ? { replicas: 1, acknowledged: 1 } : { replicas: 0, acknowledged: 0 })
        assert.equal(reconnected, before)
        const { admin } = await servers.nodeOf('a')
        await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await waitUntil(
          async () => {
            const outcome = await settlesWithin(port.acknowledge?.('a', 100) ?? Promise.reject(), 5_000)
            return outcome.status === 'fulfilled'
          },
          { timeoutMs: 10_000, message: 'it answers again' },
        )
        assert(reconnected > before)
      })

      it('closes what it opened, also in the middle of subscribing, and the client of the user works on', async () => {
        let opening: ReturnType<typeof open> | undefined
        const subscriber = () => {
          opening = open()
          return opening
        }
        const other = valkeyGlide(await open(), { subscriber })
        other.listen({ reconnected: () => {}, resubscribed: () => {} })
        const subscribing = other.subscribe('c', () => {}).catch(() => {})
        while (!opening) await null
        await other.close()
        await settlesWithin(subscribing, 5_000)
        assert.equal(await other.send(['EVAL', "return 'still'", '1', 'a'], 'a'), 'still')
        const opened = await opening
        await assert.rejects(async () => await opened.customCommand(['PING']), { name: 'ClosingError' })
      })

      it('opens another subscriber when the one it had was closed', async () => {
        let heard = 0
        await port.subscribe('c', () => heard++)
        glides.at(-1)?.close()
        const before = resubscribed
        await waitUntil(() => resubscribed > before, { timeoutMs: 15_000, message: 'it is told' })
        await publish('c', '0')
        await waitUntil(() => heard > 0)
        await port.unsubscribe('c')
      })

      it('refuses to listen on a subscriber that gives its messages away, or without one', async () => {
        const addresses = servers.nodes.map(({ host, port: number }) => ({ host, port: number }))
        const subscriptions = { channelsAndPatterns: {}, callback: () => {} }
        const subscriber = async () => {
          const made = await topology.open({ ...OPTIONS, addresses, pubsubSubscriptions: subscriptions } as never)
          glides.push(made)
          return made
        }
        const glide = await open()
        for (const deaf of [valkeyGlide(glide, { subscriber }), valkeyGlide(glide)]) {
          deaf.listen({ reconnected: () => {}, resubscribed: () => {} })
          const outcome = await settlesWithin(
            deaf.subscribe('c', () => {}),
            5_000,
          )
          assert(outcome.status === 'rejected' && deaf.isErrorReply(outcome.reason))
          assert.match(String(outcome.reason), /callback|\{ subscriber \}/)
          await deaf.close()
        }
      })

      it('does not wait for ever for a channel that the ACL forbids, nor ask thousands of times', async () => {
        const admins = servers.nodes.map(({ admin }) => admin)
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

    it('locks, re-enters, waits and is woken', async () => {
      const [first, second] = [await client(), await client()]
      const hold = await first.getLock('lock:a').lock()
      assert.equal(await second.getLock('lock:a').tryLock(), null)
      await first.getLock('lock:a').withLock({ within: hold }, () => assert.equal(hold.count, 2))
      const waiting = second.getLock('lock:a').lock({ waitTimeMs: 30_000 })
      await waitUntil(async () => (await channels()).length >= (isCluster ? 2 : 1), { timeoutMs: 10_000 })
      // Glide has confirmed by now, or does so at once. Without a message it would be the poll of 5 s.
      await sleep(200)
      const startedAt = performance.now()
      await hold.unlock()
      const next = await waiting
      assert(performance.now() - startedAt < 3_000, 'it was woken, and did not poll')
      await next.unlock()
    })

    it('without a subscriber waiters poll, and it is told once', async () => {
      const polling = await connect({ client: await open(), checkLockSyncedSlaves: false })
      clients.push(polling)
      const warnings: Error[] = []
      polling.on('warning', (warning) => warnings.push(warning))
      const holder = await client()
      const holds = [await holder.getLock('a').lock(), await holder.getLock('b').lock()] as const
      const waits = [polling.getLock('a').lock(), polling.getLock('b').lock()]
      await waitUntil(() => warnings.length > 0)
      for (const hold of holds) await hold.unlock()
      for (const wait of waits) await (await wait).unlock()
      assert.equal(warnings.length, 1)
      assert.match(String(warnings[0]), /subscriber/)
    })

    it('serves fair locks in the order of asking', async () => {
      const [first, second, third] = [await client(), await client(), await client()]
      const hold = await first.getFairLock('lock:fair').lock()
      const order: number[] = []
      const wait = async (from: Client, place: number): Promise<void> => {
        const next = await from.getFairLock('lock:fair').lock()
        order.push(place)
        await next.unlock()
      }
      const { admin } = await servers.nodeOf('redisson_lock_queue:{lock:fair}')
      const queued = async (count: number) =>
        await waitUntil(async () => (await admin.llen('redisson_lock_queue:{lock:fair}')) === count)
      const waits = [wait(second, 1)]
      await queued(1)
      waits.push(wait(third, 2))
      await queued(2)
      await hold.unlock()
      await Promise.all(waits)
      assert.deepEqual(order, [1, 2])
    })

    it('keeps readers and writers apart, counts permits and opens latches', async () => {
      const [first, second] = [await client(), await client()]
      const [mine, theirs] = [first.getReadWriteLock('lock:rw'), second.getReadWriteLock('lock:rw')]
      const readers = [await mine.readLock().lock(), await theirs.readLock().lock()]
      const writing = theirs.writeLock().lock()
      for (const reader of readers) await reader.unlock()
      await (await writing).unlock()

      const semaphore = first.getPermitExpirableSemaphore('semaphore:a')
      await semaphore.setPermits(1)
      const permit = await semaphore.acquire()
      const acquiring = second.getPermitExpirableSemaphore('semaphore:a').acquire({ waitTimeMs: 30_000 })
      await permit.unlock()
      await (await acquiring).unlock()
      await semaphore.delete()

      const latch = first.getCountDownLatch('latch:a')
      await latch.trySetCount(1)
      const waiting = second.getCountDownLatch('latch:a').await({ waitTimeMs: 30_000 })
      await latch.countDown()
      assert.equal(await waiting, true)
    })

    it('is back after Redis was down: what was held is lost, and what waited goes on', async () => {
      const [first, second] = [await client(), await client()]
      const node = await servers.nodeOf('lock:down')
      const hold = await first.getLock('lock:down').lock()
      const waiting = second.getLock('lock:down').lock({ waitTimeMs: 60_000 })
      await node.kill()
      await node.restart()
      // In a cluster a replica may have taken over meanwhile, with what was held.
      if (isCluster) await hold.unlock().catch(() => {})
      else await waitUntil(() => hold.signal.aborted, { timeoutMs: 8_000, message: 'the loss is noticed at once' })
      await (await waiting).unlock()
    })

    if (isCluster) {
      it('waits until a replica has what was granted', async () => {
        const one = await client({ checkLockSyncedSlaves: true })
        for (const name of ['a', 'b', 'c', 'd']) await (await one.getLock(name).lock()).unlock()
      })

      it('sends one command to lock and one to unlock, unless replicas have to acknowledge', async () => {
        const sentWith = async (checkLockSyncedSlaves: boolean): Promise<string[]> => {
          const glide: GlideLike = await open()
          const sent: string[] = []
          const send = glide.customCommand.bind(glide)
          glide.customCommand = (args, options) => {
            if (typeof options?.route === 'object') sent.push(args.slice(0, args[0] === 'CLIENT' ? 2 : 1).join(' '))
            return send(args, options)
          }
          const port = valkeyGlide(glide, { subscriber: open })
          const one = await connect({ client: port, checkLockSyncedSlaves })
          clients.push(one)
          await (await one.getLock('a').lock()).unlock() // Redis knows the scripts from here on
          sent.length = 0
          await (await one.getLock('a').lock()).unlock()
          return sent
        }
        assert.deepEqual(await sentWith(false), ['EVALSHA', 'EVALSHA'])
        const acknowledged = await sentWith(true)
        assert(acknowledged.includes('WAIT') && acknowledged.includes('CLIENT INFO'), `sent ${acknowledged}`)
      })
    }

    it('refuses a client or an option that cannot work', async () => {
      const glide = await open()
      assert.throws(() => valkeyGlide(glide, { subscriber: 'yes' as never }), ConfigError)
      assert.throws(() => valkeyGlide({} as never), ConfigError)
    })

    it('the process ends by itself after both are closed', async () => {
      const [index, adapter] = ['index', 'adapters/valkey-glide/port'].map((name) =>
        JSON.stringify(new URL(`../../src/${name}.js`, import.meta.url).href),
      )
      const program = `
        import { GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
        import { connect } from ${index}
        import { valkeyGlide } from ${adapter}
        Logger.setLoggerConfig('off')
        const addresses = ${JSON.stringify(servers.nodes.map(({ host, port }) => ({ host, port })))}
        const open = () => ${isCluster ? 'GlideClusterClient' : 'GlideClient'}.createClient({ addresses })
        const glide = await open()
        const client = await connect({ client: valkeyGlide(glide, { subscriber: open }) })
        const hold = await client.getLock('a').lock()
        console.log(await client.getLock('a').tryLock({ waitTimeMs: 500 }))
        await hold.unlock()
        await client.close()
        glide.close()
      `
      const { stdout, stderr } = await promisify(execFile)(
        process.execPath,
        ['--input-type=module', '--eval', program],
        { timeout: 30_000 },
      )
      assert.equal(stdout, 'null\n')
      assert.equal(stderr, '')
    })
  })
}
