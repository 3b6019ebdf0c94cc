/** What cannot work is refused by its name, before any command is sent. `fuzz-arguments` tries anything at all. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import { CLIENT_OPTIONS } from '../../src/client-options.js'
import { connect, getMultiLock, getRedLock } from '../../src/index.js'
import { checkPriority } from '../../src/locks/options.js'
import { checkNames } from '../../src/locks/with-lock.js'
import { keyOf } from '../../src/wire/names.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

/** 100 years of 365 days. */
const MAX_DURATION_MS = 3_153_600_000_000
const clock = new FakeClock()
let port: FakePort
let client: Client

beforeEach(() => {
  port = new FakePort(clock)
  client = fakeClient(clock, port)
})

afterEach(async () => {
  assert.equal(port.count(), 0, 'nothing was sent')
  await clock.until(client.close())
})

/** @param path  the argument that the error names. @param said  what it says is accepted */
async function refuses(path: string, call: () => unknown, said?: RegExp, lockName?: string): Promise<void> {
  const refusal = { code: 'LOCK_CONFIG', path, ...(said && { allowed: said }), ...(lockName && { lockName }) }
  await assert.rejects(async () => await call(), refusal)
}

const loose = (given: unknown): never => given as never
const unused = (): never => assert.fail('must not run')

describe('an option of the client', () => {
  /** The least and the greatest value that is accepted. */
  const RANGES: Readonly<Record<string, readonly [number, number]>> = {
    lockWatchdogTimeoutMs: [10, MAX_DURATION_MS],
    lockWatchdogBatchSize: [1, 10_000],
    fairLockWaitTimeoutMs: [1, MAX_DURATION_MS],
    commandTimeoutMs: [1, MAX_DURATION_MS],
    slavesSyncTimeoutMs: [1, MAX_DURATION_MS],
    maxHoldMs: [1, MAX_DURATION_MS],
    waitTimeMs: [0, MAX_DURATION_MS],
    warnAfterMs: [1, MAX_DURATION_MS],
    maxHandOffs: [0, 2 ** 31 - 1],
    maxHandOffMs: [0, MAX_DURATION_MS],
  }

  for (const [name, [least, most]] of Object.entries(RANGES)) {
    it(`${name} is a whole number from ${least} to ${most}`, async () => {
      const check = CLIENT_OPTIONS[name as 'waitTimeMs']
      assert.equal(check(name, least), least)
      assert.equal(check(name, most), most)
      for (const wrong of [least - 1, most + 1, least + 0.5, Number.NaN, String(least), null]) {
        await refuses(name, () => fakeClient(clock, port, { [name]: wrong }))
      }
    })
  }

  it('an option of the client that is true or false takes nothing else', async () => {
    for (const name of ['checkLockSyncedSlaves', 'checkLockFsynced', 'implicitReentry'] as const) {
      assert.equal(CLIENT_OPTIONS[name](name, true), true)
      assert.equal(CLIENT_OPTIONS[name](name, false), false)
      for (const wrong of ['true', 1, null]) await refuses(name, () => fakeClient(clock, port, { [name]: wrong }))
    }
  })

  it('an option of the client has a default', () => {
    const defaults = Object.entries(CLIENT_OPTIONS).map(([name, check]) => [name, check(name, undefined)])
    assert.deepEqual(Object.fromEntries(defaults), {
      lockWatchdogTimeoutMs: 30_000,
      lockWatchdogBatchSize: 100,
      fairLockWaitTimeoutMs: 300_000,
      nameMapper: undefined,
      commandTimeoutMs: 3_000,
      checkLockSyncedSlaves: undefined,
      slavesSyncTimeoutMs: 1_000,
      checkLockFsynced: false,
      maxHoldMs: undefined,
      waitTimeMs: undefined,
      warnAfterMs: undefined,
      maxHandOffs: 1_000,
      maxHandOffMs: 20,
      implicitReentry: true,
      inspection: { name: undefined, host: undefined, stacks: false },
    })
  })

  it('inspection is on, off, or says how the client describes itself', async () => {
    const check = (value: unknown): unknown => CLIENT_OPTIONS.inspection('inspection', value)
    assert.equal(check(false), false)
    assert.deepEqual(check(true), check(undefined))
    const given = { name: 'orders-api', host: false, stacks: true }
    assert.deepEqual(check(given), given)
    for (const wrong of ['on', 1, null, { stack: true }, { name: 1 }, { host: true }, { stacks: 1 }]) {
      assert.throws(() => check(wrong), { code: 'LOCK_CONFIG' })
    }
    assert.throws(() => check({ name: 'x'.repeat(257) }), { path: 'inspection.name' })
    await refuses('inspection', () => fakeClient(clock, port, { inspection: 'on' as never }))
  })

  it('nameMapper has both functions, and maps to names that can be keys', async () => {
    const [map, unmap] = [(name: string) => `app:${name}`, (name: string) => name.slice(4)]
    assert.equal(keyOf({ map, unmap }, 'a'), 'app:a')
    for (const nameMapper of [{}, { map }, { unmap }, { map, unmap: 1 }, { map: 1, unmap }, null, 1]) {
      await refuses('nameMapper', () => fakeClient(clock, port, { nameMapper: loose(nameMapper) }))
    }
    await refuses('nameMapper.map', () => keyOf({ map: () => '', unmap }, 'a'))
  })

  it('an option of the client is known', async () => {
    await refuses('timeout', () => fakeClient(clock, port, loose({ timeout: 1 })), /^commandTimeoutMs instead/)
    for (const name of ['lockWatchdogTimeout', 'leaseTime', 'lockTimeout', 'ttl']) {
      await refuses(name, () => fakeClient(clock, port, loose({ [name]: 1 })), /^lockWatchdogTimeoutMs instead, one of/)
    }
    await refuses('redis', () => connect(loose({ redis: {} })), /^client instead, one of/)
  })
})

describe('an argument', () => {
  it('a name is text that can be a key, of at most 1 MiB', async () => {
    const mib = 2 ** 20
    assert.equal(client.getLock('a'.repeat(mib)).name.length, mib)
    assert.equal(client.getLock('é'.repeat(mib / 2)).name.length, mib / 2)
    for (const wrong of ['', 1, null, '\ud800', 'a'.repeat(mib + 1), `${'é'.repeat(mib / 2)}a`]) {
      await refuses('lock name', () => client.getLock(loose(wrong)))
    }
    await refuses('semaphore name', () => client.getSemaphore(''))
    await refuses('semaphore name', () => client.getPermitExpirableSemaphore(''))
    await refuses('latch name', () => client.getCountDownLatch(''))
  })

  it('an option of an ordered lock has an order, and says how many may wait', async () => {
    const getters = ['getLock', 'getReadWriteLock'] as const
    for (const get of getters) {
      await refuses('order', () => client[get]('a', loose({ order: 'lifo' })), undefined, 'a')
      await refuses('maxWaiters', () => client[get]('a', { maxWaiters: 1 }), /fifo/, 'a')
      await refuses('maxWaiters', () => client[get]('a', { order: 'fifo', maxWaiters: -1 }), undefined, 'a')
      await refuses('fifo', () => client[get]('a', loose({ fifo: true })), undefined, 'a')
      for (const maxWaiters of [undefined, 0, 5]) client[get]('a', { order: 'fifo', maxWaiters })
      client[get]('a', {})
    }
    for (const priority of [undefined, -1_000, 0, 1_000]) assert.equal(checkPriority(priority, 'a'), priority)
    for (const wrong of [-1_001, 1_001, 0.5]) await refuses('priority', () => checkPriority(wrong, 'a'), undefined, 'a')
    for (const get of ['getFairLock', 'getNonReentrantFairLock'] as const) {
      await refuses('maxWaiters', () => client[get]('a', { maxWaiters: 0.5 }), undefined, 'a')
      await refuses('order', () => client[get]('a', loose({ order: 'fifo' })), undefined, 'a')
      client[get]('a', {})
    }
  })

  it('an option of a lock is known, and has its type', async () => {
    const lock = client.getLock('a')
    const wrong: Record<string, readonly unknown[]> = {
      leaseTimeMs: [9, 10.5, '10', MAX_DURATION_MS + 1],
      maxHoldMs: [0, '1'],
      warnAfterMs: [0, '1'],
      atLeastMs: [9, '10'],
      waitTimeMs: [-1, '0'],
      signal: [{}, 1, null],
      label: [1, {}],
      within: [1, {}],
      onAcquire: [1, {}],
      onRelease: [1, {}],
      ttl: [1],
    }
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        await refuses(name, () => lock.withLock(loose({ [name]: value }), unused), undefined, 'a')
      }
    }
    await refuses('priority', () => lock.lock({ priority: 1 }), /ordered lock/, 'a')
    await refuses('atLeastMs', () => lock.lock(loose({ atLeastMs: 1_000 })))
    await refuses('options', () => lock.lock(loose(5_000)), /^an object with some of leaseTimeMs[\w, ]+$/)
    await refuses('options', () => lock.tryLock(loose(null)))
    await refuses('options', () => lock.lock(loose(() => {})), /withLock\(fn\)/)
  })

  it('leaseTimeMs: -1, which means the watchdog in Redisson, says that it has to be omitted', async () => {
    const allowed = /omit it for what -1 means in Redisson/
    await assert.rejects(client.getLock('a').lock({ leaseTimeMs: -1 }), { code: 'LOCK_CONFIG', lockName: 'a', allowed })
    await assert.rejects(client.getLock('a').lock({ leaseTimeMs: -2 }), { allowed: /from 10/ })
  })

  it('an option may have another name in other libraries, and the error says its name here', async () => {
    for (const [name, here] of Object.entries({
      timeout: 'waitTimeMs',
      acquireTimeout: 'waitTimeMs',
      wait: 'waitTimeMs',
      ttl: 'leaseTimeMs',
      timeToLive: 'leaseTimeMs',
      lockTimeout: 'leaseTimeMs',
      leaseTime: 'leaseTimeMs',
      duration: 'leaseTimeMs',
      expires: 'leaseTimeMs',
      maxHold: 'maxHoldMs',
    })) {
      await refuses(name, () => client.getLock('a').lock(loose({ [name]: 1 })), new RegExp(`^${here} instead, one of`))
    }
    const timeToLive = loose({ timeToLive: 1 })
    await refuses('timeToLive', () => client.getSemaphore('a').trySetPermits(1, timeToLive), /^timeToLiveMs instead/)
    await refuses('toString', () => client.getLock('a').lock(loose({ toString: 1 })), /^one of the options/)
  })

  it('a function to run is one that runs while the lock is held', async () => {
    const lock = client.getLock('a')
    for (const fn of [undefined, 1, {}]) await refuses('fn', () => lock.withLock({}, loose(fn)), /with the lock$/, 'a')
    function* numbers(): Generator<number> {
      yield 1
    }
    async function* rows(): AsyncGenerator<number> {
      yield 1
    }
    for (const fn of [numbers, rows])
      await refuses('fn', () => lock.withLock(loose(fn)), /not a generator function/, 'a')
    await refuses(
      'options',
      () =>
        lock.withLock(
          loose(() => {}),
          loose({}),
        ),
      /before the function/,
      'a',
    )
    await refuses('fn', () => client.getSemaphore('a').withPermit({}, loose(1)), /with permits$/, 'a')
    await refuses('fn', () => client.runInScope(loose(1)))
    const explicit = fakeClient(clock, port, { implicitReentry: false })
    await refuses('runInScope', () => explicit.runInScope(unused), /without implicitReentry: false/)
    await clock.until(explicit.close())
  })

  it('client.withLock takes a name, or an array of names with the options after it', async () => {
    await refuses('names', () => client.withLock([], unused), /at least one name/)
    await refuses('names', () => client.withLock(loose('a'), loose('b')), /an array of names: \(\[name/)
    await refuses('names', () => client.withLock(loose(1), unused), /a name or an array/)
    assert.deepEqual(checkNames('ab', []), ['ab'])
    assert.deepEqual(checkNames(['a', 'b', 'a'], [{}]), ['a', 'b'])
  })

  it('a multi-lock and a red lock take locks of a client, each once', async () => {
    const [a, b] = [client.getLock('a'), client.getLock('b')]
    await refuses('getMultiLock', () => getMultiLock(), /at least one lock/)
    await refuses('getRedLock', () => getRedLock(), /at least one lock/)
    const wrong: readonly [unknown, RegExp][] = [
      [1, /^a lock of a client$/],
      [{}, /^a lock of a client$/],
      [[a], /write \.\.\.locks/],
      [getMultiLock(a, b), /pass the locks that this one is made of/],
      [{ withLock: () => {} }, /another copy/],
    ]
    for (const [lock, said] of wrong) await refuses('getMultiLock: lock 2', () => getMultiLock(a, loose(lock)), said)
    assert.throws(() => getMultiLock(loose(7)), { value: 7 })
    assert.throws(() => getMultiLock(loose({ password: 'x' })), { value: undefined })
    await refuses('getMultiLock: lock 3', () => getMultiLock(a, b, client.getLock('a')), /not given twice/, 'a')
    getMultiLock(
      a,
      client.getSpinLock('b'),
      client.getFasterMultiLock('c', ['1']),
      client.getFasterMultiLock('c', ['2']),
    )
    const other = fakeClient(clock, port)
    getMultiLock(a, other.getLock('a'))
    await clock.until(other.close())
  })

  it('a lock made of several refuses options that are for a lock on one name', async () => {
    for (const several of [getMultiLock, getRedLock]) {
      const lock = several(client.getLock('a'), client.getLock('b'))
      await refuses('within', () => lock.lock(loose({ within: {} })), /no hold to re-enter/, lock.name)
      await refuses('atLeastMs', () => lock.withLock({ atLeastMs: 1_000 }, unused), /made of others/, lock.name)
    }
    const shared = client.getReadWriteLock('a').readLock()
    await refuses('atLeastMs', () => shared.withLock({ atLeastMs: 1_000 }, unused), /one owner/, 'a')
  })

  it("a spin lock's options say how long it sleeps", async () => {
    const spin = (backOff: unknown): unknown => client.getSpinLock('a', { backOff: loose(backOff) })
    for (const [path, backOff] of [
      ['backOff.type', { type: 'linear' }],
      ['backOff.type', null],
      ['backOff.delayMs', { type: 'constant', delayMs: 0 }],
      ['delay', { type: 'constant', delay: 1 }],
      ['backOff.initialDelayMs', { type: 'exponential', initialDelayMs: 0 }],
      ['backOff.maxDelayMs', { type: 'exponential', initialDelayMs: 10, maxDelayMs: 9 }],
      ['backOff.multiplier', { type: 'exponential', multiplier: 0 }],
      ['backOff.multiplier', { type: 'exponential', multiplier: 1.5 }],
      ['multiply', { type: 'exponential', multiply: 1 }],
    ] as const) {
      await refuses(path, () => spin(backOff), undefined, 'a')
    }
    spin({ type: 'constant', delayMs: 1 })
    spin({ type: 'exponential', initialDelayMs: 1, maxDelayMs: 1, multiplier: 1 })
    await refuses('backoff', () => client.getSpinLock('a', loose({ backoff: {} })), undefined, 'a')
  })

  it('a group takes its values as an argument', async () => {
    await refuses('values', () => client.getFasterMultiLock('a', []), undefined, 'a')
    await refuses('values', () => client.getFasterMultiLock('a', loose('b')), undefined, 'a')
    const most = Array.from({ length: 500 }, (_, n) => String(n))
    client.getFasterMultiLock('a', most)
    await refuses('values', () => client.getFasterMultiLock('a', [...most, 'one more']), /at most 500/, 'a')
    await refuses('values[1]', () => client.getFasterMultiLock('a', ['b', loose(1)]), undefined, 'a')
    await refuses('values[0]', () => client.getFasterMultiLock('a', ['\ud800']), undefined, 'a')
  })

  it('a number of permits, and the id of a permit, are checked', async () => {
    const semaphore = client.getSemaphore('a')
    const leased = client.getPermitExpirableSemaphore('a')
    for (const wrong of [-1, 1.5, '1', 2 ** 31]) {
      const permits = loose(wrong)
      for (const call of [
        () => semaphore.trySetPermits(permits),
        () => semaphore.acquire({ permits }),
        () => semaphore.release(permits),
        () => semaphore.addPermits(permits),
        () => semaphore.reducePermits(permits),
        () => leased.trySetPermits(permits),
        () => leased.setPermits(permits),
        () => leased.addPermits(permits),
        () => leased.reducePermits(permits),
        () => leased.acquire({ permits }),
      ]) {
        await refuses('permits', call, undefined, 'a')
      }
    }
    await refuses('permits', () => leased.acquire({ permits: 0 }), undefined, 'a')
    for (const id of [1, undefined, null, {}])
      await refuses('permitId', () => leased.getLeaseTime(loose(id)), undefined, 'a')
    const latch = client.getCountDownLatch('a')
    for (const wrong of [-1, 1.5, '1']) await refuses('count', () => latch.trySetCount(loose(wrong)), undefined, 'a')
  })

  it('an adopted hold is a hold of a lock that can be handed over', async () => {
    await refuses('holder', () => client.adopt('a', 'nonsense'), undefined, 'a')
    const fixed = client.getReadWriteLock('a').readLock()
    await refuses('adopt', () => fixed.adopt('client:1'), /can be handed over/, 'a')
  })

  it('the options of close() say when to close', async () => {
    for (const drainMs of [-1, 0.5, '0']) await refuses('drainMs', () => client.close({ drainMs: loose(drainMs) }))
    await refuses('drain', () => client.close(loose({ drain: 1 })))
  })
})
