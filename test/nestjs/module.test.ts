import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Controller, Get, Inject, Injectable, type OnApplicationShutdown, Param } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Redis } from 'ioredis'
import { aclRule } from '../../src/doctor/acl.js'
import { Client, ConfigError, connect } from '../../src/index.js'
import {
  currentHold,
  getHoldfastToken,
  HoldfastHealth,
  HoldfastModule,
  type HoldfastOptions,
  type HoldfastOptionsFactory,
  InjectHoldfast,
  Locked,
} from '../../src/nestjs/index.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { ENGINE_VERSION } from '../support/servers/engine.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { Gate, type RunningApp, startApp } from './app.js'

let server: RedisServer

before(async () => {
  server = await startRedis()
})

after(async () => {
  await server.stop()
})

afterEach(async () => {
  await expectNothingLeft(server)
})

describe('HoldfastModule', () => {
  @Injectable()
  class Shop {
    @InjectHoldfast()
    readonly byProperty!: Client

    constructor(
      readonly byClass: Client,
      @InjectHoldfast() readonly byDecorator: Client,
      @Inject('holdfast') readonly byToken: Client,
    ) {}
  }

  it('HoldfastModule provides its client to every module, by class, decorator and token', async () => {
    await using running = await startApp({ imports: [HoldfastModule.forRoot(server.url)], providers: [Shop] })
    const shop = running.app.get(Shop)
    assert.ok(shop.byClass instanceof Client)
    assert.equal(shop.byDecorator, shop.byClass)
    assert.equal(shop.byToken, shop.byClass)
    assert.equal(shop.byProperty, shop.byClass)
    assert.equal(running.app.get(getHoldfastToken()), shop.byClass)
    assert.equal(await shop.byClass.getLock('order:1').isLocked(), false)
  })

  it('HoldfastModule provides several clients by name, and the one without a name by class', async () => {
    @Injectable()
    class Depot {
      constructor(
        readonly main: Client,
        @InjectHoldfast('stock') readonly stock: Client,
        @InjectHoldfast('billing') readonly billing: Client,
      ) {}
    }
    await using running = await startApp({
      imports: [
        HoldfastModule.forRoot({ name: 'stock', url: `${server.url}/1` }),
        HoldfastModule.forRoot({ url: server.url }),
        HoldfastModule.forRootAsync({ name: 'billing', useFactory: () => `${server.url}/2` }),
      ],
      providers: [Depot],
    })
    const { main, stock, billing } = running.app.get(Depot)
    assert.equal(new Set([main, stock, billing]).size, 3)
    await stock.getLock('order:1').withLock(async () => {
      assert.equal(await stock.getLock('order:1').isLocked(), true)
      assert.equal(await main.getLock('order:1').isLocked(), false)
      assert.equal(await billing.getLock('order:1').isLocked(), false)
    })
  })

  it('HoldfastModule is visible only where it is imported if it is not global', async () => {
    @Injectable()
    class Outside {
      @InjectHoldfast()
      readonly client!: Client
    }
    class Feature {}
    const feature = {
      module: Feature,
      imports: [HoldfastModule.forRoot({ url: server.url, isGlobal: false })],
      providers: [Shop],
    }
    {
      await using running = await startApp({ imports: [feature] })
      assert.ok(running.app.get(Shop, { strict: false }).byClass instanceof Client)
    }
    // Nest does not close what it opened before it found out.
    const redis = new Redis(server.url)
    await assert.rejects(
      startApp({
        imports: [{ ...feature, imports: [HoldfastModule.forRoot({ client: redis, isGlobal: false })] }],
        providers: [Outside],
      }),
      /holdfast/,
    )
    redis.disconnect()
  })

  it('HoldfastModule gets its options from a factory with dependencies, a class or a provider', async () => {
    @Injectable()
    class Settings implements HoldfastOptionsFactory {
      readonly redisUrl = server.url

      createHoldfastOptions() {
        return { url: this.redisUrl, drainMs: 1 }
      }
    }
    class SettingsModule {}
    const settings = { module: SettingsModule, providers: [Settings], exports: [Settings] }
    const variants = [
      HoldfastModule.forRootAsync({
        imports: [settings],
        inject: [Settings],
        useFactory: async ({ redisUrl }: Settings) => ({ url: redisUrl, maxHoldMs: 60_000 }),
      }),
      HoldfastModule.forRootAsync({ useClass: Settings }),
      HoldfastModule.forRootAsync({ imports: [settings], useExisting: Settings }),
    ]
    for (const variant of variants) {
      await using running = await startApp({ imports: [variant], providers: [Shop] })
      const { byClass } = running.app.get(Shop)
      assert.equal(await byClass.getLock('order:1').isLocked(), false)
    }
  })

  it('HoldfastModule does not close an ioredis client that was passed to it', async () => {
    const redis = new Redis(server.url)
    {
      await using running = await startApp({ imports: [HoldfastModule.forRoot({ client: redis })], providers: [Shop] })
      const { byClass } = running.app.get(Shop)
      await byClass.getLock('order:1').withLock(async () => {})
    }
    assert.equal(await redis.ping(), 'PONG')
    await redis.quit()
  })

  it('HoldfastModule fails at application start if an option cannot work or Redis is unreachable', async () => {
    const refused = (options: object) =>
      startApp({ imports: [HoldfastModule.forRootAsync({ useFactory: () => options as HoldfastOptions })] })
    await assert.rejects(refused({ url: server.url, drainMs: -1 }), ConfigError)
    await assert.rejects(refused({ url: server.url, drain: 1 }), ConfigError)
    await assert.rejects(refused({}), ConfigError)
    await assert.rejects(refused(undefined as unknown as object), ConfigError)
    await assert.rejects(refused({ url: 'redis://127.0.0.1:1' }), /ECONNREFUSED/)
  })

  it("HoldfastModule logs losses, long waits and holds, and warnings by the application's Logger", async () => {
    const logged: string[] = []
    const log =
      (level: string) =>
      (message: unknown, ...details: unknown[]): void =>
        void logged.push(`${level} [${String(details.at(-1))}] ${String(message)}`)
    const logger = { log() {}, error: log('error'), warn: log('warn') }
    const stock = { name: 'stock', config: { singleServerConfig: { address: server.url }, nettyThreads: 8 } }
    const imports = [HoldfastModule.forRoot(server.url), HoldfastModule.forRoot(stock)]
    const app = await NestFactory.createApplicationContext({ module: class {}, imports }, { logger })
    const lock = app.get(Client).getLock('order:1')
    const hold = await lock.lock({ warnAfterMs: 20, label: 'refund' })
    assert.equal(await lock.tryLock({ waitTimeMs: 300, warnAfterMs: 20 }), null)
    await server.admin.del('order:1')
    assert.equal(await hold.isHeld(), false)
    await waitUntil(() => logged.length >= 4)
    await app.close()
    for (const expected of [
      /^warn \[Holdfast:stock\] .*nettyThreads/s,
      /^warn \[Holdfast\] "order:1" \(label "refund"\) has been held for 0\.\d+ s$/,
      /^warn \[Holdfast\] A call has waited 0\.02 s for "order:1", held by this client, taken .* ago, label "refund"$/,
      /^error \[Holdfast\] Lock "order:1" \(label "refund"\) is no longer held/,
    ]) {
      assert(
        logged.some((line) => expected.test(line)),
        `${expected} in ${logged.join('\n')}`,
      )
    }
  })

  it('HoldfastModule also serves an application without HTTP', async () => {
    const app = await NestFactory.createApplicationContext(
      { module: class {}, imports: [HoldfastModule.forRoot(server.url)] },
      { logger: false },
    )
    assert.equal(await app.get(Client).getLock('order:1').isLocked(), false)
    await app.close()
    await app.close()
  })
})

describe('shutdown', () => {
  const gates = { entered: new Gate(), leave: new Gate() }

  @Controller()
  class Orders {
    constructor(readonly client: Client) {}

    @Get('held/:id')
    @Locked('order:{0}')
    async held(@Param('id') _id: string): Promise<string> {
      gates.entered.open()
      await gates.leave.opened
      currentHold().assertHeld()
      return await this.more()
    }

    @Locked('more')
    async more(): Promise<string> {
      return 'done'
    }

    @Get('stuck')
    @Locked('stuck')
    async stuck(): Promise<string> {
      gates.entered.open()
      const { signal } = currentHold()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      return 'aborted'
    }

    @Get('waiting')
    @Locked('busy')
    async waiting(): Promise<string> {
      return 'never'
    }
  }

  async function start(drainMs?: number): Promise<RunningApp> {
    gates.entered = new Gate()
    gates.leave = new Gate()
    return await startApp({
      imports: [HoldfastModule.forRoot({ url: server.url, drainMs })],
      controllers: [Orders],
      providers: [Late],
    })
  }

  /** Is shut down before the module is. */
  @Injectable()
  class Late implements OnApplicationShutdown {
    last: string | undefined

    constructor(readonly client: Client) {}

    async onApplicationShutdown(): Promise<void> {
      this.last = await this.client.getLock('last').withLock(async () => 'with a lock')
    }
  }

  it('shutdown lets running requests keep and acquire locks, refuses new ones, and ends with the last', async () => {
    const running = await start()
    const request = running.get('/held/1')
    await gates.entered.opened
    const closed = running.app.close()
    await waitUntil(async () =>
      running.get('/held/2').then(
        () => false,
        () => true,
      ),
    )
    assert.equal(await server.admin.exists('order:1'), 1)
    gates.leave.open()
    assert.deepEqual(await request, { status: 200, body: 'done' })
    await closed
    assert.equal(running.app.get(Late).last, 'with a lock')
    await assert.rejects(running.app.get(Client).getLock('order:1').lock(), { code: 'LOCK_CLIENT_CLOSED' })
  })

  it('shutdown aborts work that is still running when the drain ends', async () => {
    const running = await start(50)
    const request = running.get('/stuck')
    await gates.entered.opened
    await running.app.close()
    assert.equal((await request).status, 500) // its work may not have been alone: LeaseLostError
    assert.equal(await server.admin.exists('stuck'), 0)
  })

  it('shutdown rejects waiters when the drain ends', async () => {
    const running = await start(50)
    const other = await connect(server.url)
    const hold = await other.getLock('busy').lock()
    const request = running.get('/waiting')
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length > 0)
    await running.app.close()
    assert.equal((await request).status, 500)
    await hold.unlock()
    await other.close()
  })

  it('shutdown drains work that did not come over HTTP', async () => {
    const running = await start()
    const job = running.app.get(Orders).held('job')
    await gates.entered.opened
    const closed = running.app.close()
    await waitUntil(async () =>
      running.app
        .get(Client)
        .getLock('new')
        .tryWithLock(async () => {})
        .then(
          () => false,
          (error: { code: string }) => error.code === 'LOCK_CLIENT_CLOSED',
        ),
    )
    assert.equal(await server.admin.exists('order:job'), 1)
    gates.leave.open()
    // It is closed already for what it does not hold.
    await assert.rejects(job, { code: 'LOCK_CLIENT_CLOSED' })
    await closed
  })

  const startProcess = async (): Promise<Child> => {
    const child = spawnChild(new URL('shop-process.js', import.meta.url), [], { env: { REDIS_URL: server.url } })
    await child.nextMessage(({ url }) => url !== undefined)
    return child
  }

  it('shutdown by app.close() lets the process end', async () => {
    await using child = await startProcess()
    child.send({ command: 'close' })
    child.endCommands()
    assert.deepEqual(await child.exit, { code: 0, signal: null })
    assert.equal(child.stderr, '')
  })

  it('shutdown by SIGTERM lets the process end, with enableShutdownHooks()', async () => {
    await using child = await startProcess()
    process.kill(child.pid ?? 0, 'SIGTERM')
    assert.deepEqual(await child.exit, { code: null, signal: 'SIGTERM' })
  })
})

describe('HoldfastHealth', () => {
  it('HoldfastHealth reports up with a latency, for each client by name', async () => {
    await using running = await startApp({
      imports: [HoldfastModule.forRoot(server.url), HoldfastModule.forRoot({ name: 'stock', url: server.url })],
    })
    const health = running.app.get(HoldfastHealth, { strict: false })
    const up = await health.check()
    assert.deepEqual(Object.keys(up), ['holdfast'])
    assert.equal(up['holdfast']?.status, 'up')
    const stock = await health.check('stock', { lockName: 'stock:health', timeoutMs: 5_000 })
    assert.equal(stock['holdfast:stock']?.status, 'up')
    await assert.rejects(health.check('nobody'), ConfigError)
    await assert.rejects(health.check(undefined, { timeoutMs: 0 }), ConfigError)
  })

  it('HoldfastHealth reports up for a user with the rights that holdfast doctor --acl prints', async () => {
    await server.admin.call('ACL', ...aclRule('health', 'lock:', ENGINE_VERSION).split(' ').slice(1))
    const url = server.url.replace('//', '//health:secret@')
    await using running = await startApp({ imports: [HoldfastModule.forRoot(url)] })
    const { holdfast } = await running.app.get(HoldfastHealth, { strict: false }).check()
    assert.equal(holdfast?.status, 'up', JSON.stringify(holdfast))
  })

  it('HoldfastHealth reports down within its timeout when Redis is silent, and up when it is back', async () => {
    await using running = await startApp({ imports: [HoldfastModule.forRoot(server.url)] })
    const health = running.app.get(HoldfastHealth, { strict: false })
    server.freeze()
    try {
      const down = await health.check(undefined, { timeoutMs: 50 })
      assert.deepEqual(down, { holdfast: { status: 'down', message: 'no reply within 50 ms' } })
    } finally {
      server.thaw()
    }
    await waitUntil(async () => (await health.check())['holdfast']?.status === 'up')
  })

  it('HoldfastHealth reports down when the client is closed', async () => {
    await using running = await startApp({ imports: [HoldfastModule.forRoot(server.url)] })
    await running.app.get(Client).close()
    const down = await running.app.get(HoldfastHealth, { strict: false }).check()
    assert.equal(down['holdfast']?.status, 'down')
  })
})
