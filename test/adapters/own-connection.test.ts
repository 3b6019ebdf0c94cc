/** What an application does on the Redis client that it passes: Holdfast has connections of its own. */
import assert from 'node:assert/strict'
import type { EventEmitter } from 'node:events'
import { before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { ownedIoredis } from '../../src/adapters/ioredis/port.js'
import { type Client, connect } from '../../src/index.js'
import { isBun, openBun } from '../support/bun.js'
import { setUpFixture } from '../support/fixture.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** A client of the application. */
interface App {
  /** Absent: it does not tell when it is closed. */
  readonly emitter?: EventEmitter
  send(...command: [string, ...string[]]): Promise<unknown>
  select(database: number): Promise<unknown>
  connect(): Promise<Client>
  close(): Promise<unknown>
}

const LIBRARIES: Record<string, (url: string) => Promise<App>> = {
  async ioredis(url) {
    const redis = new Redis(url, { protocol: 2 })
    redis.on('error', () => {})
    return {
      emitter: redis,
      send: (...command) => redis.call(...command),
      select: (database) => redis.select(database),
      connect: () => connect({ client: redis }),
      close: async () => redis.status !== 'end' && redis.disconnect(),
    }
  },
  async 'node-redis'(url) {
    const redis = createClient({ url })
    redis.on('error', () => {})
    await redis.connect()
    return {
      emitter: redis,
      send: (...command) => redis.sendCommand(command),
      select: (database) => redis.select(database),
      connect: () => connect({ client: redis }),
      close: async () => redis.isOpen && redis.destroy(),
    }
  },
}

if (isBun) {
  LIBRARIES['Bun'] = async (url) => {
    const redis = openBun(url)
    await redis.connect()
    return {
      send: (command, ...args) => redis.send(command, args),
      select: (database) => redis.send('SELECT', [String(database)]),
      connect: () => connect({ client: redis }),
      close: async () => redis.close(),
    }
  }
}

for (const [library, open] of Object.entries(LIBRARIES)) {
  describe(`an application that uses the ${library} client that it passed`, () => {
    const fixture = setUpFixture()
    // The application may do more than Holdfast.
    before(async () => void (await fixture.server.admin.call('ACL', 'SETUSER', 'default', '+@all')))

    async function setUp() {
      const app = await open(fixture.server.url)
      fixture.onEnd(() => app.close())
      const [client, other] = [await app.connect(), await fixture.connect()]
      fixture.onEnd(() => client.close())
      return { app, client, other }
    }

    /** What the application may do, without waiting for it. */
    const DEEDS: Record<string, (app: App) => void> = {
      'selects another database': (app) => void app.select(1),
      'selects another database by a plain command': (app) => void app.send('SELECT', '1'),
      'opens a transaction': (app) => void app.send('MULTI'),
      'waits in a blocking command': (app) => void app.send('BLPOP', 'nothing', '0').catch(() => {}),
      'switches replies off': (app) => void app.send('CLIENT', 'REPLY', 'OFF').catch(() => {}),
      'signs in as another user': (app) => void app.send('AUTH', 'nobody', 'x').catch(() => {}),
      'monitors the server': (app) => void app.send('MONITOR').catch(() => {}),
      'resets its connection': (app) => void app.send('RESET').catch(() => {}),
    }

    for (const [deed, act] of Object.entries(DEEDS)) {
      it(`an application that ${deed} changes nothing for locks`, async () => {
        const { app, client, other } = await setUp()
        await client.getLock('warm').withLock(() => {})
        const theirs = await other.getLock('theirs').lock()
        act(app)
        assert.equal(await client.getLock('theirs').tryLock(), null)
        const mine = await client.getLock('mine').lock()
        assert.equal(await other.getLock('mine').tryLock(), null)
        await mine.unlock()
        await theirs.unlock()
        await app.close()
      })
    }

    it('the application gets from EXEC the results of its own commands', async () => {
      const { app, client } = await setUp()
      await app.send('MULTI')
      await app.send('SET', 'own', '1')
      await client.getLock('a').withLock(() => {})
      assert.deepEqual(((await app.send('EXEC')) as unknown[]).map(String), ['OK'])
      await fixture.server.admin.del('own')
    })

    it('locks are in the database that was selected when the application passed its client', async () => {
      const app = await open(fixture.server.url)
      fixture.onEnd(() => app.close())
      await app.select(3)
      const client = await app.connect()
      fixture.onEnd(() => client.close())
      void app.select(0)
      const hold = await client.getLock('a').lock()
      const third = new Redis(`${fixture.server.url}/3`)
      assert.equal(await third.exists('a'), 1)
      await hold.unlock()
      third.disconnect()
    })

    if (library === 'Bun') return

    it("an application's client has one listener of ours on each event, and none after our clients", async () => {
      const app = await open(fixture.server.url)
      fixture.onEnd(() => app.close())
      await app.send('PING') // then it is ready
      const emitter = app.emitter as EventEmitter
      const counts = (): unknown => emitter.eventNames().map((name) => [name, emitter.listenerCount(name)])
      const before = counts()
      const first = await app.connect()
      const ofOne = counts()
      assert.notDeepEqual(ofOne, before)
      const more = await Promise.all(Array.from({ length: 10 }, () => app.connect()))
      assert.deepEqual(counts(), ofOne)
      await Promise.all(more.map((client) => client.close()))
      assert.deepEqual(counts(), ofOne)
      await first.close()
      assert.deepEqual(counts(), before)
    })

    it('closing the client of the application closes what Holdfast opened for commands', async () => {
      const { app, client } = await setUp()
      await client.getLock('a').withLock(() => {})
      const connections = async (): Promise<number> =>
        String(await fixture.server.admin.call('CLIENT', 'LIST'))
          .trim()
          .split('\n').length
      const before = await connections()
      await app.close()
      await waitUntil(async () => (await connections()) === before - 2)
      await assert.rejects(client.getLock('a').tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
      await sleep(200)
      assert.equal(await connections(), before - 2)
    })
  })
}

describe('an ioredis client of the application without an offline queue', () => {
  const fixture = setUpFixture()

  it('an ioredis client without an offline queue can be passed while it is still connecting', async () => {
    const redis = new Redis(fixture.server.url, { enableOfflineQueue: false })
    fixture.onEnd(() => redis.disconnect())
    assert.equal(redis.status, 'connecting')
    const client = await connect({ client: redis })
    fixture.onEnd(() => client.close())
    await client.withLock('a', () => {})
  })
})

describe('a node-redis client of the application', () => {
  const fixture = setUpFixture()

  it('a node-redis connection that is lost is replaced by another client, with new settings', async () => {
    await using proxy = await startProxy(fixture.server.port)
    const redis = createClient({ url: proxy.url })
    redis.on('error', () => {})
    await redis.connect()
    fixture.onEnd(() => redis.isOpen && redis.destroy())
    const duplicates: (object | undefined)[] = []
    const duplicate = redis.duplicate.bind(redis)
    redis.duplicate = ((overrides?: object) => {
      duplicates.push(overrides)
      return duplicate(overrides)
    }) as typeof redis.duplicate
    const client = await connect({ client: redis })
    fixture.onEnd(() => client.close())
    for (let round = 1; round <= 3; round++) {
      await client.getLock('a').withLock(() => {})
      assert.equal(duplicates.length, round)
      proxy.cutAll()
      await waitUntil(() => duplicates.length === round + 1)
    }
    for (const overrides of duplicates as { socket: { reconnectStrategy: unknown } }[]) {
      assert.equal(overrides.socket.reconnectStrategy, false)
    }
  })

  it('clusters and sentinels of node-redis before 6 are refused', async () => {
    const common = { isOpen: true, sendCommand() {}, subscribe() {}, on() {}, off() {}, duplicate() {} }
    for (const [kind, old] of Object.entries({
      cluster: { ...common, slots: [], masters: [] },
      sentinel: { ...common, getSentinelNode() {} },
    })) {
      await assert.rejects(connect({ client: old as never }), {
        code: 'LOCK_CONFIG',
        path: 'client',
        message: new RegExp(`a ${kind} of node-redis 6 or later.* Update the package redis, or use ioredis`),
      })
    }
  })
})

describe('control: without a connection of its own', () => {
  const fixture = setUpFixture()

  it('a database that the application selects gives a second holder a lock', async () => {
    const redis = new Redis(fixture.server.url)
    const client = await connect({ client: ownedIoredis(redis) })
    fixture.onEnd(() => client.close())
    const theirs = await (await fixture.connect()).getLock('a').lock()
    void redis.select(1)
    const mine = await client.getLock('a').tryLock()
    assert.notEqual(mine, null)
    await mine?.unlock()
    await theirs.unlock()
  })
})
