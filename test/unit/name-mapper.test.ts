/** With a `nameMapper`, Redis has the mapped names, and programs and people read only their own. */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { lockOfKind } from '../../src/client.js'
import {
  type BaseLock,
  type Client,
  type ClientOptions,
  getMultiLock,
  getRedLock,
  type HoldfastChannels,
  type Lock,
} from '../../src/index.js'
import { Hold } from '../../src/locks/hold.js'
import { KIND_IDS, KINDS, type KindId } from '../../src/locks/kinds/table.js'
import { holdDropped } from '../../src/warnings.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import { FakeReplyError } from '../support/fakes/fake-redis.js'

/** What every mapped name contains, and nothing else does. */
const MARK = '~mapped~'
const nameMapper = { map: (name: string) => MARK + name, unmap: (key: string) => key.slice(MARK.length) }
const OPTIONS: ClientOptions = { lockWatchdogTimeoutMs: 3_000, commandTimeoutMs: 500, nameMapper }
const CHANNELS = [
  ...['request:start', 'request:wait', 'request:grant', 'request:miss', 'hold:run', 'hold:end', 'forced', 'renew'],
  ...['warning', 'command:error'],
].map((name) => `holdfast:${name}` as keyof HoldfastChannels)
const EVENTS = ['acquired', 'released', 'lost', 'longWait', 'longHold', 'warning'] as const

let fixture: ClientFixture
/** What programs and people have read, with all texts in it. */
let read: { what: string; texts: string[] }[]

function see(what: string, value: unknown): void {
  read.push({ what, texts: textsIn(value) })
}

/** Every text of a value that a program can get at. */
function textsIn(value: unknown, seen = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null || seen.has(value)) return []
  seen.add(value)
  if (value instanceof Hold) return [value.lockName, JSON.stringify(value)]
  const { message, stack, cause, lockName } = value as Partial<Error & { lockName: string }>
  const own = Object.values(value as object).filter((part) => typeof part !== 'function')
  return [message, stack, cause, lockName, ...own].flatMap((part) => textsIn(part, seen))
}

const receive = (message: unknown, channel: string | symbol): void => see(String(channel), { ...(message as object) })

function watch(client: Client): void {
  for (const event of EVENTS) client.on(event, (details: unknown) => see(event, details))
}

beforeEach(() => {
  fixture = new ClientFixture(OPTIONS)
  read = []
  for (const client of [fixture.client, fixture.other]) watch(client)
  for (const channel of CHANNELS) subscribe(channel, receive)
})

afterEach(async () => {
  for (const channel of CHANNELS) unsubscribe(channel, receive)
  await fixture.close()
  assert.deepEqual(
    read.filter(({ texts }) => texts.some((text) => text.includes(MARK))),
    [],
  )
  read = []
})

/** Whether anything of this kind was read, with this text in it. */
function assertRead(what: string, text: string): void {
  assert(
    read.some((one) => one.what === what && one.texts.some((found) => found.includes(text))),
    `${what} with ${text}: ${JSON.stringify(read.filter((one) => one.what === what))}`,
  )
}

/** A call rejects with an error that names the lock as the program does. */
async function fails(code: string, call: () => unknown, lockName = 'order'): Promise<void> {
  const outcome = await fixture.clock.until(
    Promise.resolve()
      .then(call)
      .then(
        () => undefined,
        (error: unknown) => error,
      ),
  )
  see(code, outcome)
  const error = outcome as { code?: string; lockName?: string; message: string } | undefined
  assert.deepEqual([error?.code, error?.lockName], [code, lockName], error?.message)
}

function lock(client: Client, id: KindId, name = 'order'): Lock {
  return id === 'fasterMulti' ? client.getFasterMultiLock(name, ['one', 'two']) : lockOfKind(client, id, name)
}

/** One that this lock excludes. */
function rival(client: Client, id: KindId): Lock {
  return id === 'read' ? client.getReadWriteLock('order').writeLock() : lock(client, id)
}

function refusePublishing(): void {
  const { keyspace } = fixture.redis
  const execute = keyspace.execute.bind(keyspace)
  keyspace.execute = (name, args) => {
    if (/publish/i.test(name)) throw new FakeReplyError('NOPERM No permissions to access a channel')
    return execute(name, args)
  }
}

for (const id of KIND_IDS) {
  const { title, isReentrant = true } = KINDS[id]
  const mine = (): Lock => lock(fixture.client, id)

  describe(`a ${title} with a nameMapper`, () => {
    it(`a mapped ${title} has its own name, and Redis has the mapped one`, async () => {
      assert.deepEqual([mine().name, mine().key], ['order', `${MARK}order`])
      const hold = await mine().lock()
      assert.equal(hold.lockName, 'order')
      const sent = fixture.port.sent.filter(({ name }) => name.includes('/acquire'))
      assert(sent.length === 1 && sent.every(({ keys: [key] }) => key === `${MARK}order`))
      assert.equal(await mine().isLocked(), true)
      await hold.unlock()
    })

    it(`a mapped ${title} names itself in a wait that is too long, and in one that ends in vain`, async () => {
      const theirs = await rival(fixture.other, id).lock()
      await fails('LOCK_WAIT_TIMEOUT', () => mine().lock({ waitTimeMs: 1_500, warnAfterMs: 50 }))
      assertRead('longWait', 'order')
      const own = rival(fixture.client, id)
      await theirs.unlock()
      const hold = await own.lock()
      await fails('LOCK_WAIT_TIMEOUT', () => mine().lock({ waitTimeMs: 100 }))
      assert.equal(await fixture.clock.until(mine().tryLock({ waitTimeMs: 100 })), null)
      await hold.unlock()
    })

    it(`a mapped ${title} names itself in a loss, a long hold and a forced end`, async () => {
      const hold = await mine().lock({ warnAfterMs: 500 })
      await fixture.clock.advance(1_500)
      assertRead('longHold', 'order')
      fixture.redis.delete(`${MARK}order`)
      await fixture.clock.advance(3_000)
      assertRead('lost', 'order')
      await fails('LOCK_LEASE_LOST', () => hold.assertHeld())
      await fails('LOCK_LEASE_LOST', () => hold.unlock())
      const next = await mine().lock()
      await fixture.clock.until(lock(fixture.other, id).forceUnlock())
      await fails('LOCK_LEASE_LOST', () => fixture.clock.until(next.isHeld()).then(() => next.unlock()))
    })

    it(`a mapped ${title} names itself when it is not held, in the wrong state or given wrong arguments`, async () => {
      await fails('LOCK_NOT_HELD', () => mine().unlock())
      await fails('LOCK_NOT_HELD', () => fixture.client.runInScope(() => mine().unlock()))
      await fails('LOCK_CONFIG', () => mine().lock({ leaseTimeMs: -1 }))
      await fails('LOCK_CONFIG', () => mine().lock({ timeout: 1 } as never))
      await fails('LOCK_CONFIG', () => mine().lock({ within: 1 as never }))
      await fails('LOCK_CONFIG', () => mine().withLock(undefined as never))
      await fails('LOCK_CONFIG', () => mine().withLock(() => (async function* () {})()))
      await fails('LOCK_CONFIG', () => mine().forceUnlock({ holder: 1 as never }))
      const hold = await mine().lock()
      await fails('LOCK_CONFIG', () => hold.extend(1_000))
      await fails('LOCK_CONFIG', () => hold.extend(-1))
      await hold.unlock()
      await fails('LOCK_NOT_HELD', () => hold.assertHeld())
      const adopting = (): unknown => mine().adopt(`${hold.holder.split(':')[0]}:99`)
      await fails(['read', 'write', 'fasterMulti'].includes(id) ? 'LOCK_CONFIG' : 'LOCK_NOT_HELD', adopting)
    })

    it(`a mapped ${title} names itself when Redis does not reply, or has something else`, async () => {
      fixture.port.fault = ({ name }) => (/\/(inspect|release)/.test(name) ? { lost: 'reply' } : undefined)
      await fails('LOCK_OUTCOME_UNKNOWN', () => mine().isLocked())
      await fails('LOCK_OUTCOME_UNKNOWN', async () => await (await mine().lock()).unlock())
      await fails('LOCK_OUTCOME_UNKNOWN', async () => {
        await mine().withLock(() => {})
        assertRead('warning', 'order')
        await mine().isLocked()
      })
      fixture.port.fault = () => undefined
      await fixture.clock.advance(5_000)
      fixture.redis.execute(['RPUSH', `${MARK}order`, 'x'])
      await fails('LOCK_WRONG_TYPE', () => mine().tryLock())
      fixture.redis.delete(`${MARK}order`)
    })

    it(`a mapped ${title} names itself when the client is closed`, async () => {
      const { client } = fixture.connect({})
      const theirs = await rival(fixture.other, id).lock()
      const waiting = lock(client, id).lock()
      waiting.catch(() => {})
      await turn()
      await fixture.clock.until(client.close())
      await fails('LOCK_CLIENT_CLOSED', () => waiting)
      await fails('LOCK_CLIENT_CLOSED', () => lock(client, id).lock())
      await fails('LOCK_CLIENT_CLOSED', () => lock(client, id).isLocked())
      await theirs.unlock()
    })

    if (!isReentrant) {
      it(`a mapped ${title} names itself in a deadlock with itself`, async () => {
        await fails('LOCK_SELF_DEADLOCK', () => mine().withLock(() => mine().lock()))
      })
    }

    it(`a mapped ${title} is found by its name, and shown with it`, async () => {
      const client = fixture.connect({ inspection: {} }).client
      const held = await lock(client, id).lock()
      const waiting = rival(client, id).lock()
      await fixture.clock.advance(1_500)
      for (const { fleet } of [client, fixture.other]) {
        const info = await fixture.clock.until(fleet.inspect('order'))
        see('inspect', info)
        assert.deepEqual([info.name, info.holders[0]?.holder], ['order', held.holder])
      }
      await held.unlock()
      await (await fixture.clock.until(waiting)).unlock()
    })
  })
}

describe('an operator, with a nameMapper', () => {
  it('an operator breaks a lock by its own name, and finds that in the audit', async () => {
    const hold = await fixture.client.getLock('order').lock()
    const order = { holder: hold.holder, graceMs: 100, anyway: true, reason: 'INC-1', by: 'ops' }
    const outcome = await fixture.clock.until(fixture.other.fleet.forceUnlock('order', order))
    see('forceUnlock', outcome)
    await fails('LOCK_LEASE_LOST', () => hold.unlock())
    assertRead('holdfast:forced', 'order')
    const audit = await fixture.other.fleet.audit()
    see('audit', audit)
    assert.deepEqual(
      audit.map((entry) => entry.lock),
      ['order'],
    )
    const stored = fixture.redis.execute(['LRANGE', 'holdfast_audit', '0', '-1']) as string[]
    assert.equal(JSON.parse(stored[0] ?? '').lock, `${MARK}order`)
  })

  it("an operator is warned by the lock's own name if the audit cannot be written", async () => {
    fixture.otherPort.once('forced/record', { errorReply: 'NOPERM No permissions to access a key' })
    await fixture.clock.until(fixture.other.getLock('order').forceUnlock({ holder: 'somebody:1' }))
    assertRead('warning', 'The forced release of "order"')
  })
})

describe('locks made of others, with a nameMapper', () => {
  const made: [string, (locks: Lock[]) => BaseLock][] = [
    ['multi-lock', (locks) => getMultiLock(...locks)],
    ['red lock', (locks) => getRedLock(...locks)],
  ]
  for (const [title, make] of made) {
    it(`locks made of others have their own names with a nameMapper: a ${title}`, async () => {
      const { client, other } = fixture
      const joint = make([client.getLock('a'), client.getFairLock('b'), client.getLock('c')])
      const name = `${title} of "a", "b", "c"`
      assert.equal(joint.name, name)
      const hold = await fixture.clock.until(joint.lock())
      assert.equal(hold.lockName, name)
      assert.deepEqual(fixture.redis.keys.sort(), ['a', 'b', 'c'].map(nameMapper.map))
      for (const key of ['a', 'b', 'c']) fixture.redis.delete(MARK + key)
      await fixture.clock.advance(3_000)
      await fails('LOCK_LEASE_LOST', () => hold.assertHeld(), name)
      await fails('LOCK_CONFIG', () => joint.lock({ within: hold }), name)
      const theirs = await Promise.all(['a', 'c'].map((key) => other.getLock(key).lock()))
      await fails('LOCK_WAIT_TIMEOUT', () => joint.lock({ waitTimeMs: 1_500, warnAfterMs: 50 }), name)
      assertRead('longWait', name)
      for (const one of theirs) await one.unlock()
      await fixture.clock.advance(1_000)
    })
  }

  it('locks made of others refuse a lock that is given twice by its own name', async () => {
    const one = fixture.client.getLock('order')
    await fails('LOCK_CONFIG', () => getMultiLock(one, one))
  })

  it('locks made of others name the locks whose servers failed', async () => {
    fixture.port.fault = ({ name }) => (name.startsWith('lock/acquire') ? { lost: 'request' } : undefined)
    const red = getRedLock(fixture.client.getLock('a'), fixture.client.getLock('b'))
    await fails('LOCK_QUORUM', () => red.lock({ waitTimeMs: 600 }), 'red lock of "a", "b"')
    fixture.port.fault = () => undefined
    await fixture.clock.advance(5_000)
  })
})

describe('a grant that is not confirmed, with a nameMapper', () => {
  it('a grant that is not confirmed names its lock as the program does, with a nameMapper', async () => {
    const { port, client } = fixture.connect({ checkLockSyncedSlaves: true })
    Object.assign(port, { acknowledge: async () => ({ replicas: 1, acknowledged: 0 }) })
    await fails('LOCK_NOT_REPLICATED', () => client.getLock('order').lock({ waitTimeMs: 0 }))
    const other = fixture.connect({ checkLockFsynced: true })
    Object.assign(other.port, { fsynced: async () => 'premature' })
    await fails('LOCK_NOT_DURABLE', () => other.client.getLock('order').lock({ waitTimeMs: 0 }))
    await fixture.clock.advance(5_000)
  })
})

describe('a warning, with a nameMapper', () => {
  it('a warning of a refused message names what was released as the program does', async () => {
    refusePublishing()
    // A client warns of it once.
    const clients = [fixture.client, fixture.other, fixture.connect({}).client] as const
    watch(clients[2])
    await (await clients[0].getLock('order').lock()).unlock()
    await clients[1].getSemaphore('printers').release()
    const latch = clients[2].getCountDownLatch('ready')
    await latch.trySetCount(1)
    await latch.countDown()
    for (const name of ['order', 'printers', 'ready']) assertRead('warning', `Redis released "${name}"`)
    await fixture.client.getSemaphore('printers').delete()
  })

  it('a warning of a failed release, tokens that went back or a dropped hold names the lock', async () => {
    fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { lost: 'reply' } : undefined)
    await fixture.clock.until(
      fixture.client
        .getLock('order')
        .withLock(() => Promise.reject(new Error('of the function')))
        .catch(() => {}),
    )
    assertRead('warning', 'The function that held "order"')
    fixture.port.fault = () => undefined
    await fixture.clock.advance(5_000)
    const fenced = fixture.client.getFencedLock('ledger')
    await (await fenced.lock()).unlock()
    await (await fenced.lock()).unlock()
    fixture.redis.delete(`redisson_lock_token:{${MARK}ledger}`)
    const hold = await fenced.lock()
    assertRead('warning', 'The fencing tokens of lock "ledger"')
    see('warning', holdDropped(hold, 1_000, undefined, ''))
    assertRead('warning', 'The hold of "ledger"')
    await hold.unlock()
  })

  it('a warning of an election names it as the program does', async () => {
    fixture.port.once('fenced-lock/acquire', { errorReply: 'NOAUTH Authentication required.' })
    let end: (() => void) | undefined
    const elected = new Promise<void>((resolve) => {
      end = resolve
    })
    const election = fixture.client.elect('leader', { onElected: () => elected })
    assert.equal(election.name, 'leader')
    await fixture.clock.advance(5_000)
    assertRead('warning', 'election "leader"')
    assert.equal(election.isLeader, true)
    assert.deepEqual(fixture.redis.keys, [`${MARK}leader`])
    const resigning = election.resign()
    await fixture.clock.advance(4_000)
    assertRead('warning', 'onElected of the election "leader"')
    end?.()
    await fixture.clock.until(resigning)
  })
})

describe('a synchronizer with a nameMapper', () => {
  it('a mapped semaphore has its own name in errors and in the wait for it', async () => {
    const semaphore = fixture.client.getSemaphore('order')
    assert.deepEqual([semaphore.name, semaphore.key], ['order', `${MARK}order`])
    await fails('LOCK_WAIT_TIMEOUT', () => semaphore.acquire({ waitTimeMs: 200, warnAfterMs: 50 }))
    assertRead('longWait', 'order')
    await semaphore.trySetPermits(1)
    assert.equal(fixture.redis.execute(['GET', `${MARK}order`]), '1')
    await fails('LOCK_CONFIG', () => semaphore.acquire({ permits: -1 }))
    fixture.port.fault = ({ name }) => (name.startsWith('semaphore/') ? { lost: 'reply' } : undefined)
    await fails('LOCK_OUTCOME_UNKNOWN', () => semaphore.release())
    await fails('LOCK_OUTCOME_UNKNOWN', () => semaphore.availablePermits())
    fixture.port.fault = () => undefined
    await fixture.clock.advance(65_000)
    await semaphore.delete()
    fixture.redis.execute(['RPUSH', `${MARK}order`, 'x'])
    await fails('LOCK_WRONG_TYPE', () => semaphore.tryAcquire())
    fixture.redis.delete(`${MARK}order`)
  })

  it('a mapped permit-expirable semaphore has its own name in errors and in the wait for it', async () => {
    const semaphore = fixture.client.getPermitExpirableSemaphore('order')
    assert.deepEqual([semaphore.name, semaphore.key], ['order', `${MARK}order`])
    await fails('LOCK_WAIT_TIMEOUT', () => semaphore.acquire({ waitTimeMs: 200, warnAfterMs: 50 }))
    assertRead('longWait', 'order')
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire()
    assert.equal(permit.lockName, 'order')
    await fails('LOCK_NOT_HELD', () => semaphore.release('f'.repeat(32)))
    await fails('LOCK_NOT_HELD', () => semaphore.getLeaseTime('x'))
    await fails('LOCK_CONFIG', () => semaphore.release(1 as never))
    see('inspect', await fixture.clock.until(fixture.other.fleet.inspect('order')))
    assert.equal(await semaphore.delete(), true)
    await fails('LOCK_LEASE_LOST', () => permit.unlock())
  })

  it('a mapped latch has its own name in errors and in the wait for it', async () => {
    const latch = fixture.client.getCountDownLatch('order')
    assert.deepEqual([latch.name, latch.key], ['order', `${MARK}order`])
    await latch.trySetCount(1)
    assert.equal(fixture.redis.execute(['GET', `${MARK}order`]), '1')
    assert.equal(await fixture.clock.until(latch.await({ waitTimeMs: 100, warnAfterMs: 50 })), false)
    assertRead('longWait', 'order')
    await fails('LOCK_CONFIG', () => latch.trySetCount(0))
    fixture.port.once('latch/inspect', { lost: 'reply' })
    await fails('LOCK_OUTCOME_UNKNOWN', () => latch.getCount())
    const { client } = fixture.connect({})
    const waiting = client.getCountDownLatch('order').await()
    waiting.catch(() => {})
    await turn()
    await fixture.clock.until(client.close())
    await fails('LOCK_CLIENT_CLOSED', () => waiting)
    assert.equal(await latch.delete(), true)
  })
})
