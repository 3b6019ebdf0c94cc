import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type Client, type ClientOptions, connect } from '../../src/index.js'
import { expectNothingLeft, type ProcessWatch, timersLeft, watchProcess } from './leak-check.js'
import { type RedisServer, startRedis } from './redis-server.js'
import { startProxy, type TcpProxy } from './tcp-proxy.js'
import { waitUntil } from './wait-until.js'

/** A way to open a client: each with the default settings of its library. */
export interface Driver {
  readonly name: string
  open(url: string, options: ClientOptions): Promise<{ client: Client; end: () => Promise<void> }>
}

export const drivers: readonly Driver[] = [
  {
    name: 'a URL',
    async open(url, options) {
      return { client: await connect({ url, ...options }), end: async () => {} }
    },
  },
  {
    name: 'an ioredis client of the user',
    async open(url, options) {
      const redis = new Redis(url)
      redis.on('error', () => {})
      const end = async (): Promise<void> => redis.disconnect()
      return { client: await connect({ client: redis, ...options }), end }
    },
  },
  {
    name: 'a node-redis client of the user',
    async open(url, options) {
      const redis = createClient({ url })
      redis.on('error', () => {})
      await redis.connect()
      const end = async (): Promise<void> => {
        if (redis.isOpen) redis.destroy()
      }
      return { client: await connect({ client: redis, ...options }), end }
    },
  },
]

/** What a test file works with: one real server, clients that are closed after each test, and proof that all is gone. */
export interface Lab {
  readonly server: RedisServer
  /** Through the lab's driver. */
  connect(options?: ClientOptions, url?: string): Promise<Client>
  /** A client whose only way to the server is a proxy. */
  connectThroughProxy(options?: ClientOptions): Promise<{ client: Client; proxy: TcpProxy }>
  /** Something to end after the test, before it is checked that nothing is left. */
  onEnd(end: () => unknown): void
}

export interface LabOptions {
  /** Keys that may stay, such as `/^redisson_lock_token:/`. */
  readonly keysThatStay?: RegExp | undefined
  /** Other labs are in use at the same time. What is of the whole process is checked around them: `watchWholeProcess`. */
  readonly isBesideOthers?: boolean
}

/**
 * Sets the lab up for the tests of the enclosing `describe`: every one of them ends by proving that no key,
 * subscription, connection or timer is left, and that the process had nothing to complain about.
 */
export function setUpLab(
  driver: Driver = drivers[0] as Driver,
  serverArgs: string[] = [],
  { keysThatStay, isBesideOthers = false }: LabOptions = {},
): Lab {
  let server: RedisServer | undefined
  let watch: ProcessWatch | undefined
  let timers = 0
  const ends: (() => unknown)[] = []

  const lab: Lab = {
    get server() {
      assert(server, 'the lab is set up when the tests run')
      return server
    },
    async connect(options = {}, url = lab.server.url) {
      const { client, end } = await driver.open(url, options)
      ends.push(async () => {
        await client.close()
        await end()
      })
      return client
    },
    async connectThroughProxy(options = {}) {
      const proxy = await startProxy(lab.server.port)
      ends.push(() => proxy.stop())
      return { client: await lab.connect(options, proxy.url), proxy }
    },
    onEnd(end) {
      ends.push(end)
    },
  }

  before(async () => {
    server = await startRedis({ args: serverArgs })
  })
  beforeEach(() => {
    if (isBesideOthers) return
    watch = watchProcess()
    timers = timersLeft()
  })
  afterEach(async () => {
    try {
      for (const end of ends.splice(0).reverse()) await end()
      await expectNothingLeft(lab.server, keysThatStay ? { keys: keysThatStay } : {})
      if (!watch) return
      await waitUntil(() => timersLeft(timers) <= 0, { timeoutMs: 2_000, message: 'no timer is left' })
      await watch.assertQuiet()
    } finally {
      watch?.stop()
      await lab.server.admin.flushall()
    }
  })
  after(() => server?.stop())
  return lab
}

/** For a `describe` whose inner ones run side by side, each with a lab: what `setUpLab` proves after each test otherwise. */
export function watchWholeProcess(): void {
  let watch: ProcessWatch
  let timers = 0
  before(() => {
    watch = watchProcess()
    timers = timersLeft()
  })
  after(async () => {
    try {
      await waitUntil(() => timersLeft(timers) <= 0, { timeoutMs: 2_000, message: 'no timer is left' })
      await watch.assertQuiet()
    } finally {
      watch.stop()
    }
  })
}
