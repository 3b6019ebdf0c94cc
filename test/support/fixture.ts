import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach } from 'node:test'
import type { Client, ClientOptions } from '../../src/index.js'
import { type Driver, drivers } from './drivers.js'
import { expectNothingLeft, type ProcessWatch, timersLeft, watchProcess } from './leak-check.js'
import { setUpMemoryFixture } from './memory-place.js'
import type { Place } from './places.js'
import { RIGHTS_OF_HOLDFAST } from './rights.js'
import { type RedisServer, startRedis } from './servers/redis-server.js'
import { startProxy, type TcpProxy } from './servers/tcp-proxy.js'
import { waitUntil } from './wait-until.js'
import { isWaiting, watchRequests } from './waiting-requests.js'

export { type Driver, drivers }

/** What a suite works with: a Redis, clients that are closed after each test, and proof that all is gone. */
export interface AnyFixture {
  readonly server: Place
  /** If waiters of the driver poll: whether a client of the fixture waits for a lock. */
  isWaiting?(): boolean
  /** Through the fixture's driver. */
  connect(options?: ClientOptions): Promise<Client>
  /** Something to end after the test, before it is checked that nothing is left. */
  onEnd(end: () => unknown): void
}

/** The same with one real server. */
export interface Fixture extends AnyFixture {
  readonly server: RedisServer
  connect(options?: ClientOptions, url?: string): Promise<Client>
  /** A client whose only way to the server is a proxy. */
  connectThroughProxy(options?: ClientOptions): Promise<{ client: Client; proxy: TcpProxy }>
}

export interface FixtureOptions {
  /** Keys that may stay, such as `/^redisson_lock_token:/`. */
  readonly keysThatStay?: RegExp | undefined
  /** Other fixtures are in use at the same time. What is of the whole process is checked around them: `watchWholeProcess`. */
  readonly isBesideOthers?: boolean
}

/** How a suite that is run in several places gets its fixture. */
export type SetUp<L extends AnyFixture = AnyFixture> = (options?: Pick<FixtureOptions, 'keysThatStay'>) => L

/**
 * Sets the fixture up for the tests of the enclosing `describe`: every one of them ends by proving that no key,
 * subscription, connection or timer is left, and that the process had nothing to complain about.
 *
 * With TEST_IN_MEMORY the server is one in memory, as scripts/verify/mutants.mjs wants it: tests that need more of it fail.
 */
export function setUpFixture(
  driver: Driver = drivers[0] as Driver,
  serverArgs: string[] = [],
  options: FixtureOptions = {},
): Fixture {
  if (process.env['TEST_IN_MEMORY']) return setUpMemoryFixture(options) as Fixture
  let server: RedisServer | undefined
  before(async () => {
    server = await startRedis({ args: [...RIGHTS_OF_HOLDFAST, ...serverArgs] })
  })
  const running = (): RedisServer => {
    assert(server, 'the fixture is set up when the tests run')
    return server
  }
  const proved = proving(running, driver, options)
  const { connect, onEnd } = proved
  after(() => server?.stop())

  return {
    get server() {
      return running()
    },
    ...proved,
    async connectThroughProxy(options = {}) {
      const proxy = await startProxy(running().port)
      onEnd(() => proxy.stop())
      return { client: await connect(options, proxy.url), proxy }
    },
    onEnd,
  }
}

/** The same in a place that is there already, where no other fixture is in use at the time. */
export function setUpFixtureAt(place: () => Place, driver: Driver, options: FixtureOptions = {}): AnyFixture {
  const { connect, ...rest } = proving(place, driver, options)
  return {
    get server() {
      return place()
    },
    connect: (options) => connect(options),
    ...rest,
  }
}

/** Closes what a test opened, and proves that nothing is left. */
function proving(
  place: () => Place,
  driver: Driver,
  { keysThatStay, isBesideOthers = false }: FixtureOptions,
): Pick<Fixture, 'connect' | 'onEnd' | 'isWaiting'> {
  let watch: ProcessWatch | undefined
  let timers = 0
  const ends: (() => unknown)[] = []
  const clientIds = new Set<string>()
  if (driver.isPolled) watchRequests()

  beforeEach(() => {
    if (isBesideOthers) return
    watch = watchProcess()
    timers = timersLeft()
  })
  afterEach(async () => {
    try {
      for (const end of ends.splice(0).reverse()) await end()
      await expectNothingLeft(place(), { ...(keysThatStay && { keys: keysThatStay }), withinMs: driver.lingersMs })
      if (!watch) return
      await noTimerIsLeft(timers)
      await watch.assertQuiet()
    } finally {
      watch?.stop()
      await place().admin.flushall()
    }
  })
  return {
    async connect(options = {}, url = place().url) {
      // Tests count keys, channels and connections: nobody asks these clients what they hold, unless a test wants that.
      const { client, end } = await driver.open(url, { inspection: false, ...options })
      clientIds.add(client.id)
      ends.push(async () => {
        await client.close()
        await end()
      })
      return client
    },
    onEnd(end) {
      ends.push(end)
    },
    ...(driver.isPolled && { isWaiting: () => isWaiting(clientIds) }),
  }
}

/** For a `describe` whose inner ones run side by side, each with a fixture: what `setUpFixture` proves after each test otherwise. */
export function watchWholeProcess(): void {
  let watch: ProcessWatch
  let timers = 0
  before(() => {
    watch = watchProcess()
    timers = timersLeft()
  })
  after(async () => {
    try {
      await noTimerIsLeft(timers)
      await watch.assertQuiet()
    } finally {
      watch.stop()
    }
  })
}

/**
 * The users' clients among them: ioredis and node-redis have timers of up to 2.2 s when they are destroyed while they
 * reconnect.
 */
async function noTimerIsLeft(baseline: number): Promise<void> {
  const message = () => `no timer is left; there are ${process.getActiveResourcesInfo().join()}`
  await waitUntil(() => timersLeft(baseline) <= 0, { timeoutMs: 15_000, message })
}
