/** The arguments of `client.locks.request` are converted by Web IDL and checked in the order of the standard. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { WebLock, WebLockManager } from '../../src/index.js'
import { toRequest } from '../../src/web-locks/arguments.js'
import { lockOf, requestedName } from '../../src/web-locks/names.js'
import { keyOf } from '../../src/wire/names.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

const unused = (): never => assert.fail('must not run')
const NOT_SUPPORTED = { name: 'NotSupportedError' }

describe('the arguments of client.locks.request', () => {
  const clock = new FakeClock()
  let port: FakePort
  let locks: WebLockManager
  let close: () => Promise<void>

  beforeEach(() => {
    port = new FakePort(clock)
    const client = fakeClient(clock, port)
    locks = client.locks
    close = async () => await clock.until(client.close())
  })

  afterEach(async () => {
    assert.equal(port.count(), 0, 'nothing was sent')
    await close()
  })

  /** Rejects, and never throws. */
  async function refuses(given: readonly unknown[], expected: object): Promise<void> {
    const promise = (locks.request as (...given: unknown[]) => Promise<unknown>).apply(locks, [...given])
    assert(promise instanceof Promise)
    await assert.rejects(promise, expected)
  }

  it('client.locks.request without a name or a callback rejects with a TypeError', async () => {
    for (const given of [[], ['a'], ['a', undefined], ['a', {}], ['a', {}, undefined], ['a', unused, {}]]) {
      await refuses(given, TypeError)
    }
  })

  it('client.locks.request converts the name to a string, which a symbol cannot be', async () => {
    await refuses([Symbol('a'), unused], TypeError)
    assert.equal(toRequest([null, unused]).name, 'null')
    assert.equal(toRequest([{ toString: () => 'b' }, unused]).name, 'b')
    const error = new Error('no name')
    await refuses([{ toString: () => { throw error } }, unused], error) // biome-ignore format: one line
  })

  it('client.locks.request takes undefined and null for no options, and refuses what is no object', async () => {
    for (const options of [undefined, null, {}, unused]) {
      const { mode, ifAvailable, steal, signal, priority } = toRequest(['a', options, unused])
      assert.deepEqual([mode, ifAvailable, steal, signal, priority], ['exclusive', false, false, undefined, 0])
    }
    for (const options of [1, 'shared', true]) await refuses(['a', options, unused], TypeError)
  })

  it('client.locks.request knows the modes exclusive and shared; null is another one', async () => {
    assert.equal(toRequest(['a', { mode: undefined }, unused]).mode, 'exclusive')
    assert.equal(toRequest(['a', { mode: { toString: () => 'shared' } }, unused]).mode, 'shared')
    for (const mode of [null, '', 'Shared', 'read', 1]) await refuses(['a', { mode }, unused], TypeError)
  })

  it('client.locks.request takes undefined for no signal; null and false are no signals', async () => {
    assert.equal(toRequest(['a', { signal: undefined }, unused]).signal, undefined)
    for (const signal of [null, false, {}, 'x']) await refuses(['a', { signal }, unused], TypeError)
  })

  it('client.locks.request converts ifAvailable and steal to booleans', () => {
    const { ifAvailable } = toRequest(['a', { ifAvailable: 'yes', steal: 0 }, unused])
    assert.equal(ifAvailable, true)
    assert.equal(toRequest(['a', { ifAvailable: null, steal: {} }, unused]).steal, true)
  })

  it('client.locks.request reads each option once, by name, and before it looks at the callback', async () => {
    const read: string[] = []
    const options = new Proxy({}, { get: (_, key) => void read.push(String(key)) })
    await refuses(['a', options, 1], TypeError)
    assert.deepEqual(read, ['ifAvailable', 'leaseTimeMs', 'maxWaiters', 'mode', 'priority', 'signal', 'steal'])
  })

  it('client.locks.request refuses names that begin with a hyphen before all else', async () => {
    const signal = AbortSignal.abort(new Error('aborted'))
    await refuses(['-', unused], NOT_SUPPORTED)
    await refuses(['-a', { steal: true, ifAvailable: true, signal }, unused], { message: /begin with "-"/ })
    assert.equal(toRequest(['a-', unused]).name, 'a-')
  })

  it('client.locks.request refuses options that exclude each other, before an aborted signal', async () => {
    const signal = AbortSignal.abort(new Error('aborted'))
    await refuses(['a', { steal: true, ifAvailable: true, mode: 'shared', signal }, unused], {
      ...NOT_SUPPORTED,
      message: /'steal' and 'ifAvailable'/,
    })
    await refuses(['a', { steal: true, mode: 'shared', signal }, unused], { ...NOT_SUPPORTED, message: /exclusive/ })
    await refuses(['a', { steal: true, signal }, unused], { ...NOT_SUPPORTED, message: /'signal' and 'steal'/ })
    await refuses(['a', { ifAvailable: true, signal }, unused], { ...NOT_SUPPORTED, message: /'signal' and 'ifA/ })
  })

  it('client.locks.request rejects with the reason of a signal that has aborted', async () => {
    await refuses(['a', { signal: AbortSignal.abort() }, unused], { name: 'AbortError' })
    const reason = { why: 'because' }
    const promise = locks.request('a', { signal: AbortSignal.abort(reason) }, unused)
    assert.equal(await promise.then(unused, (error: unknown) => error), reason)
  })

  it('client.locks.request refuses a priority, maxWaiters or lease that cannot work', async () => {
    for (const priority of [1_001, -1_001, 0.5, '1']) await refuses(['a', { priority }, unused], { path: 'priority' })
    for (const maxWaiters of [-1, 0.5, null]) await refuses(['a', { maxWaiters }, unused], { path: 'maxWaiters' })
    for (const leaseTimeMs of [9, -1, null]) await refuses(['a', { leaseTimeMs }, unused], { path: 'leaseTimeMs' })
  })

  it('client.locks.request and query called on something else reject with a TypeError', async () => {
    const { request, query } = locks
    await assert.rejects(request.call({} as WebLockManager, 'a', {}, unused), TypeError)
    await assert.rejects(query.call({} as WebLockManager), TypeError)
  })

  it('WebLock and WebLockManager cannot be constructed by a program', () => {
    for (const Class of [WebLock, WebLockManager]) {
      assert.throws(() => Reflect.construct(Class, []), { name: 'TypeError', message: 'Illegal constructor' })
    }
    assert.equal(String(locks), '[object LockManager]')
  })
})

describe('the name of a lock of client.locks', () => {
  const plainKey = (name: string): string => keyOf(undefined, name)

  it('the lock of client.locks has the name of the request, if a lock can have it', () => {
    for (const name of ['a', 'order:1', 'ü', '{a}', '\0', '😀']) {
      assert.deepEqual(lockOf(name, plainKey), { name, key: name })
      assert.equal(requestedName(name), name)
    }
  })

  it('a name that UTF-8 cannot carry, the empty name and those of Holdfast itself are encoded', () => {
    assert.equal(lockOf('a\uD800', plainKey).key, 'holdfast_utf16:0061d800')
    for (const name of ['', '\uD800', '\uDC00\uD800', 'holdfast_web_locks', 'holdfast_utf16:0061']) {
      const { key } = lockOf(name, plainKey)
      assert.match(key, /^holdfast_utf16:[0-9a-f]*$/)
      assert.notEqual(key, name)
      assert.equal(requestedName(key), name)
    }
  })

  it('the key of an encoded name is what the name mapper makes of it', () => {
    const mapper = { map: (name: string) => `app:${name}`, unmap: (key: string) => key.slice(4) }
    assert.equal(lockOf('', (name) => keyOf(mapper, name)).key, 'app:holdfast_utf16:')
  })
})
