/** Options are what the caller gave, and nothing that was put into Object.prototype. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { Redis } from 'ioredis'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { CLIENT_OPTIONS } from '../../src/client-options.js'
import { describe } from '../../src/config/deployment.js'
import { loadConfig } from '../../src/config/load.js'
import { KEYS, type RedissonConfig } from '../../src/config/schema.js'
import { connect } from '../../src/index.js'
import { Locked } from '../../src/nestjs/index.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

/** No check accepts it. */
const WRONG = Object.freeze({ from: 'Object.prototype' })
/** Without `signal`, which Node itself reads. */
const LOCK_OPTIONS = ['leaseTimeMs', 'maxHoldMs', 'warnAfterMs', 'label', 'waitTimeMs', 'within']
const OTHER_OPTIONS = ['onAcquire', 'onRelease', 'permits', 'timeToLiveMs', 'drainMs', 'backOff', 'delayMs']
/** Without `client`, of which ioredis takes the one of Object.prototype for its command CLIENT. */
const CONNECT_OPTIONS = [...Object.keys(CLIENT_OPTIONS), 'url', 'config', 'credentialsResolver', 'lazy', 'watchdog']
const THREAD_OPTIONS = ['thread', 'maxBlockMs', 'connection']

let server: RedisServer
let redis: Redis
before(async () => {
  server = await startRedis()
  redis = new Redis(server.url)
  await redis.ping()
})
after(async () => {
  redis.disconnect()
  await server.stop()
})

async function whilePolluted(names: readonly string[], run: () => unknown): Promise<void> {
  for (const name of names) {
    Object.defineProperty(Object.prototype, name, { value: WRONG, configurable: true, writable: true })
  }
  try {
    await run()
  } finally {
    for (const name of names) Reflect.deleteProperty(Object.prototype, name)
  }
}

it('locks, semaphores and permits ignore options on Object.prototype', async () => {
  await using client = await connect({ client: redis })
  const semaphore = client.getSemaphore('semaphore')
  const permits = client.getPermitExpirableSemaphore('permits')
  await semaphore.trySetPermits(5)
  await permits.trySetPermits(5)
  for (const name of [...LOCK_OPTIONS, ...OTHER_OPTIONS]) {
    await whilePolluted([name], async () => {
      for (const lock of [client.getLock('a'), client.getFairLock('b'), client.getFencedLock('c')]) {
        for (const options of [undefined, {}, { waitTimeMs: 1_000 }]) {
          await (await lock.lock(options)).unlock()
          const hold = await lock.tryLock(options)
          assert.equal(hold?.label, undefined)
          await hold?.unlock()
          await lock.withLock(options ?? {}, () => {})
          assert.ok((await lock.tryWithLock(options ?? {}, () => {})).ran)
        }
      }
      await (await client.getSpinLock('d', { backOff: { type: 'constant' } }).lock()).unlock()
      for (const [options, count] of [
        [undefined, 1],
        [{}, 1],
        [{ permits: 2 }, 2],
      ] as const) {
        await semaphore.acquire(options)
        await semaphore.release(count)
        assert.ok(await semaphore.tryAcquire(options))
        await semaphore.release(count)
        await semaphore.withPermit(options ?? {}, () => {})
        assert.ok((await semaphore.tryWithPermit(options ?? {}, () => {})).ran)
        await (await permits.acquire(options)).unlock()
        await (await permits.tryAcquire(options))?.unlock()
        await permits.withPermit(options ?? {}, () => {})
        assert.ok((await permits.tryWithPermit(options ?? {}, () => {})).ran)
      }
      assert.equal(await client.getCountDownLatch('e').await(), true)
    })
  }
  assert.equal(await semaphore.availablePermits(), 5)
})

it('connect ignores options on Object.prototype', async () => {
  for (const name of [...CONNECT_OPTIONS, ...THREAD_OPTIONS]) {
    await whilePolluted([name], async () => {
      await (await connect({ client: redis })).close()
      await (await connect({ client: redis, watchdog: {} })).close()
      await (await connect({ url: server.url })).close()
      await (await connect({ config: { singleServerConfig: { address: server.url } } })).close()
    })
  }
})

it('a configuration ignores keys on Object.prototype', async () => {
  const config = { singleServerConfig: { address: 'redis://a:1' } }
  const withoutFunctions = (deployment: unknown): unknown => JSON.parse(JSON.stringify(deployment))
  const expected = withoutFunctions(describe(config))
  const sections = Object.keys(KEYS).filter((section) => section !== '')
  // Not those of a user: our own addresses have them, and ioredis would read them anyway.
  const keys = [...sections, ...Object.values(KEYS).flatMap((ofSection) => Object.keys(ofSection))]
  for (const name of new Set(keys.filter((key) => key !== 'username' && key !== 'password'))) {
    let found: unknown
    await whilePolluted([name], () => {
      found = describe({ singleServerConfig: { address: 'redis://a:1' } } as RedissonConfig)
    })
    assert.deepEqual(withoutFunctions(found), expected, name)
  }
  for (const name of ['env', 'nameMapper', 'credentialsResolver']) {
    await whilePolluted([name], async () => {
      assert.deepEqual(await loadConfig(JSON.stringify(config)), config)
    })
  }
})

it('adapters and decorators ignore options on Object.prototype', async () => {
  await whilePolluted(['subscriber', 'client', 'atLeastMs', 'kind', 'onBusy', 'label', 'waitTimeMs'], () => {
    const glide = { customCommand() {}, getPubSubMessage() {}, subscribeLazy() {} }
    assert.ok(valkeyGlide(glide as never))
    class Orders {
      async pay(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'pay') as TypedPropertyDescriptor<
      () => Promise<void>
    >
    Locked('order', {})(Orders.prototype, 'pay', descriptor)
    assert.ok(Object.getOwnPropertySymbols(Orders.prototype).includes(Symbol.for('holdfast')))
  })
})
