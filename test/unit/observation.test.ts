/** What subscribers of the diagnostics channels and listeners of `acquired` and `released` learn, on a fake clock. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import { getMultiLock, getRedLock, type Hold, type HoldfastChannels } from '../../src/index.js'
import { applyMark } from '../../src/locks/breaking/apply-mark.js'
import type { Lock } from '../../src/locks/lock.js'
import {
  endIsObserved,
  holdEnded,
  holdForced,
  observeRequest,
  renewalEnded,
  runObserved,
} from '../../src/locks/reporting/observation.js'
import { forcedKey } from '../../src/wire/keys.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000
const NAMES = [
  'holdfast:request:start',
  'holdfast:request:wait',
  'holdfast:request:grant',
  'holdfast:request:miss',
  'holdfast:hold:run',
  'holdfast:hold:end',
  'holdfast:forced',
  'holdfast:renew',
  'holdfast:warning',
  'holdfast:command:error',
] as const satisfies readonly (keyof HoldfastChannels)[]

let fixture: ClientFixture
let clients: Set<string>
let published: { name: string; message: Record<string, unknown> }[]
let last: Record<string, unknown>

function receive(message: unknown, name: string | symbol): void {
  const { clientId } = message as { clientId: string }
  if (!clients.has(clientId)) return
  last = message as Record<string, unknown>
  published.push({ name: String(name).replace('holdfast:', ''), message: { ...last } })
}

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS })
  clients = new Set([fixture.client.id])
  published = []
  for (const name of NAMES) subscribe(name, receive)
})

afterEach(async () => {
  for (const name of NAMES) unsubscribe(name, receive)
  await fixture.close()
})

const names = (): string[] => published.map(({ name }) => name)

/** The messages on one channel, with some of their fields. */
function on(name: string, ...fields: string[]): unknown[][] {
  return published.filter((one) => one.name === name).map(({ message }) => fields.map((field) => message[field]))
}

describe('a request', () => {
  it('a request that is missed names who had the lock, if that is known', async () => {
    const hold = await fixture.clock.until(fixture.other.getLock('a').lock())
    await assert.rejects(fixture.clock.until(fixture.lock.lock({ waitTimeMs: 50 })), { code: 'LOCK_WAIT_TIMEOUT' })
    const [[holders]] = on('request:miss', 'holders') as [[{ holder: string }[]]]
    assert.deepEqual(
      holders.map(({ holder }) => holder),
      [hold.holder],
    )
    await hold.unlock()
  })

  it('a request for any of several things that is missed names nobody', async () => {
    const { client, lock } = fixture
    const hold = await fixture.clock.until(fixture.other.getLock('a').lock())
    assert.equal(await fixture.clock.until(getMultiLock(lock, client.getLock('b')).tryLock({ waitTimeMs: 50 })), null)
    assert.equal(await client.getPermitExpirableSemaphore('s').tryAcquire(), null)
    assert.deepEqual(on('request:miss', 'holders'), [[[]], [[]]])
    await hold.unlock()
  })

  it('a request for a free lock is a start, a direct grant and, at its release, an end', async () => {
    const hold = await fixture.lock.lock({ label: 'refund', waitTimeMs: 500 })
    await fixture.clock.advance(40)
    await hold.unlock()
    assert.deepEqual(names(), ['request:start', 'request:grant', 'hold:end'])
    assert.deepEqual(on('request:grant', 'clientId', 'lockName', 'kind', 'label', 'waitTimeMs', 'waitedMs', 'path'), [
      [fixture.client.id, 'a', 'lock', 'refund', 500, 0, 'direct'],
    ])
    assert.deepEqual(on('hold:end', 'clientId', 'lockName', 'kind', 'label', 'heldMs', 'path', 'error'), [
      [fixture.client.id, 'a', 'lock', 'refund', 40, 'released', undefined],
    ])
    assert.equal(on('request:grant', 'hold')[0]?.[0], on('hold:end', 'hold')[0]?.[0])
  })

  for (const name of ['start', 'wait', 'grant', 'miss']) {
    it(`a request is reported to a subscriber of no channel but that of its ${name}`, async () => {
      for (const each of NAMES) unsubscribe(each, receive)
      subscribe(`holdfast:request:${name}`, receive)
      const hold = await fixture.lock.lock()
      assert.equal(await fixture.clock.until(fixture.lock.tryLock({ waitTimeMs: 10 })), null)
      unsubscribe(`holdfast:request:${name}`, receive)
      await hold.unlock()
      assert.deepEqual(new Set(names()), new Set([`request:${name}`]))
    })
  }

  it('a request is the same object in all of its messages', async () => {
    const seen = new Set<unknown>()
    const collect = (message: unknown): unknown => seen.add(message)
    for (const name of ['holdfast:request:start', 'holdfast:request:grant']) subscribe(name, collect)
    await (await fixture.lock.lock()).unlock()
    for (const name of ['holdfast:request:start', 'holdfast:request:grant']) unsubscribe(name, collect)
    assert.equal(seen.size, 1)
  })

  it('a request for a lock that another client holds waits once, and is granted after that', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = fixture.lock.lock()
    await fixture.clock.advance(100)
    await held.unlock()
    const hold = await fixture.clock.until(waiting)
    assert.deepEqual(names(), ['request:start', 'request:wait', 'request:grant'])
    assert.deepEqual(on('request:grant', 'path', 'hasWaited'), [['wait', true]])
    assert.ok((on('request:grant', 'waitedMs')[0]?.[0] as number) >= 100)
    await hold.unlock()
  })

  it('a request for a lock handed off inside the client ends the hold before it as handed off', async () => {
    const [first, [waiting]] = await fixture.heldAndWaitedFor(1)
    await fixture.clock.advance(10)
    await first.unlock()
    const second = (await waiting) as Hold
    assert.deepEqual(on('hold:end', 'path', 'heldMs'), [['handed_off', 10]])
    assert.deepEqual(on('request:grant', 'path', 'waitedMs'), [
      ['direct', 0],
      ['handoff', 10],
    ])
    await second.unlock()
    assert.deepEqual(on('hold:end', 'path'), [['handed_off'], ['released']])
  })

  it('a request inside its own hold is a re-entry, also without a new lease', async () => {
    await fixture.lock.withLock(async () => await fixture.lock.withLock(async () => {}))
    assert.deepEqual(on('request:grant', 'path'), [['direct'], ['reentry']])
    assert.deepEqual(on('hold:end', 'path'), [['released'], ['released']])
  })

  it('a request for a read lock inside its own write is a grant of its own', async () => {
    const both = fixture.client.getReadWriteLock('rw')
    await both.writeLock().withLock(async () => await both.readLock().withLock(async () => {}))
    assert.deepEqual(on('request:grant', 'kind', 'path'), [
      ['write lock', 'direct'],
      ['read lock', 'direct'],
    ])
  })

  it('a request that times out, aborts or fails is missed, and says why', async () => {
    const held = await fixture.other.getLock('a').lock()
    assert.equal(await fixture.lock.tryLock(), null)
    await assert.rejects(fixture.clock.until(fixture.lock.lock({ waitTimeMs: 50 })))
    const reason = new Error('enough')
    const abort = new AbortController()
    const aborted = fixture.lock.lock({ signal: abort.signal })
    await turn()
    abort.abort(reason)
    await assert.rejects(aborted, reason)
    await held.unlock()
    const failed = fixture.client.getNonReentrantLock('b')
    await failed.withLock(async () => await assert.rejects(failed.lock(), { code: 'LOCK_SELF_DEADLOCK' }))
    assert.deepEqual(
      on('request:miss', 'reason', 'hasWaited', 'error').map(([why, hasWaited, error]) => [
        why,
        hasWaited,
        (error as { message?: string } | undefined)?.message?.slice(0, 6),
      ]),
      [
        ['timeout', false, undefined],
        ['timeout', true, undefined],
        ['aborted', true, 'enough'],
        ['error', false, 'This c'],
      ],
    )
  })

  it('a request whose grant comes after its caller has left is missed, and is no hold', async () => {
    const abort = new AbortController()
    const aborted = fixture.lock.lock({ signal: abort.signal })
    abort.abort(new Error('enough'))
    await assert.rejects(aborted)
    await fixture.clock.until(turn())
    assert.deepEqual(names(), ['request:start', 'request:miss'])
  })
})

describe('several locks as one', () => {
  it('several locks as one are one request and one hold, whether a multi-lock waits or not', async () => {
    const locks = ['x', 'y'].map((name) => fixture.client.getLock(name))
    const multi = getMultiLock(...locks)
    await multi.withLock(async () => {})
    const held = await fixture.other.getLock('y').lock()
    const waiting = multi.lock()
    await fixture.clock.advance(10)
    await held.unlock()
    await (await fixture.clock.until(waiting)).unlock()
    assert.deepEqual(on('request:grant', 'lockName', 'kind', 'path'), [
      ['multi-lock of "x", "y"', 'multi-lock', 'direct'],
      ['multi-lock of "x", "y"', 'multi-lock', 'wait'],
    ])
    assert.deepEqual(on('hold:end', 'kind', 'path'), [
      ['multi-lock', 'released'],
      ['multi-lock', 'released'],
    ])
    assert.equal(on('request:wait').length, 1)
  })

  it('several locks as one are waited for once a round of a red lock was refused', async () => {
    const locks = ['x', 'y', 'z'].map((name) => fixture.client.getLock(name))
    const others = await Promise.all(['x', 'y'].map((name) => fixture.other.getLock(name).lock()))
    assert.equal(await fixture.clock.until(getRedLock(...locks).tryLock({ waitTimeMs: 500 })), null)
    assert.deepEqual(on('request:wait', 'kind'), [['red lock']])
    for (const hold of others) await hold.unlock()
  })

  it('several locks as one are one loss if a majority of a red lock is lost', async () => {
    const clientsOfRed = [1, 2, 3].map(() => fixture.connect({}).client)
    for (const { id } of clientsOfRed) clients.add(id)
    const locks = clientsOfRed.map((client, index) => client.getLock(`red:${index}`))
    const hold = await fixture.clock.until(getRedLock(...locks).lock())
    for (const lock of locks.slice(1)) await (lock as Lock).forceUnlock()
    assert.deepEqual(on('hold:end', 'kind', 'path'), [['red lock', 'lost']])
    await assert.rejects(hold.unlock())
    assert.equal(on('hold:end').length, 1)
  })
})

describe('the end of a hold', () => {
  it('the end of a hold says that it was transferred to another client', async () => {
    const hold = await fixture.lock.lock()
    const adopted = await fixture.other.getLock('a').adopt(hold.handOver())
    assert.deepEqual(on('hold:end', 'path'), [['transferred']])
    await adopted.unlock()
  })

  it('the end of a hold says that it was adopted from another client, too', async () => {
    const given = (await fixture.other.getLock('a').lock()).handOver()
    await (await fixture.lock.adopt(given)).unlock()
    await assert.rejects(fixture.lock.adopt(given), { code: 'LOCK_NOT_HELD' })
    assert.deepEqual(names(), ['request:start', 'request:grant', 'hold:end', 'request:start', 'request:miss'])
  })

  it('the end of a hold is a loss only, if a release turns out to have come too late', async () => {
    const hold = await fixture.lock.lock()
    await fixture.other.getLock('a').forceUnlock()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(
      on('hold:end', 'path', 'error').map(([path, error]) => [path, (error as { reason: string }).reason]),
      [['lost', 'gone']],
    )
  })

  const losses: Record<string, (lock: Lock) => Promise<void>> = {
    expired: async (lock) => {
      await lock.lock({ leaseTimeMs: 100 })
      await fixture.clock.advance(101)
    },
    maxHold: async (lock) => {
      await lock.lock({ maxHoldMs: 100 })
      await fixture.clock.advance(LEASE_MS)
    },
    forced: async (lock) => {
      await lock.lock()
      await lock.forceUnlock()
    },
    gone: async (lock) => {
      const hold = await lock.lock()
      await fixture.other.getLock('a').forceUnlock()
      await hold.isHeld()
    },
    closed: async (lock) => {
      await lock.lock()
      await fixture.clock.until((fixture.client as Client).close())
    },
  }
  for (const [reason, lose] of Object.entries(losses)) {
    it(`the end of a hold says that it was lost: ${reason}`, async () => {
      await lose(fixture.lock)
      assert.deepEqual(
        on('hold:end', 'path', 'error').map(([path, error]) => [path, (error as { reason: string }).reason]),
        [['lost', reason]],
      )
    })
  }
})

describe('a forced release by an operator', () => {
  const ORDER = { by: 'ops@laptop', reason: 'INC-4711' }

  /** The messages, which are about holds of `a`. */
  function forced(): unknown[][] {
    assert.deepEqual(
      on('forced', 'clientId', 'lockName', 'kind', 'by', 'reason'),
      on('forced').map(() => [fixture.client.id, 'a', 'lock', 'ops@laptop', 'INC-4711']),
    )
    return on('forced', 'label', 'outcome')
  }

  it('a forced release by an operator is reported once the work under the hold has stopped', async () => {
    const hold = await fixture.lock.lock({ label: 'nightly' })
    const forcing = fixture.lock.forceUnlock({ holder: hold.holder, ...ORDER })
    await fixture.clock.advance(10)
    assert.deepEqual(names(), ['request:start', 'request:grant', 'hold:end'])
    await assert.rejects(hold.unlock(), { reason: 'forced' })
    await assert.rejects(hold.unlock(), { reason: 'forced' })
    await fixture.clock.until(forcing)
    assert.deepEqual(forced(), [['nightly', 'stopped']])
    assert.equal(on('forced', 'hold')[0]?.[0], on('hold:end', 'hold')[0]?.[0])
  })

  it('a forced release is reported of each hold: those that go on after the grace are overrun', async () => {
    const outer = await fixture.lock.lock({ label: 'outer' })
    const inner = await fixture.lock.lock({ within: outer, label: 'inner' })
    const forcing = fixture.lock.forceUnlock({ holder: outer.holder, graceMs: 500, ...ORDER })
    await fixture.clock.advance(10)
    await assert.rejects(inner.unlock(), { reason: 'forced' })
    assert.deepEqual(forced(), [['inner', 'stopped']])
    await fixture.clock.until(forcing)
    await assert.rejects(outer.unlock(), { reason: 'forced' })
    assert.deepEqual(forced(), [
      ['inner', 'stopped'],
      ['outer', 'overrun'],
    ])
  })

  it('a forced release without this client is reported when its release finds the holder gone', async () => {
    const hold = await fixture.lock.lock({ label: 'nightly' })
    const { port, client } = fixture.connect({})
    port.fault = ({ name }) => (name === 'PUBLISH' ? { errorReply: 'NOPERM this user has no permissions' } : undefined)
    const forcing = client.getLock('a').forceUnlock({ holder: hold.holder, graceMs: 0, anyway: true, ...ORDER })
    assert.deepEqual(await fixture.clock.until(forcing), { outcome: 'freed' })
    assert.deepEqual(forced(), [])
    for (const _ of [1, 2]) await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', forced: ORDER })
    assert.deepEqual(forced(), [['nightly', 'freed']])
    assert.deepEqual(
      fixture.lost.map(({ reason, forced }) => [reason, forced]),
      [['gone', ORDER]],
    )
  })

  it('a forced release without this client is reported when it reads the mark', async () => {
    const hold = await fixture.lock.lock()
    await fixture.clock.advance(2_900)
    const mark = { id: '1', holder: hold.holder, by: ORDER.by, reason: ORDER.reason, graceMs: 2_000 }
    fixture.redis.execute(['SET', forcedKey('a', hold.holder), JSON.stringify(mark), 'PX', '597500']) // 2.5 s ago
    fixture.redis.delete('a')
    await applyMark(fixture.lock.context, { key: 'a', holder: hold.holder })
    await fixture.clock.advance(0)
    assert.deepEqual(forced(), [[undefined, 'freed']])
  })

  it('a forced release without a holder is none: nobody asked for the end of this hold', async () => {
    await fixture.lock.lock()
    await fixture.lock.forceUnlock()
    assert.deepEqual(forced(), [])
  })
})

describe('a renewal', () => {
  it('a renewal reports each lease, what was left of it, and how late the timer was', async () => {
    const hold = await fixture.lock.lock({ label: 'report' })
    await fixture.clock.advance(LEASE_MS / 3)
    await turn()
    assert.deepEqual(on('renew', 'lockName', 'kind', 'label', 'result', 'marginMs', 'delayMs'), [
      ['a', 'lock', 'report', 'renewed', (LEASE_MS * 2) / 3, 0],
    ])
    assert.equal(last['hold'], hold.hold)
    await fixture.other.getLock('a').forceUnlock()
    await fixture.clock.advance(LEASE_MS / 3)
    await turn()
    assert.deepEqual(on('renew', 'result'), [['renewed'], ['gone']])
  })
})

describe('the function of withLock', () => {
  const store = new AsyncLocalStorage<unknown>()
  const run = channel('holdfast:hold:run')

  it('the function of withLock runs with what subscribers bind to the channel', async () => {
    run.bindStore(store, (message) => (message as { lockName: string }).lockName)
    try {
      assert.equal(await fixture.lock.withLock(async () => store.getStore()), 'a')
      assert.equal(store.getStore(), undefined)
    } finally {
      run.unbindStore(store)
    }
  })

  it('the function of withLock runs inside what a subscriber wraps around it', async () => {
    const wrap = (message: unknown): void => {
      ;(message as HoldfastChannels['holdfast:hold:run']).wrap = (body) => store.run('wrapped', body)
    }
    subscribe('holdfast:hold:run', wrap)
    try {
      assert.equal(await fixture.lock.withLock(async () => store.getStore()), 'wrapped')
    } finally {
      unsubscribe('holdfast:hold:run', wrap)
    }
  })
})

describe('a warning', () => {
  it('a warning and a failed command are published', async () => {
    fixture.port.once('lock/acquire', { errorReply: 'OOM command not allowed' })
    await assert.rejects(fixture.lock.tryLock(), /OOM/)
    fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { failsWith: 'socket closed' } : undefined)
    await fixture.clock.until(fixture.lock.withLock(async () => {}))
    fixture.port.fault = () => undefined
    assert.ok(on('command:error', 'error').length > 1)
    assert.match(String(on('command:error', 'error')[0]), /OOM/)
    assert.deepEqual(on('warning', 'warning'), [fixture.warnings])
    assert.deepEqual(on('hold:end', 'path'), [['released']])
  })
})

describe('a message that nobody receives', () => {
  it('a message that nobody receives is not made', () => {
    for (const name of NAMES) unsubscribe(name, receive)
    const unread = new Proxy({}, { get: () => assert.fail('it is read') }) as never
    renewalEnded(unread, 'renewed' as never)
    holdForced(unread, { by: 'ops', reason: undefined, graceMs: 0 } as never, 'overrun')
    assert.equal(
      runObserved(unread, () => 7),
      7,
    )
    assert.equal(observeRequest(fixture.lock, {} as never, 0), undefined)
    const context = { hasListeners: () => false }
    const ended = new Proxy({ lease: { context }, hasCaller: true } as Record<string | symbol, unknown>, {
      get: (hold, name) => hold[name] ?? assert.fail('it is read'),
    })
    holdEnded(ended as never, 'released')
  })

  it('a message about the end of a hold is received by a subscriber or by a listener', () => {
    const { context } = fixture.lock
    assert.equal(endIsObserved(context), true)
    for (const name of NAMES) unsubscribe(name, receive)
    assert.equal(endIsObserved(context), false)
    fixture.client.on('released', () => {})
    assert.equal(endIsObserved(context), true)
  })
})

describe('the events acquired and released', () => {
  it('the events acquired and released have the hold of the caller, how long it took, and how', async () => {
    for (const name of NAMES) unsubscribe(name, receive)
    const events: unknown[] = []
    fixture.client.on('acquired', ({ hold, waitedMs, path }) => events.push(['acquired', hold, waitedMs, path]))
    fixture.client.on('released', ({ hold, heldMs, path }) => events.push(['released', hold, heldMs, path]))
    const hold = await fixture.lock.lock()
    await fixture.clock.advance(5)
    await hold.unlock()
    assert.deepEqual(events, [
      ['acquired', hold, 0, 'direct'],
      ['released', hold, 5, 'released'],
    ])
  })

  it('the events acquired and released leave a loss to the event lost', async () => {
    const events: string[] = []
    for (const name of ['acquired', 'released', 'lost'] as const) fixture.client.on(name, () => events.push(name))
    await fixture.lock.lock()
    await fixture.lock.forceUnlock()
    assert.deepEqual(events, ['acquired', 'lost'])
  })
})
