/** What looks like one server may be a proxy in front of several, which sends a command to the shard of its first key. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net'
import { after, afterEach, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { ioredis } from '../../src/adapters/ioredis/port.js'
import { type Client, connect, getMultiLock, type Hold } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { freePort } from '../support/servers/free-port.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

type Route = (key: string) => number

const hash = (text: string): number => createHash('md5').update(text).digest()[0] as number
const tagIn = (key: string): string => /\{([^}]+)\}/.exec(key)?.[1] ?? key

/** How proxies find the shard of a key. */
const ROUTES: Record<string, Route> = {
  'a hash of the hash tag (twemproxy, Envoy)': (key) => hash(tagIn(key)) % 2,
  'a hash of the whole key': (key) => hash(key) % 2,
  'weights: one key in ten goes elsewhere': (key) => (hash(tagIn(key)) < 26 ? 1 : 0),
  'the beginning of the key (prefix routes of Envoy)': (key) => (tagIn(key).startsWith('stock:') ? 1 : 0),
}

/** Splits what arrives into whole commands of RESP. */
function commandsIn(onCommand: (words: readonly string[], raw: Buffer) => void): (chunk: Buffer) => void {
  let buffered = Buffer.alloc(0)
  return (chunk) => {
    buffered = Buffer.concat([buffered, chunk])
    for (;;) {
      let at = 0
      const line = (): string => {
        const end = buffered.indexOf('\r\n', at)
        if (end < 0) throw new Error('incomplete')
        const text = buffered.toString('latin1', at, end)
        at = end + 2
        return text
      }
      try {
        const words = Array.from({ length: Number(line().slice(1)) }, () => {
          const length = Number(line().slice(1))
          if (buffered.length < at + length + 2) throw new Error('incomplete')
          const word = buffered.toString('utf8', at, at + length)
          at += length + 2
          return word
        })
        const raw = Buffer.from(buffered.subarray(0, at))
        buffered = buffered.subarray(at)
        onCommand(words, raw)
      } catch {
        return
      }
    }
  }
}

/** A proxy without slots: it knows nothing but the first key of a command. */
class ShardingProxy {
  route: Route
  readonly #shards: readonly RedisServer[]
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #port = 0

  constructor(shards: readonly RedisServer[], route: Route) {
    this.#shards = shards
    this.route = route
    this.#server = createServer((client) => this.#serve(client))
  }

  async start(): Promise<void> {
    this.#port = await freePort()
    this.#server.listen(this.#port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`
  }

  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  stop(): void {
    this.#server.close()
    this.cutAll()
  }

  #serve(client: Socket): void {
    this.#sockets.add(client)
    client.on('error', () => {})
    const shards = this.#shards.map(({ port }) => {
      const shard = connectTo(port, '127.0.0.1')
      shard.on('error', () => client.destroy())
      return shard
    })
    client.on('close', () => {
      this.#sockets.delete(client)
      for (const shard of shards) shard.destroy()
    })
    let chain: Promise<unknown> = Promise.resolve()
    const onCommand = ([name = '', ...words]: readonly string[], raw: Buffer): void => {
      const key = /^EVAL/i.test(name)
        ? words[2]
        : /^(INFO|CLIENT|HELLO|PING|SELECT|COMMAND)$/i.test(name)
          ? ''
          : words[0]
      chain = chain.then(async () => {
        if (client.destroyed) return
        if (/SUBSCRIBE/i.test(name)) return client.write('-ERR unsupported command\r\n')
        const shard = shards[key ? this.route(key) : 0] as Socket
        shard.write(raw)
        const [reply] = (await once(shard, 'data')) as [Buffer] // small replies come in one piece on loopback
        return client.write(reply)
      })
      chain.catch(() => {})
    }
    client.on('data', commandsIn(onCommand))
  }
}

const names = (count: number, of = 'order'): string[] => Array.from({ length: count }, (_, n) => `${of}:${n}`)
const lockAll = (client: Client, of: readonly string[]): Promise<Hold[]> =>
  Promise.all(of.map((name) => client.getLock(name).lock()))
const letGo = (holds: readonly Hold[]): Promise<unknown> => Promise.all(holds.map((hold) => hold.unlock()))

describe('a proxy that shards by key', { concurrency: 1 }, () => {
  let shards: RedisServer[]
  const ends: (() => unknown)[] = []
  before(async () => {
    shards = [await startRedis(), await startRedis()]
  })
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
    for (const { admin } of shards) await admin.flushall()
  })
  after(() => Promise.all(shards.map((shard) => shard.stop())))

  async function setUp(route: Route) {
    const proxy = new ShardingProxy(shards, route)
    await proxy.start()
    ends.push(() => proxy.stop())
    const warnings: string[] = []
    const open = async (lockWatchdogTimeoutMs = 30_000): Promise<Client> => {
      const client = await connect({ url: proxy.url, lockWatchdogTimeoutMs, inspection: false })
      client.on('warning', (warning) => warnings.push(String((warning as { code?: string }).code)))
      ends.push(() => client.close())
      return client
    }
    return { proxy, warnings, open }
  }

  /** Those of the holds that another client can take as well. */
  async function heldTwice(holds: readonly Hold[], other: Client): Promise<string[]> {
    const takes = holds.map(async (hold) => {
      const second = await other.getLock(hold.lockName).tryLock()
      await second?.unlock()
      return second && hold.remainingMs() > 0 ? [hold.lockName] : []
    })
    return (await Promise.all(takes)).flat()
  }

  for (const [how, route] of Object.entries(ROUTES)) {
    it(`locks of one turn have one holder each behind a sharding proxy: ${how}`, async () => {
      const { warnings, open } = await setUp(route)
      const [client, other] = [await open(), await open()]
      for (let round = 0; round < 3; round++) {
        const all = [...names(24), ...names(24, 'stock')]
        const holds = await lockAll(client, all)
        assert.deepEqual(await heldTwice(holds, other), [])
        await letGo(holds)
        const again = await lockAll(other, all)
        await letGo(again)
      }
      assert.ok(warnings.includes('SHARDS_FOUND'), String(warnings))
    })
  }

  it('control: without that question, locks of one turn are held twice', async () => {
    const { proxy, open } = await setUp(ROUTES['a hash of the hash tag (twemproxy, Envoy)'] as Route)
    const redis = new Redis(proxy.url)
    ends.push(() => redis.disconnect())
    const client = await connect({ client: Object.assign(ioredis(redis), { isOneServer: true }), inspection: false })
    ends.push(() => client.close())
    const holds = await lockAll(client, names(24))
    assert.notDeepEqual(await heldTwice(holds, await open()), [])
    await letGo(holds)
  })

  it('a multi-lock over both shards has one holder', async () => {
    const { open } = await setUp(ROUTES['a hash of the hash tag (twemproxy, Envoy)'] as Route)
    const [client, other] = [await open(), await open()]
    for (const of of ['order', 'stock', 'price']) {
      const all = names(8, of)
      const hold = await getMultiLock(...all.map((name) => client.getLock(name))).lock()
      for (const name of all) assert.equal(await other.getLock(name).tryLock(), null, name)
      await hold.unlock()
    }
  })

  it('the watchdog renews each lock where it is', async () => {
    const { open } = await setUp(ROUTES['a hash of the hash tag (twemproxy, Envoy)'] as Route)
    const leaseMs = 6_000
    const [client, other] = [await open(leaseMs), await open()]
    const lost: string[] = []
    client.on('lost', ({ hold }) => lost.push(hold.lockName))
    const holds = await lockAll(client, names(24))
    const takenAt = performance.now()
    await waitUntil(() => performance.now() - takenAt > leaseMs || lost.length > 0, { timeoutMs: 15_000 })
    assert.deepEqual(lost, [])
    for (const hold of holds) hold.assertHeld()
    assert.deepEqual(await heldTwice(holds, other), [])
    await letGo(holds)
  })

  it('after a reconnect to such a proxy nothing is combined that was before', async () => {
    const { proxy, warnings, open } = await setUp(() => 0)
    const [client, other] = [await open(), await open()]
    for (const one of [client, other, client, other]) await letGo(await lockAll(one, names(24)))
    assert.deepEqual(warnings, [])
    proxy.route = ROUTES['a hash of the hash tag (twemproxy, Envoy)'] as Route
    proxy.cutAll()
    const works = async (): Promise<boolean> =>
      (
        await settlesWithin(
          client.getLock('works').withLock(() => {}),
          5_000,
        )
      ).status === 'fulfilled'
    await waitUntil(works, { timeoutMs: 10_000 })
    const holds = await lockAll(client, names(24))
    assert.deepEqual(await heldTwice(holds, other), [])
    await letGo(holds)
  })
})

describe('one server', () => {
  const fixture = setUpFixture()

  it('one server is asked once whether it has all keys, only when locks are requested together', async () => {
    const client = await fixture.connect()
    const evals = async (work: () => Promise<unknown>): Promise<number> => {
      const { calls } = await countCommands(fixture.server, work)
      return calls['eval'] ?? 0
    }
    await evals(() => client.getLock('order:1').withLock(() => {})) // Redis knows the scripts from here on
    assert.equal(await evals(() => client.getLock('order:2').withLock(() => {})), 0)
    await evals(async () => await letGo(await lockAll(client, names(10))))
    await waitUntil(async () => {
      const { scripts } = await countCommands(fixture.server, async () => await letGo(await lockAll(client, names(10))))
      return scripts === 2
    })
    assert.equal(await evals(async () => await letGo(await lockAll(client, names(30)))), 0)
  })

  it('a server that may not say which it is gets each lock in a command of its own', async () => {
    const { admin, port } = fixture.server
    const line = (await admin.call('ACL', 'LIST')) as string[]
    const rights = line.find((rule) => rule.startsWith('user default'))?.replace('user default', '') ?? ''
    await admin.call('ACL', 'SETUSER', 'silent', ...rights.trim().split(' '), '-info')
    fixture.onEnd(() => admin.call('ACL', 'DELUSER', 'silent'))
    const client = await fixture.connect({}, `redis://silent:any@127.0.0.1:${port}`)
    for (let round = 0; round < 3; round++) await letGo(await lockAll(client, names(10)))
    const { scripts } = await countCommands(fixture.server, async () => await letGo(await lockAll(client, names(10))))
    assert.equal(scripts, 20)
  })
})
