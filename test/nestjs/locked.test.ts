import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import {
  Body,
  ConflictException,
  Controller,
  Get,
  HttpCode,
  Injectable,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Scope,
  SetMetadata,
} from '@nestjs/common'
import { type Client, ConfigError, connect, type Hold, LeaseLostError, WaitTimeoutError } from '../../src/index.js'
import {
  currentHold,
  getHoldfastToken,
  HoldfastModule,
  Locked,
  type LockedKind,
  type LockedOptions,
  LockKey,
} from '../../src/nestjs/index.js'
import { orderedQueue } from '../../src/wire/keys.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { Gate, type RunningApp, startApp } from './app.js'

let server: RedisServer
/** Another process, as it were. */
let other: Client

before(async () => {
  server = await startRedis()
})

after(async () => {
  await server.stop()
})

beforeEach(async () => {
  other = await connect(server.url)
})

afterEach(async () => {
  await other.close()
  await expectNothingLeft(server, { keys: /^redisson_lock_token:/ })
})

type Class<T> = new (...args: never[]) => T

/** An application with one provider, and the provider. */
async function startWith<T>(provider: Class<T>): Promise<RunningApp & { service: T }> {
  const running = await startApp({
    imports: [HoldfastModule.forRoot(server.url)],
    providers: [provider as Class<object>],
  })
  return { ...running, service: running.app.get<T>(provider) }
}

const nameOfHold = async (): Promise<string> => currentHold().lockName

describe('the lock name of @Locked', () => {
  interface Order {
    id: number
    customer: { name: string }
  }

  @Injectable()
  class Names {
    @Locked('plain')
    async plain() {
      return await nameOfHold()
    }

    @Locked('order:{0}:{1}')
    async byNumber(_id: unknown, _part?: unknown) {
      return await nameOfHold()
    }

    @Locked('order:{0.id}:{0.customer.name}:{1.length}')
    async byPath(_order: Order, _list: string[]) {
      return await nameOfHold()
    }

    @Locked('order:{id}:{order.id}')
    async byName(@LockKey('order') _order: Order, @LockKey('id') _id: string) {
      return await nameOfHold()
    }

    @Locked('{{order}}:{{{0}}}')
    async withBraces(_id: string) {
      return await nameOfHold()
    }

    @Locked((order: Order) => `order:${order.id * 2}`)
    async byFunction(_order: Order, _more: string) {
      return await nameOfHold()
    }

    @Locked((id: string) => id)
    async bySillyFunction(_id: string) {
      return await nameOfHold()
    }
  }

  it('the lock name comes from arguments by number, path, @LockKey or a function', async () => {
    await using app = await startWith(Names)
    const order = { id: 7, customer: { name: 'Ada' } }
    assert.equal(await app.service.plain(), 'plain')
    assert.equal(await app.service.byNumber('a', 10n), 'order:a:10')
    assert.equal(await app.service.byNumber(0, false), 'order:0:false')
    assert.equal(await app.service.byPath(order, ['x', 'y']), 'order:7:Ada:2')
    assert.equal(await app.service.byName(order, 'a'), 'order:a:7')
    assert.equal(await app.service.withBraces('x'), '{order}:{x}')
    assert.equal(await app.service.byFunction(order, ''), 'order:14')
  })

  it('a lock name that the arguments do not make is refused before any command, naming the template', async () => {
    await using app = await startWith(Names)
    const { service } = app
    await service.plain()
    await app.app.get<Client>(getHoldfastToken()).getLock('plain').isLocked()
    const commands = async () => /cmdstat_evalsha:calls=(\d+)/.exec(await server.admin.info('commandstats'))?.[1]
    const before = await commands()
    const order = { id: 7 } as Order
    for (const [call, message] of [
      [() => service.byNumber(undefined, 1), '@Locked("order:{0}:{1}") on Names.byNumber: expected {0} to be'],
      [() => service.byNumber('a'), '{1} to be a non-empty string, .*, not undefined'],
      [() => service.byNumber(null, 1), '{0} to be .*, not null'],
      [() => service.byNumber({}, 1), '{0} to be .*, not \\[object Object\\]'],
      [() => service.byNumber('', 1), '{0} to be .*, not ""'],
      [() => service.byNumber(Number.NaN, 1), '{0} to be .*, not NaN'],
      [() => service.byPath(order, []), 'Names.byPath: expected {0.customer.name} to be .*, not undefined'],
      [() => service.byName(order, undefined as unknown as string), '{id} to be'],
      [() => service.bySillyFunction(''), '@Locked(a function) on Names.bySillyFunction: .* not ""'],
      [() => service.bySillyFunction(undefined as unknown as string), 'not undefined'],
    ] as const) {
      const pattern = new RegExp(message.replace(/[{}()]/g, '\\$&'))
      await assert.rejects(call, (error) => error instanceof ConfigError && pattern.test(error.message))
    }
    assert.equal(await commands(), before)
  })

  it('a lock name is refused at once if the template cannot be parsed', () => {
    const decorate = (name: string, options?: object) => () => {
      class Service {
        async run() {}
      }
      const descriptor = Object.getOwnPropertyDescriptor(Service.prototype, 'run')
      assert.ok(descriptor)
      Locked(name, options)(Service.prototype, 'run', descriptor)
    }
    const anyText = (text: string) => new RegExp(text.replace(/[{}()@.]/g, '\\$&'))
    assert.throws(
      decorate('order:{id}'),
      anyText('@Locked("order:{id}") on Service.run: expected {0}, {0.id}, or @LockKey'),
    )
    for (const template of ['', 'order:{0', 'order:}', 'order:{}', 'order:{0.}', 'order:{ 0 }', '{{0}', '{-1}']) {
      assert.throws(decorate(template), ConfigError, template)
    }
    for (const options of [
      { kind: 'fare' },
      { kind: 'toString' },
      { onBusy: 'ignore' },
      { leaseTime: 1 },
      { leaseTimeMs: 1 },
      { atLeastMs: 9 },
      { waitTimeMs: -1 },
      { maxHoldMs: 0.5 },
      { warnAfterMs: '1s' },
      { label: 7 },
      { kind: 'read', atLeastMs: 1_000 },
    ]) {
      assert.throws(decorate('order', options), ConfigError, JSON.stringify(options))
    }
    // biome-ignore lint/complexity/noStaticOnlyClass: what it must refuse
    class Statics {
      static async run() {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Statics, 'run')
    assert.ok(descriptor)
    assert.throws(() => Locked('order')(Statics, 'run', descriptor), /Statics.run: expected a method of instances/)
    assert.throws(() => LockKey('0'), ConfigError)
  })
})

describe('@Locked', () => {
  const gates = { entered: new Gate(), leave: new Gate() }
  beforeEach(() => {
    gates.entered = new Gate()
    gates.leave = new Gate()
  })

  it('@Locked holds the lock while the method runs, and returns or throws what it did', async () => {
    @Injectable()
    class Orders {
      readonly greeting = 'order'

      @Locked('order:{0}', { label: 'shipping' })
      async ship(id: string): Promise<string> {
        assert.equal(currentHold().label, 'shipping')
        assert.equal(await other.getLock(`order:${id}`).isLocked(), true)
        return `${this.greeting} ${id}`
      }

      @Locked('order:{0}')
      async fail(_id: string): Promise<never> {
        assert.equal(currentHold().label, 'Orders.fail')
        throw new Error('no stock')
      }
    }
    await using app = await startWith(Orders)
    assert.equal(await app.service.ship('7'), 'order 7')
    await assert.rejects(app.service.fail('7'), /^Error: no stock$/)
    assert.equal(await other.getLock('order:7').isLocked(), false)
    assert.throws(currentHold, { code: 'LOCK_NOT_HELD' })
  })

  it('@Locked accepts each kind of lock', async () => {
    const kinds: LockedKind[] = [
      'lock',
      'fair',
      'nonReentrant',
      'nonReentrantFair',
      'read',
      'write',
      'fenced',
      'spin',
      'string',
    ]
    for (const kind of kinds) {
      @Injectable()
      class Service {
        @Locked('thing', { kind, leaseTimeMs: 30_000 })
        async run(): Promise<{ hold: Hold; type: string; pttl: number }> {
          const hold = currentHold()
          return { hold, type: await server.admin.type('thing'), pttl: await server.admin.pttl('thing') }
        }
      }
      await using app = await startWith(Service)
      const { hold, type, pttl } = await app.service.run()
      assert.equal(type, kind === 'string' ? 'string' : 'hash', kind)
      assert.ok(pttl > 0, kind)
      assert.equal(typeof hold.fencingToken, kind === 'fenced' ? 'bigint' : 'undefined', kind)
    }
  })

  it('@Locked runs methods of ordered locks by their priorities, and refuses them at once when too many wait', async () => {
    const order: string[] = []
    @Injectable()
    class Catalogue {
      @Locked('catalogue', { kind: 'read', order: 'fifo' })
      async read(): Promise<void> {
        order.push('read')
      }

      @Locked('catalogue', { kind: 'write', order: 'fifo', priority: 5, maxWaiters: 2 })
      async write(): Promise<void> {
        order.push('written')
      }
    }
    await using app = await startWith(Catalogue)
    const hold = await other.getReadWriteLock('catalogue', { order: 'fifo' }).writeLock().lock()
    const queued = async (count: number): Promise<void> => {
      await waitUntil(async () => (await server.admin.zcard(orderedQueue('catalogue'))) === count)
    }
    const reading = app.service.read()
    await queued(1)
    const writing = app.service.write()
    await queued(2)
    await assert.rejects(app.service.write(), { code: 'LOCK_QUEUE_FULL', waiters: 2 })
    await hold.unlock()
    await Promise.all([reading, writing])
    assert.deepEqual(order, ['written', 'read'])
  })

  it('@Locked refuses an order, a priority or a limit that its kind does not have, when the class is loaded', () => {
    const load = (options: LockedOptions<'throw'>) => () => {
      class Service {
        @Locked('thing', options)
        async run(): Promise<void> {}
      }
      return Service
    }
    assert.throws(load({ kind: 'spin', order: 'fifo' }), { code: 'LOCK_CONFIG', path: 'order' })
    assert.throws(load({ priority: 1 }), { code: 'LOCK_CONFIG', path: 'priority' })
    assert.throws(load({ order: 'fifo', priority: 1_001 }), { code: 'LOCK_CONFIG', path: 'priority' })
    assert.throws(load({ kind: 'string', maxWaiters: 1 }), { code: 'LOCK_CONFIG', path: 'maxWaiters' })
    assert.throws(load({ kind: 'fair', maxWaiters: -1 }), { code: 'LOCK_CONFIG', path: 'maxWaiters' })
    load({ kind: 'fair', maxWaiters: 1 })()
  })

  it('@Locked admits several readers, and one writer', async () => {
    @Injectable()
    class Catalogue {
      @Locked('catalogue', { kind: 'read', waitTimeMs: 0 })
      async read(): Promise<string> {
        return 'read'
      }

      @Locked('catalogue', { kind: 'write', onBusy: 'skip' })
      async write(): Promise<string | undefined> {
        return 'written'
      }
    }
    await using app = await startWith(Catalogue)
    await other
      .getReadWriteLock('catalogue')
      .readLock()
      .withLock(async () => {
        assert.equal(await app.service.read(), 'read')
        assert.equal(await app.service.write(), undefined)
      })
    assert.equal(await app.service.write(), 'written')
  })

  it('@Locked re-enters along the call chain, but not for another call', async () => {
    @Injectable()
    class Orders {
      @Locked('order:{0}')
      async outer(id: string) {
        return await this.inner(id)
      }

      @Locked('order:{0}', { waitTimeMs: 0 })
      async inner(_id: string) {
        return currentHold().count
      }
    }
    await using app = await startWith(Orders)
    assert.equal(await app.service.outer('1'), 2)
    await other.getLock('order:1').withLock(async () => {
      await assert.rejects(app.service.inner('1'), WaitTimeoutError)
      assert.equal(await app.service.inner('2'), 1)
    })
  })

  it('@Locked works on inherited, overridden and super methods, even with different clients', async () => {
    class Base {
      @Locked('base:{0}')
      async run(id: string) {
        return `base ${id} ${currentHold().lockName}`
      }

      @Locked('kept')
      async kept() {
        return await nameOfHold()
      }
    }

    @Injectable()
    class Derived extends Base {
      @Locked('derived:{0}', { client: 'stock' })
      override async run(id: string) {
        return `${currentHold().lockName} over ${await super.run(id)}`
      }
    }

    @Injectable()
    class Plain extends Base {}

    await using running = await startApp({
      imports: [HoldfastModule.forRoot(server.url), HoldfastModule.forRoot({ name: 'stock', url: `${server.url}/1` })],
      providers: [Derived, Plain],
    })
    assert.equal(await running.app.get(Derived).run('1'), 'derived:1 over base 1 base:1')
    assert.equal(await running.app.get(Derived).kept(), 'kept')
    assert.equal(await running.app.get(Plain).run('2'), 'base 2 base:2')
  })

  it('@Locked makes a sync method async', async () => {
    @Injectable()
    class Service {
      // @ts-expect-error: it would return a promise now
      @Locked('sync')
      run() {
        return 7
      }
    }
    await using app = await startWith(Service)
    const result: unknown = app.service.run()
    assert.ok(result instanceof Promise)
    assert.equal(await result, 7)
  })

  it('@Locked rejects on instances that Nest did not create', async () => {
    @Injectable()
    class Service {
      @Locked('a')
      async run() {}
    }
    await assert.rejects(new Service().run(), /@Locked\("a"\) on Service.run: expected an instance created by Nest/)
    await assert.rejects(startApp({ providers: [Service] }), /holdfast/)
  })

  it('@Locked rejects if the lock was lost meanwhile', async () => {
    @Injectable()
    class Service {
      @Locked('a')
      async run() {
        gates.entered.open()
        await gates.leave.opened
      }
    }
    await using app = await startWith(Service)
    const run = app.service.run()
    await gates.entered.opened
    await app.app.get<Client>(getHoldfastToken()).getLock('a').forceUnlock()
    gates.leave.open()
    await assert.rejects(run, LeaseLostError)
  })
})

describe('@Locked when the lock is held elsewhere', () => {
  @Injectable()
  class Orders {
    runs = 0

    @Locked('order:{0}', { waitTimeMs: 5 })
    async orThrow(_id: string) {
      this.runs++
    }

    @Locked('order:{0}', { onBusy: 'skip' })
    async orSkip(_id: string): Promise<string | undefined> {
      this.runs++
      return 'done'
    }

    @Locked('order:{0}', { onBusy: async (id: string) => `${id} is busy` })
    async orAnswer(_id: string): Promise<string> {
      this.runs++
      return 'done'
    }

    @Locked('order:{0}', {
      onBusy: () => {
        throw new ConflictException()
      },
    })
    async orConflict(_id: string): Promise<string> {
      this.runs++
      return 'done'
    }

    @Locked('order:{0}')
    async orWait(_id: string): Promise<string> {
      this.runs++
      return 'done'
    }

    @Locked('order:{0}', { onBusy: 'skip', waitTimeMs: 60_000 })
    async orWaitAndSkip(_id: string): Promise<string | undefined> {
      this.runs++
      return 'done'
    }

    @Locked('order:{0}', { onBusy: 'skip' })
    async orThrowItself(_id: string): Promise<void> {
      throw new WaitTimeoutError('something else', 1)
    }
  }

  it('@Locked throws, skips, returns another value, or waits when the lock is held elsewhere', async () => {
    await using app = await startWith(Orders)
    const { service } = app
    const hold = await other.getLock('order:1').lock()
    await assert.rejects(service.orThrow('1'), WaitTimeoutError)
    assert.equal(await service.orSkip('1'), undefined)
    assert.equal(await service.orAnswer('1'), '1 is busy')
    await assert.rejects(service.orConflict('1'), ConflictException)
    const waiting = [service.orWait('1'), service.orWaitAndSkip('1')]
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length > 0)
    assert.equal(service.runs, 0)
    await hold.unlock()
    assert.deepEqual(await Promise.all(waiting), ['done', 'done'])
    await service.orThrow('1')
    assert.equal(await service.orSkip('1'), 'done')
    assert.equal(await service.orAnswer('1'), 'done')
    assert.equal(await service.orConflict('1'), 'done')
    assert.equal(service.runs, 6)
    await assert.rejects(service.orThrowItself('1'), /something else/)
  })
})

describe('@Locked with atLeastMs', () => {
  @Injectable()
  class Reports {
    runs = 0

    @Locked('report', { onBusy: 'skip', atLeastMs: 60_000 })
    async skipping(): Promise<number | undefined> {
      return ++this.runs
    }

    @Locked('report', { waitTimeMs: 5, atLeastMs: 60_000 })
    async throwing(): Promise<number> {
      return ++this.runs
    }

    @Locked('report', { atLeastMs: 60_000 })
    async waiting(): Promise<number> {
      return ++this.runs
    }

    @Locked('report', { onBusy: 'skip', atLeastMs: 60_000 })
    async nested(): Promise<number | undefined> {
      return await this.skipping()
    }

    @Locked('short', { atLeastMs: 40 })
    async short(): Promise<number> {
      return performance.now()
    }
  }

  it('@Locked with atLeastMs does not run the method again before that time on any instance', async () => {
    await using late = await startWith(Reports)
    {
      await using app = await startWith(Reports)
      assert.equal(await app.service.skipping(), 1)
    } // gone at once: nothing is left to drain
    const left = await server.admin.pttl('report')
    assert.ok(left > 40_000 && left <= 60_000, String(left))
    assert.equal(await late.service.skipping(), undefined)
    await assert.rejects(late.service.throwing(), WaitTimeoutError)
    assert.equal(late.service.runs, 0)
    const waiting = late.service.waiting()
    await late.app.get<Client>(getHoldfastToken()).getLock('report').forceUnlock()
    assert.equal(await waiting, 1)
    await server.admin.del('report')
  })

  it('@Locked with atLeastMs runs the method again after that time', async () => {
    await using app = await startWith(Reports)
    const [first, second] = [await app.service.short(), await app.service.short()]
    assert.ok(second - first >= 30, String(second - first))
    await waitUntil(async () => (await server.admin.exists('short')) === 0)
  })

  it('@Locked with atLeastMs runs the method inside itself, and is not re-entered in a scope', async () => {
    await using app = await startWith(Reports)
    const client = app.app.get<Client>(getHoldfastToken())
    await client.runInScope(async () => {
      assert.equal(await app.service.nested(), 1)
      assert.equal(await app.service.skipping(), undefined)
    })
    await server.admin.del('report')
  })
})

describe('@Locked over HTTP', () => {
  const gates = { entered: new Gate(), leave: new Gate() }

  class Amount {
    constructor(readonly amount: number) {}
  }

  @Controller('orders')
  class Orders {
    @Get('above/:id')
    @Locked('order:{0}')
    @SetMetadata('note', 'below')
    async above(@Param('id', ParseIntPipe) id: number) {
      return { id, type: typeof id, lock: await nameOfHold() }
    }

    @Locked('order:{id}', { onBusy: 'skip' })
    @Get('below/:id')
    @HttpCode(202)
    async below(@LockKey('id') @Param('id') id: string): Promise<object | undefined> {
      return { id, lock: await nameOfHold() }
    }

    @Post(':id/pay')
    @Locked('order:{0}:{1.amount}')
    async pay(@Param('id') id: string, @Body() body: Amount) {
      gates.entered.open()
      await gates.leave.opened
      return { id, paid: body.amount }
    }

    @Get('found')
    @Locked('order:{0}')
    async found(@Query('id') id: string) {
      return id
    }

    @Get('conflict')
    @Locked('order:conflict', {
      onBusy: () => {
        throw new ConflictException('somebody else is at it')
      },
    })
    async conflict() {
      return 'done'
    }
  }

  @Controller({ path: 'scoped', scope: Scope.REQUEST })
  class Scoped {
    readonly born = performance.now()

    @Get()
    @Locked('scoped')
    async get() {
      return { born: this.born, lock: await nameOfHold() }
    }
  }

  it('@Locked over HTTP keeps routes, pipes, status and metadata, whichever decorator is on top', async () => {
    await using running = await startApp({
      imports: [HoldfastModule.forRoot(server.url)],
      controllers: [Orders, Scoped],
    })
    assert.deepEqual(JSON.parse((await running.get('/orders/above/7')).body), {
      id: 7,
      type: 'number',
      lock: 'order:7',
    })
    assert.deepEqual(await running.get('/orders/below/7'), { status: 202, body: '{"id":"7","lock":"order:7"}' })
    assert.equal(Reflect.getMetadata('note', Orders.prototype.above), 'below')
    assert.equal(Orders.prototype.pay.name, 'pay')
    assert.equal(Orders.prototype.pay.length, 2)
    assert.equal((await running.get('/orders/above/seven')).status, 400)
    const [first, second] = [await running.get('/scoped'), await running.get('/scoped')]
    assert.equal(JSON.parse(first.body).lock, 'scoped')
    assert.notEqual(first.body, second.body)
  })

  it('@Locked over HTTP replies 400 to an argument that names no lock, and logs no stack', async () => {
    await using running = await startApp({ imports: [HoldfastModule.forRoot(server.url)], controllers: [Orders] })
    assert.deepEqual(await running.get('/orders/found?id=7'), { status: 200, body: '7' })
    for (const query of ['id=1&id=2', 'id[x]=1', 'id=', '']) {
      const { status, body } = await running.get(`/orders/found?${query}`)
      assert.equal(status, 400, query)
      assert.doesNotMatch(body, /Orders|at /)
    }
  })

  it('@Locked over HTTP serializes requests for one lock name, and replies 409 if told to', async () => {
    await using running = await startApp({ imports: [HoldfastModule.forRoot(server.url)], controllers: [Orders] })
    const paid = fetch(`${running.url}/orders/7/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"amount":5}',
    })
    await gates.entered.opened
    assert.equal(await other.getLock('order:7:5').isLocked(), true)
    gates.leave.open()
    assert.deepEqual(await (await paid).json(), { id: '7', paid: 5 })
    await other.getLock('order:conflict').withLock(async () => {
      assert.equal((await running.get('/orders/conflict')).status, 409)
    })
    assert.equal((await running.get('/orders/conflict')).status, 200)
  })
})
