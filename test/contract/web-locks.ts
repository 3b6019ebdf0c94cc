/** `client.locks`, from the text of the standard, wherever Redis runs: an agent is a client. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Client, WebLock, WebLockInfo, WebLockOptions } from '../../src/index.js'
import type { SetUp } from '../support/fixture.js'
import { waitUntil } from '../support/wait-until.js'

const unused = (): never => assert.fail('must not run')

/** A request whose callback ends when it is told to. */
interface Holding {
  readonly lock: WebLock
  /** What `request` returned. */
  readonly promise: Promise<unknown>
  release(value?: unknown): void
}

/** Resolves when it is granted. */
export async function hold(client: Client, name: string, options: WebLockOptions = {}): Promise<Holding> {
  return await new Promise((resolve, reject) => {
    const promise = client.locks.request(
      name,
      { ...options, ifAvailable: false },
      (lock) => new Promise((release) => resolve({ lock, promise, release })),
    )
    promise.catch(reject)
  })
}

/** Whether the name has these holders and waiters, for any client. */
async function expectState(client: Client, name: string, held: string[], pending: string[] = []): Promise<void> {
  const modesOf = (infos: readonly WebLockInfo[]) => infos.filter((info) => info.name === name).map(({ mode }) => mode)
  const found = await client.locks.query()
  assert.deepEqual({ held: modesOf(found.held), pending: modesOf(found.pending) }, { held, pending })
}

/** Call it inside a `describe`. */
export function webLocksContract(setUp: SetUp): void {
  const fixture = setUp({ keysThatStay: /^holdfast_(forced|audit)/ })

  it('client.locks.request calls back with a lock, and resolves to the result once the lock is released', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const result = await client.locks.request('a', async (lock) => {
      assert.deepEqual([lock.name, lock.mode, String(lock)], ['a', 'exclusive', '[object Lock]'])
      assert.equal(lock.signal.aborted, false)
      lock.assertHeld()
      await expectState(other, 'a', ['exclusive'])
      return 5
    })
    assert.equal(result, 5)
    await expectState(other, 'a', [])
  })

  it('client.locks.request rejects with what the callback throws, after the release', async () => {
    const client = await fixture.connect()
    const thrown = new Error('thrown')
    const throws = (): never => {
      throw thrown
    }
    await assert.rejects(client.locks.request('a', throws), thrown)
    await assert.rejects(
      client.locks.request('a', async () => throws()),
      thrown,
    )
    await expectState(client, 'a', [])
  })

  it('an exclusive lock of client.locks excludes all others, and shared ones share, across clients', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const reading = [await hold(client, 'a', { mode: 'shared' }), await hold(other, 'a', { mode: 'shared' })]
    assert.equal(await client.locks.request('a', { ifAvailable: true }, (lock) => lock), null)
    for (const { release } of reading) release()
    await Promise.all(reading.map(({ promise }) => promise))
    const writing = await hold(other, 'a')
    for (const mode of ['exclusive', 'shared'] as const) {
      assert.equal(await client.locks.request('a', { mode, ifAvailable: true }, (lock) => lock), null)
    }
    writing.release()
    await writing.promise
    assert.equal(await client.locks.request('a', { ifAvailable: true }, (lock) => lock?.mode), 'exclusive')
  })

  it('client.locks.request inside a callback of the same name waits for the other to end', async () => {
    const client = await fixture.connect()
    const order: string[] = []
    let inner: Promise<unknown> | undefined
    await client.locks.request('a', async () => {
      inner = client.locks.request('a', () => order.push('inner'))
      await expectState(client, 'a', ['exclusive'], ['exclusive'])
      assert.equal(await client.locks.request('a', { ifAvailable: true }, (lock) => lock), null)
      order.push('outer')
    })
    await inner
    assert.deepEqual(order, ['outer', 'inner'])
  })

  it('client.locks grants in order: a shared request waits behind an exclusive one that waits', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const reading = await hold(client, 'a', { mode: 'shared' })
    const order: string[] = []
    const writing = other.locks.request('a', () => order.push('exclusive'))
    await expectState(other, 'a', ['shared'], ['exclusive'])
    const later = client.locks.request('a', { mode: 'shared' }, () => order.push('shared'))
    await expectState(client, 'a', ['shared'], ['exclusive', 'shared'])
    assert.equal(await client.locks.request('a', { mode: 'shared', ifAvailable: true }, (lock) => lock), null)
    reading.release()
    await Promise.all([writing, later])
    assert.deepEqual(order, ['exclusive', 'shared'])
  })

  it('all shared requests behind an exclusive one hold once the promise of that has settled', async () => {
    const client = await fixture.connect()
    const writing = await hold(client, 'a')
    const shared = Array.from({ length: 5 }, () => hold(client, 'a', { mode: 'shared' }))
    await expectState(client, 'a', ['exclusive'], Array(5).fill('shared'))
    writing.release()
    await writing.promise
    await expectState(client, 'a', Array(5).fill('shared'))
    for (const { release, promise } of await Promise.all(shared)) {
      release()
      await promise
    }
  })

  it('requests of one client to client.locks call back in the order of their calls, whatever their names', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const names = ['a', 'b', 'c', 'd', 'b', 'a', 'c', 'd']
    await Promise.all(names.map((name) => client.locks.request(name, () => {})))
    const holding = await hold(other, 'b')
    const order: number[] = []
    const request = (name: string, at: number) =>
      client.locks.request(name, { mode: 'shared', ifAvailable: at !== 1 }, () => order.push(at))
    const startedAt = performance.now()
    const requests = names.map(request)
    await Promise.all(requests.filter((_, at) => at !== 1))
    const tookMs = performance.now() - startedAt
    // They wait no longer for each other.
    assert(order.join() === '0,2,3,4,5,6,7' || tookMs >= 100, order.join())
    holding.release()
    await Promise.all([...requests, holding.promise])
  })

  it('what a callback of client.locks requests goes before the release of its lock', async () => {
    const client = await fixture.connect()
    const order: string[] = []
    const request = (name: string) => client.locks.request(name, () => void order.push(name))
    await Promise.all(['a', 'b'].map(request))
    const startedAt = performance.now()
    let inner: Promise<unknown>[] = []
    await client.locks.request('a', () => {
      inner = ['a', 'b'].map(request)
    })
    await Promise.all(inner)
    const tookMs = performance.now() - startedAt
    // The release waits no longer for them.
    assert(order.slice(2).join() === 'b,a' || tookMs >= 100, order.join())
  })

  it('client.locks grants a higher priority first, and a full queue refuses the request', async () => {
    const client = await fixture.connect()
    const holding = await hold(client, 'a')
    const order: number[] = []
    const waiting = [0, 5, -5].map((priority) => client.locks.request('a', { priority }, () => order.push(priority)))
    await assert.rejects(client.locks.request('a', { maxWaiters: 3 }, unused), { code: 'LOCK_QUEUE_FULL' })
    holding.release()
    await Promise.all(waiting)
    assert.deepEqual(order, [5, 0, -5])
  })

  it('client.locks excludes the read-write lock of the same name', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const both = other.getReadWriteLock('a')
    await client.locks.request('a', { mode: 'shared' }, async () => {
      assert.equal(await both.writeLock().tryLock(), null)
      await (await both.readLock().tryLock())?.unlock()
    })
    await both.writeLock().withLock(async () => {
      assert.equal(await client.locks.request('a', { ifAvailable: true }, (lock) => lock), null)
      await client.locks.request('another', () => {}) // only what was requested is listed
      await expectState(client, 'a', ['exclusive'])
    })
  })

  it('client.locks.query shows a request of the same turn, with its client', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const first = client.locks.request('a', async () => await client.locks.query())
    const waiting = client.locks.request('a', { mode: 'shared' }, () => {})
    await expectState(client, 'a', ['exclusive'], ['shared'])
    const { held, pending } = await first
    assert.deepEqual(held, [{ name: 'a', mode: 'exclusive', clientId: client.id }])
    assert.deepEqual(pending, [{ name: 'a', mode: 'shared', clientId: client.id }])
    await waiting
    await expectState(other, 'a', [])
  })

  it('client.locks.request takes any text for a name', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const long = 'a'.repeat(5_000)
    for (const name of ['', '\uD800', '\0', 'ü', '{', '{}', 'a {b} c', 'holdfast_web_locks', long]) {
      const holding = await hold(client, name)
      await expectState(other, name, ['exclusive'])
      assert.equal(await other.locks.request(name, { ifAvailable: true }, (lock) => lock), null)
      holding.release()
      await holding.promise
    }
  })

  it('the signal of client.locks.request ends the wait with its reason, and nothing is left behind', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const holding = await hold(other, 'a')
    const abort = new AbortController()
    const waiting = client.locks.request('a', { signal: abort.signal }, unused)
    await expectState(client, 'a', ['exclusive'], ['exclusive'])
    const reason = new Error('enough')
    abort.abort(reason)
    await assert.rejects(waiting, reason)
    await expectState(client, 'a', ['exclusive'])
    holding.release()
    await client.locks.request('a', () => {})
  })

  it('the signal of client.locks.request may abort in the same turn', async () => {
    const client = await fixture.connect()
    const abort = new AbortController()
    const waiting = client.locks.request('a', { signal: abort.signal }, unused)
    abort.abort()
    await assert.rejects(waiting, { name: 'AbortError' })
    await client.locks.request('a', () => {})
  })

  it('the signal of client.locks.request is ignored once the lock is granted', async () => {
    const client = await fixture.connect()
    const abort = new AbortController()
    const { promise, lock, release } = await hold(client, 'a', { signal: abort.signal })
    abort.abort()
    assert.equal(lock.signal.aborted, false)
    release('done')
    assert.equal(await promise, 'done')
  })

  it('client.locks.request with steal takes the lock from another client, whose promise rejects', async () => {
    const [client, thief] = [await fixture.connect({ inspection: {} }), await fixture.connect()]
    const holding = await hold(client, 'a')
    const lost = assert.rejects(holding.promise, { name: 'AbortError' })
    const stealing = await hold(thief, 'a', { steal: true })
    await lost
    assert.equal(holding.lock.signal.aborted, true)
    assert.throws(() => holding.lock.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    await expectState(client, 'a', ['exclusive'])
    stealing.release()
    await stealing.promise
  })

  it('client.locks.request with steal takes a shared lock from all its holders, and goes before those who wait', async () => {
    const client = await fixture.connect()
    const reading = [await hold(client, 'a', { mode: 'shared' }), await hold(client, 'a', { mode: 'shared' })]
    const lost = reading.map(({ promise }) => assert.rejects(promise, { name: 'AbortError' }))
    const order: string[] = []
    const waiting = client.locks.request('a', () => order.push('waiting'))
    await client.locks.request('a', { steal: true }, () => order.push('thief'))
    await Promise.all([...lost, waiting])
    assert.deepEqual(order, ['thief', 'waiting'])
  })

  it('client.locks.request with steal also takes the lock from another thief, in order', async () => {
    const client = await fixture.connect()
    const steal = () => hold(client, 'a', { steal: true })
    const first = await steal()
    const lost = assert.rejects(first.promise, { name: 'AbortError' })
    const second = await steal()
    await lost
    second.release()
    await second.promise
  })

  it('client.locks.request with steal takes the lock from requests of the same turn', async () => {
    const client = await fixture.connect()
    const never = () => new Promise<void>(() => {})
    const robbed = [client.locks.request('a', never), client.locks.request('a', { steal: true }, never)]
    const lost = robbed.map((promise) => assert.rejects(promise, { name: 'AbortError' }))
    assert.equal(await client.locks.request('a', { steal: true }, () => 'last'), 'last')
    await Promise.all(lost)
  })

  it('client.locks.request with steal takes a lock that nobody holds', async () => {
    const client = await fixture.connect()
    assert.equal(await client.locks.request('a', { steal: true }, ({ mode }) => mode), 'exclusive')
  })

  it('client.locks.request rejects with a LeaseLostError if the lock is lost before the callback ends', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    const { promise, lock, release } = await hold(client, 'a')
    await fixture.server.admin.del('a')
    await waitUntil(() => lock.signal.aborted)
    release('done')
    await assert.rejects(promise, { code: 'LOCK_LEASE_LOST' })
  })

  it('client.locks.request rejects with what the callback throws, although the lock was lost', async () => {
    const client = await fixture.connect()
    const { lock, promise, release } = await hold(client, 'a', { leaseTimeMs: 100 })
    await waitUntil(() => lock.signal.aborted)
    release(Promise.reject(lock.signal.reason))
    await assert.rejects(promise, { code: 'LOCK_LEASE_LOST', leaseTimeMs: 100 })
  })

  it('client.locks.request of a closed client rejects with a ClientClosedError', async () => {
    const client = await fixture.connect()
    const other = await fixture.connect()
    const holding = await hold(other, 'a')
    const refused = assert.rejects(client.locks.request('a', unused), { code: 'LOCK_CLIENT_CLOSED' })
    await expectState(client, 'a', ['exclusive'], ['exclusive'])
    await client.close()
    await refused
    await assert.rejects(client.locks.request('b', unused), { code: 'LOCK_CLIENT_CLOSED' })
    await assert.rejects(client.locks.query(), { code: 'LOCK_CLIENT_CLOSED' })
    holding.release()
    await holding.promise
  })
}
