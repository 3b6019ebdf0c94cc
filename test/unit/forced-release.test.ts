/** forceUnlock({ holder }): what the mark of an operator does to a hold, and what it must not do. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { ForceUnlockOptions, ForceUnlockResult, Hold, LeaseLostError, Lock } from '../../src/index.js'
import { ForcedMarks } from '../../src/locks/breaking/apply-mark.js'
import { readAudit } from '../../src/locks/breaking/audit.js'
import { readNotice } from '../../src/locks/breaking/mark.js'
import { Notices } from '../../src/locks/breaking/notices.js'
import type { LeaseContext } from '../../src/locks/lease.js'
import { AUDIT_KEY, forcedKey, INBOX_PREFIX } from '../../src/wire/keys.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const ORDER = { reason: 'INC-4711', by: 'ops@laptop' }

let fixture: ClientFixture
let theirs: Lock
/** Whether the holder's client gets messages, and whether it listens on its inbox at all. */
let isReachable: boolean
let isListening: boolean
let marks: ForcedMarks

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
  theirs = fixture.other.getLock('a')
  isReachable = true
  isListening = true
  fixture.redis.connect((channel) => isListening && channel === INBOX_PREFIX + fixture.client.id)
  marks = new ForcedMarks(fixture.lock.context)
  fixture.otherPort.fault = ({ name, args: [channel = '', message = ''] }) => {
    if (name !== 'PUBLISH' || channel !== INBOX_PREFIX + fixture.client.id) return undefined
    const marked = readNotice(message)
    assert.equal(marked?.key, 'a')
    if (isReachable) marks.notified(marked)
    return undefined
  }
})

afterEach(() => fixture.close())

/** Somebody else breaks the lock. */
function force({ holder }: Hold, options: Partial<ForceUnlockOptions> = {}): Promise<ForceUnlockResult> {
  return theirs.forceUnlock({ holder, ...ORDER, ...options })
}

function markInRedis(holder: string): string | null {
  return fixture.redis.execute(['GET', forcedKey('a', holder)]) as string | null
}

function mark(holder: string, content: string, ageMs = 0): void {
  fixture.redis.execute(['SET', forcedKey('a', holder), content, 'PX', String(600_000 - ageMs)])
}

/** A message says that this hold is marked. */
function notify({ lockName, holder }: Hold): void {
  marks.notified({ key: lockName, holder })
}

async function settle(turns = 20): Promise<void> {
  for (let n = 0; n < turns; n++) await turn()
}

describe('a holder that an operator interrupts', () => {
  it('an interrupted holder aborts its signal, and keeps the lock until its function has ended', async () => {
    const { clock, redis, lock } = fixture
    let aborted: LeaseLostError | undefined
    let finish: () => void = () => {}
    let held: Hold | undefined
    const running = lock.withLock(async (hold) => {
      held = hold
      hold.signal.addEventListener('abort', () => (aborted = hold.signal.reason as LeaseLostError))
      await new Promise<void>((resolve) => (finish = resolve))
      assert(redis.isHeldBy('a', hold.holder), 'others are kept out while it stops')
    })
    await settle()
    const forcing = force(held as Hold)
    await clock.advance(100)
    assert.equal(aborted?.reason, 'forced')
    assert.deepEqual(aborted?.forced, ORDER)
    assert.match(aborted?.message ?? '', /forced by "ops@laptop", because of "INC-4711"/)
    assert.equal(await theirs.tryLock(), null)
    finish()
    await assert.rejects(running, { code: 'LOCK_LEASE_LOST', reason: 'forced', forced: ORDER })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    assert.deepEqual(redis.keys, [])
    assert.equal(markInRedis((held as Hold).holder), null)
  })

  it('an interrupted holder releases at the end of the grace if its function goes on', async () => {
    const { clock, redis, lock } = fixture
    const hold = await lock.lock()
    const forcing = force(hold, { graceMs: 500 })
    await clock.advance(400)
    assert.equal(hold.signal.aborted, true)
    assert(redis.isHeldBy('a', hold.holder))
    await clock.advance(200)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    await assert.rejects(hold.unlock(), { reason: 'forced' })
  })

  it('an interrupted holder releases only when the outermost of nested functions has ended', async () => {
    const { clock, redis, lock } = fixture
    const outer = await lock.lock()
    const inner = await lock.lock({ within: outer })
    const forcing = force(outer)
    await clock.advance(10)
    await assert.rejects(inner.unlock(), { reason: 'forced' })
    await settle()
    assert(redis.isHeldBy('a', outer.holder))
    await assert.rejects(outer.unlock(), { reason: 'forced' })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder releases with its outermost function although a nested lease had ended', async () => {
    const { clock, redis, lock } = fixture
    const outer = await lock.lock()
    const inner = await lock.lock({ within: outer, leaseTimeMs: 100 })
    await clock.advance(200)
    const forcing = force(outer)
    await clock.advance(10)
    assert.equal(outer.signal.aborted, true)
    await assert.rejects(inner.unlock(), { reason: 'expired' })
    await settle()
    assert(redis.isHeldBy('a', outer.holder), 'the work under the outer hold may still be running')
    await assert.rejects(outer.unlock(), { reason: 'forced' })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder is renewed once more if its lease would end within the grace', async () => {
    const { clock, redis, lock } = fixture
    const hold = await lock.lock()
    const forcing = force(hold, { graceMs: 40_000 })
    await clock.advance(39_000)
    assert(redis.isHeldBy('a', hold.holder))
    assert(redis.pttl('a') < 5_000, 'a process that dies keeps it for little longer')
    await clock.advance(1_100)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder keeps the lock to the end of the grace, and is not renewed if its lease lasts as long', async () => {
    const { clock, redis, lock, port } = fixture
    for (const [graceMs, renewals] of [
      [40_000, 1],
      [29_699, 1],
      [29_698, 0],
      [5_000, 0],
    ] as const) {
      const hold = await lock.lock()
      const before = port.count('lock/renew')
      const forcing = force(hold, { graceMs })
      await clock.advance(graceMs - 10)
      assert(redis.isHeldBy('a', hold.holder))
      assert.equal(port.count('lock/renew') - before, renewals)
      assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    }
  })

  it('an interrupted holder with a lease of its own is not renewed, however long the grace', async () => {
    const { clock, redis, lock } = fixture
    const forcing = force(await lock.lock({ leaseTimeMs: 1_000 }), { graceMs: 40_000 })
    await clock.advance(1_100)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder that has released the lock does not delay the end of its client', async () => {
    const { clock } = fixture
    const { client } = fixture.connect({})
    const hold = await client.getLock('a').lock()
    const forcing = client.getLock('a').forceUnlock({ holder: hold.holder, graceMs: 60_000 })
    await clock.advance(10)
    await assert.rejects(hold.unlock(), { reason: 'forced' })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    const startedAt = clock.now()
    await clock.until(client.close({ drainMs: 30_000 }))
    assert.equal(clock.now(), startedAt)
  })

  it('an interrupted holder is renewed for the grace until there is a reply', async () => {
    const { clock, redis, lock, port } = fixture
    const hold = await lock.lock()
    port.once('lock/renew', { lost: 'request' })
    port.once('lock/renew', { lost: 'reply', failsWith: 'Connection is closed' })
    port.once('lock/renew', { errorReply: 'ERR upstream failure' })
    const forcing = force(hold, { graceMs: 40_000 })
    await clock.advance(39_000)
    assert(redis.isHeldBy('a', hold.holder))
    await clock.advance(1_100)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted writer is renewed for the grace like other holders', async () => {
    const { clock, client, other, redis } = fixture
    const hold = await client.getReadWriteLock('a').writeLock().lock()
    const forcing = other.getReadWriteLock('a').writeLock().forceUnlock({ holder: hold.holder, graceMs: 40_000 })
    await clock.advance(39_000)
    assert.deepEqual(redis.keys, ['a'])
    await clock.advance(1_100)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder is not renewed once it was released, although Redis did not reply', async () => {
    const { clock, lock, port } = fixture
    const hold = await lock.lock()
    port.fault = ({ name }) => (name === 'lock/renew' ? { errorReply: 'ERR upstream failure' } : undefined)
    const forcing = force(hold, { graceMs: 40_000 })
    await clock.advance(100)
    await assert.rejects(hold.unlock(), { reason: 'forced' })
    await clock.until(forcing)
    const renewals = port.count('lock/renew')
    await clock.advance(30_000)
    assert.equal(port.count('lock/renew'), renewals)
  })

  it('an interrupted holder is not renewed if it has a lease of its own, which ends the lock', async () => {
    const { clock, redis, lock } = fixture
    const hold = await lock.lock({ leaseTimeMs: 1_000 })
    const forcing = force(hold)
    await clock.advance(1_200)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder does not keep the lock for atLeastMs', async () => {
    const { clock, lock } = fixture
    let finish: () => void = () => {}
    const running = lock.withLock({ atLeastMs: 20_000 }, async () => {
      await new Promise<void>((resolve) => (finish = resolve))
    })
    await settle()
    const [holder] = await theirs.getHolders()
    const forcing = theirs.forceUnlock({ holder: holder?.holder as string })
    await clock.advance(10)
    finish()
    await assert.rejects(running, { reason: 'forced' })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('an interrupted holder gives the lock to the next waiter only after its function has ended', async () => {
    const { clock, lock } = fixture
    const events: string[] = []
    const running = lock.withLock(async (hold) => {
      await new Promise((resolve) => hold.signal.addEventListener('abort', resolve))
      await fixture.pause(300)
      events.push('last effect')
    })
    await settle()
    const waiting = theirs.lock()
    void waiting.then(() => events.push('next grant'))
    const [holder] = await theirs.getHolders()
    const forcing = theirs.forceUnlock({ holder: holder?.holder as string })
    await assert.rejects(clock.until(running), { reason: 'forced' })
    const next = await clock.until(waiting)
    assert.deepEqual(events, ['last effect', 'next grant'])
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    await next.unlock()
  })

  it('an interrupted holder ends the hold of a multi-lock that it is part of', async () => {
    const { clock, client, redis } = fixture
    const { getMultiLock } = await import('../../src/index.js')
    const joint = await getMultiLock(client.getLock('a'), client.getLock('b')).lock()
    const [member] = joint.members as [Hold]
    const forcing = force(member)
    await clock.advance(10)
    const loss = joint.signal.reason as LeaseLostError
    assert.deepEqual([loss.reason, loss.forced], ['forced', ORDER])
    assert(redis.isHeldBy('a', member.holder), 'until it is released')
    await assert.rejects(joint.unlock(), { reason: 'forced' })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    assert.deepEqual(redis.keys, [])
  })

  it('an interrupted holder is released at once if its client closes within the grace', async () => {
    const { clock } = fixture
    const { client } = fixture.connect({})
    const lock = client.getLock('a')
    const hold = await lock.lock()
    const forcing = assert.rejects(lock.forceUnlock({ holder: hold.holder, graceMs: 60_000 }), {
      code: 'LOCK_CLIENT_CLOSED',
    })
    await clock.advance(10)
    assert.equal(hold.signal.aborted, true)
    assert.equal(fixture.redis.isHeldBy('a', hold.holder), true)
    await clock.until(client.close())
    assert.deepEqual(fixture.redis.keys, [])
    await clock.until(forcing)
  })

  it('an interrupted holder of the same client needs no message', async () => {
    const { clock, lock, port } = fixture
    const hold = await lock.lock()
    const forcing = lock.forceUnlock({ holder: hold.holder, graceMs: 100 })
    await clock.advance(10)
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    assert.equal(port.count('PUBLISH'), 0)
  })
})

describe('a message about a mark', () => {
  it('a message about a mark ends nothing without the mark', async () => {
    const hold = await fixture.lock.lock()
    notify(hold)
    marks.notified({ key: 'b', holder: hold.holder })
    await fixture.clock.advance(100)
    fixture.assertSafe(hold)
    await hold.unlock()
  })

  it('a message about a mark is told from any other message', () => {
    assert.deepEqual(readNotice('{"v":1,"forced":"a","holder":"me:1"}'), { key: 'a', holder: 'me:1' })
    for (const text of [
      '{"v":1,"forced":"a","holder":"me:1"',
      '{"v":2,"forced":"a","holder":"me:1"}',
      '{"v":1,"forced":7,"holder":"me:1"}',
      '{"v":1,"forced":"a","holder":7}',
      '{"v":1,"holder":"me:1"}',
      'null "forced"',
    ]) {
      assert.equal(readNotice(text), undefined, text)
    }
  })

  it('a message about a mark ends nothing if it names another holder, or makes no sense', async () => {
    const hold = await fixture.lock.lock()
    const contents = [
      JSON.stringify({ id: '1', holder: 'somebody:1', by: 'x', graceMs: 0 }),
      JSON.stringify({ id: '1', holder: hold.holder, by: 'x', graceMs: 'soon' }),
      JSON.stringify({ id: '1', holder: hold.holder, graceMs: 0 }),
      JSON.stringify(null),
      'no JSON',
    ]
    for (const content of contents) {
      mark(hold.holder, content)
      notify(hold)
      await fixture.clock.advance(100)
      fixture.assertSafe(hold)
    }
    await hold.unlock()
  })

  it('a message about a mark ends nothing if a field of the mark has the wrong type', async () => {
    const hold = await fixture.lock.lock()
    const valid = { id: '1', holder: hold.holder, by: 'x', graceMs: 0 }
    for (const wrong of [{ id: 1 }, { by: ['x'] }, { graceMs: -1 }, { graceMs: null }]) {
      mark(hold.holder, JSON.stringify({ ...valid, ...wrong }))
      notify(hold)
      await fixture.clock.advance(100)
      fixture.assertSafe(hold)
    }
    await hold.unlock()
  })

  it('a message about a mark ends nothing if the lock is one on values of a group, whose holds are never marked', async () => {
    const hold = await fixture.client.getFasterMultiLock('a', ['x']).lock()
    mark(hold.holder, JSON.stringify({ id: '1', holder: hold.holder, by: 'x', graceMs: 0 }))
    notify(hold)
    await fixture.clock.advance(100)
    hold.assertHeld()
    await hold.unlock()
  })

  it('a message about a mark with long texts ends a hold with the beginning of each', async () => {
    const hold = await fixture.lock.lock()
    const texts = { by: 'b'.repeat(5_000), reason: 'r'.repeat(5_000) }
    mark(hold.holder, JSON.stringify({ id: '1', holder: hold.holder, graceMs: 0, ...texts }))
    notify(hold)
    await fixture.clock.advance(100)
    const { forced } = hold.signal.reason as LeaseLostError
    assert.deepEqual(forced, { by: 'b'.repeat(1_024), reason: 'r'.repeat(1_024) })
    await assert.rejects(hold.unlock(), { reason: 'forced' })
  })

  it('a message about a mark ends nothing if older than the grant: the owner has the lock again', async () => {
    const { client, clock } = fixture
    const sides = client.getReadWriteLock('a')
    await sides.writeLock().withLock(async () => {
      const first = await sides.readLock().lock()
      mark(first.holder, JSON.stringify({ id: '1', holder: first.holder, by: 'x', graceMs: 0 }))
      await first.unlock()
      await clock.advance(50)
      const second = await sides.readLock().lock()
      assert.equal(second.holder, first.holder)
      notify(second)
      await clock.advance(100)
      fixture.assertSafe(second)
      await second.unlock()
    })
  })

  it('a mark that is older than the grant is not the reason of a later loss', async () => {
    const { client, clock, redis } = fixture
    const sides = client.getReadWriteLock('a')
    const writing = sides.writeLock().withLock(async () => {
      const first = await sides.readLock().lock()
      mark(first.holder, JSON.stringify({ id: '1', holder: first.holder, by: 'x', graceMs: 0 }))
      await first.unlock()
      await clock.advance(50)
      const second = await sides.readLock().lock()
      assert.equal(second.holder, first.holder)
      redis.delete('a')
      const loss = await second.unlock().catch((error: LeaseLostError) => error)
      assert.deepEqual([loss?.reason, loss?.forced], ['gone', undefined])
    })
    await assert.rejects(writing, { reason: 'gone' })
  })

  it('a message about a mark lets lock.unlock() in a scope end the grace', async () => {
    const { client, clock, redis } = fixture
    await client.runInScope(async () => {
      const hold = await fixture.lock.lock()
      mark(hold.holder, JSON.stringify({ id: '1', holder: hold.holder, by: 'x', graceMs: 60_000 }))
      notify(hold)
      await clock.advance(100)
      assert.equal(hold.signal.aborted, true)
      assert.deepEqual(redis.keys, ['a'])
      await assert.rejects(fixture.lock.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
      await settle()
      assert.deepEqual(redis.keys, [])
    })
  })

  it('a message about a mark that arrives too late ends nothing: the operator has given up', async () => {
    const { clock } = fixture
    const hold = await fixture.lock.lock()
    await clock.advance(4_000)
    mark(hold.holder, JSON.stringify({ id: '1', holder: hold.holder, by: 'x', graceMs: 0 }), 3_000)
    notify(hold)
    await clock.advance(100)
    fixture.assertSafe(hold)
    await hold.unlock()
  })

  it('a message about a mark that arrives after the release ends the hold, and says by whom', async () => {
    const { clock, redis } = fixture
    const hold = await fixture.lock.lock()
    await clock.advance(4_000)
    mark(hold.holder, JSON.stringify({ id: '1', holder: hold.holder, by: 'x', reason: 'y', graceMs: 0 }), 3_000)
    redis.delete('a')
    notify(hold)
    await clock.advance(100)
    assert.throws(() => hold.assertHeld(), { reason: 'forced', forced: { by: 'x', reason: 'y' } })
  })

  const textOf = (holder: string): string => JSON.stringify({ id: '1', holder, by: 'x', graceMs: 0 })
  const WITHOUT_EFFECT: Readonly<Record<string, (hold: Hold) => unknown>> = {
    'there is none': () => {},
    'Redis does not let it': () => {
      fixture.port.fault = ({ name }) => (name === 'GET' ? { errorReply: 'NOPERM No permissions' } : undefined)
    },
    'it is older than the grant': ({ holder }) => mark(holder, textOf(holder), 3_000),
    'its operator has given up': async ({ holder }) => {
      await fixture.clock.advance(4_000)
      mark(holder, textOf(holder), 3_000)
    },
  }
  for (const [why, prepare] of Object.entries(WITHOUT_EFFECT)) {
    it(`a message about a mark makes its holder read it 50 times a second at most, although ${why}`, async () => {
      const { clock, port } = fixture
      for (let n = 0; n < 10; n++) marks.notified({ key: 'a', holder: `${fixture.client.id}:1` })
      await settle()
      assert.equal(port.count('GET'), 0)
      const hold = await fixture.lock.lock()
      await prepare(hold)
      const { keepingAlive } = clock
      for (let n = 0; n < 1_000; n++) {
        notify(hold)
        await clock.advance(1)
      }
      assert(port.count('GET') >= 40 && port.count('GET') <= 52, `${port.count('GET')} times`)
      assert.equal(clock.keepingAlive, keepingAlive)
      await hold.unlock()
      await clock.advance(20)
    })
  }
})

describe('a notice that the holder missed', () => {
  it('a notice is repeated until the holder has reacted', async () => {
    const { clock } = fixture
    const hold = await fixture.lock.lock()
    isReachable = false
    const forcing = force(hold)
    await clock.advance(600)
    assert(hold.isLive)
    isReachable = true
    await clock.advance(300)
    assert.equal(hold.lostError?.reason, 'forced')
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('a notice counts as received once somebody listened, or may have', async () => {
    const { context } = theirs
    const hold = await fixture.lock.lock()
    isReachable = isListening = false
    const notices = new Notices(context as LeaseContext, theirs, hold.holder)
    await notices.send()
    assert.deepEqual([notices.isReceived, notices.isUnreachable], [false, false])
    fixture.otherPort.once('PUBLISH', { errorReply: 'UNBLOCKED' })
    await fixture.clock.advance(250)
    await notices.send()
    assert.equal(notices.isReceived, true)
    await hold.unlock()
  })

  it('a notice is repeated four times a second, as long as the mark counts', async () => {
    const { clock, otherPort } = fixture
    const hold = await fixture.lock.lock()
    isReachable = false
    const startedAt = clock.now()
    const { outcome } = await clock.until(force(hold))
    assert.equal(outcome, 'silent')
    const sent = otherPort.sent.filter(({ name }) => name === 'PUBLISH').map(({ at }) => at - startedAt)
    assert.equal(sent[0], 0)
    assert((sent.at(-1) ?? 0) < 2_000, `${sent}`)
    const pauses = sent.slice(1).map((at, index) => at - (sent[index] ?? 0))
    assert(pauses.length >= 5 && pauses.every((ms) => ms >= 250 && ms <= 360), `${pauses}`)
    await hold.unlock()
  })
})

describe('a holder without an inbox', () => {
  it('a holder without an inbox is unreachable after a second, whatever the grace, and keeps its lock', async () => {
    const { clock } = fixture
    isReachable = isListening = false
    const hold = await fixture.lock.lock()
    const startedAt = clock.now()
    const result = await clock.until(force(hold, { graceMs: 60_000 }))
    assert.deepEqual(result, { outcome: 'unreachable', holder: { holder: hold.holder, holdCount: 1 } })
    const took = clock.now() - startedAt
    assert(took >= 1_000 && took <= 1_200, `${took} ms`)
    assert.equal(markInRedis(hold.holder), null)
    const [entry] = await readAudit(theirs.context as LeaseContext)
    assert.equal(entry?.outcome, 'unreachable')
    await clock.advance(100)
    fixture.assertSafe(hold)
    await hold.unlock()
  })

  it('a holder without an inbox that is back within the second reacts', async () => {
    const { clock } = fixture
    isReachable = isListening = false
    const hold = await fixture.lock.lock()
    const forcing = force(hold)
    await clock.advance(700)
    isReachable = isListening = true
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    assert.equal(hold.lostError?.reason, 'forced')
  })

  it('a holder without an inbox that is back is reached although Redis was slow to say that nobody listened', async () => {
    const { clock } = fixture
    isReachable = isListening = false
    const hold = await fixture.lock.lock()
    fixture.otherPort.once('PUBLISH', { replyMs: 1_500 })
    const forcing = force(hold)
    await clock.advance(300)
    isReachable = isListening = true
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('a holder without an inbox keeps its lock for all of the grace before anyway frees it', async () => {
    const { clock, redis } = fixture
    isReachable = isListening = false
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { graceMs: 2_000, anyway: true })
    await clock.advance(4_400)
    assert(redis.isHeldBy('a', hold.holder))
    assert.deepEqual(await clock.until(forcing), { outcome: 'freed' })
    await assert.rejects(hold.unlock(), { reason: 'gone' })
  })
})

describe('two operators', () => {
  const second = (hold: Hold, options: Partial<ForceUnlockOptions>): Promise<ForceUnlockResult> =>
    fixture
      .connect({})
      .client.getLock('a')
      .forceUnlock({ holder: hold.holder, by: 'second', reason: 'me too', ...options })

  it('two operators: the grace of the first counts before their holder has read the mark', async () => {
    const { clock, redis } = fixture
    const hold = await fixture.lock.lock()
    const { fault } = fixture.otherPort
    fixture.otherPort.fault = (sent) => (sent.name === 'PUBLISH' ? { lost: 'request' } : fault(sent)) // later
    const first = force(hold, { graceMs: 10_000 })
    await clock.advance(100)
    const other = second(hold, { graceMs: 0, anyway: true })
    await clock.advance(100)
    notify(hold)
    await clock.advance(9_800)
    assert.equal(hold.lostError?.forced?.by, ORDER.by)
    assert(redis.isHeldBy('a', hold.holder), 'its work may go on')
    await clock.advance(400)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(Promise.all([first, other])), [{ outcome: 'released' }, { outcome: 'released' }])
  })

  it('two operators: the grace of the first counts after their holder has read the mark', async () => {
    const { clock, redis } = fixture
    const hold = await fixture.lock.lock()
    const first = force(hold, { graceMs: 10_000 })
    await clock.advance(3_000)
    const other = second(hold, { graceMs: 0, anyway: true })
    await clock.advance(6_500)
    assert(redis.isHeldBy('a', hold.holder), 'its work may go on')
    await clock.advance(600)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(Promise.all([first, other])), [{ outcome: 'released' }, { outcome: 'released' }])
  })

  it('two operators of a silent holder: the second is heard later, and is who freed the lock', async () => {
    const { clock } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    const first = force(hold, { graceMs: 0 })
    await clock.advance(100)
    const other = second(hold, { graceMs: 0, anyway: true })
    assert.equal((await clock.until(first)).outcome, 'silent')
    assert.deepEqual(await clock.until(other), { outcome: 'freed' })
    await assert.rejects(hold.unlock(), { reason: 'gone', forced: { by: 'second', reason: 'me too' } })
  })

  it("two operators: the second one's mark replaces one of the first that did not arrive", async () => {
    const { clock } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    const first = force(hold, { graceMs: 60_000 })
    await clock.advance(3_000)
    const other = second(hold, { graceMs: 0 })
    await clock.advance(100)
    notify(hold)
    await clock.advance(100)
    assert.equal(hold.lostError?.forced?.by, 'second')
    assert.deepEqual(await clock.until(Promise.all([first, other])), [{ outcome: 'released' }, { outcome: 'released' }])
  })

  it('two operators interrupt both readers of one lock', async () => {
    const { clock } = fixture
    const readers = [fixture.client, fixture.connect({}).client].map((client) =>
      client.getReadWriteLock('a').readLock(),
    )
    const holds = await Promise.all(readers.map((reader) => reader.lock()))
    isReachable = false
    const forcing = holds.map(({ holder }) =>
      fixture.other.getReadWriteLock('a').readLock().forceUnlock({ holder, graceMs: 0 }),
    )
    await clock.advance(10)
    for (const [index, hold] of holds.entries()) {
      const { lockName, holder } = hold
      new ForcedMarks((readers[index] as Lock).context as LeaseContext).notified({ key: lockName, holder })
    }
    await clock.advance(100)
    assert.deepEqual(
      holds.map(({ lostError }) => lostError?.reason),
      ['forced', 'forced'],
    )
    assert.deepEqual(await clock.until(Promise.all(forcing)), [{ outcome: 'released' }, { outcome: 'released' }])
  })
})

describe('forceUnlock({ holder })', () => {
  it('forceUnlock({ holder }) changes nothing if another holder has the lock, and says which', async () => {
    const { clock, redis, lock, otherPort } = fixture
    const hold = await lock.lock()
    const result = await clock.until(theirs.forceUnlock({ holder: 'somebody:1', anyway: true }))
    assert.deepEqual(result, { outcome: 'not-held', holder: { holder: hold.holder, holdCount: 1 } })
    assert.equal(markInRedis('somebody:1'), null)
    assert.equal(otherPort.count('PUBLISH'), 0)
    assert.equal(redis.isHeldBy('a', hold.holder), true)
    await hold.unlock()
    assert.deepEqual(await clock.until(force(hold)), { outcome: 'not-held' })
  })

  it('forceUnlock({ holder }) leaves a holder that does not react as it is, and deletes the mark', async () => {
    const { clock } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    const result = await clock.until(force(hold))
    assert.deepEqual(result, { outcome: 'silent', holder: { holder: hold.holder, holdCount: 1 } })
    assert.equal(markInRedis(hold.holder), null)
    notify(hold) // it wakes up
    await clock.advance(100)
    fixture.assertSafe(hold)
    await hold.unlock()
  })

  it('forceUnlock({ holder }) with anyway frees the lock, and the holder learns by whom', async () => {
    const { clock, redis, client } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { anyway: true, graceMs: 0 })
    await clock.advance(2_400)
    fixture.assertSafe(hold)
    assert.deepEqual(await clock.until(forcing), { outcome: 'freed' })
    assert.deepEqual(redis.keys, [])
    assert.notEqual(markInRedis(hold.holder), null)
    assert.equal(await hold.isHeld(), false)
    await assert.rejects(hold.unlock(), {
      reason: 'gone',
      forced: ORDER,
      message: /It was forced by "ops@laptop", because of "INC-4711"$/,
    })
    const next = await client.getLock('a').lock()
    fixture.assertSafe(next)
    await next.unlock()
  })

  it('forceUnlock({ holder }) says by whom also if the release is what finds the holder gone', async () => {
    const { clock } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    assert.deepEqual(await clock.until(force(hold, { anyway: true })), { outcome: 'freed' })
    await assert.rejects(hold.unlock(), { reason: 'gone', forced: ORDER })
  })

  it('forceUnlock({ holder }) with anyway wakes the waiters', async () => {
    const { clock } = fixture
    isReachable = false
    const [hold, [waiting]] = await fixture.heldAndWaitedFor(1)
    assert.deepEqual(await clock.until(force(hold, { anyway: true })), { outcome: 'freed' })
    const next = (await clock.until(waiting as Promise<Hold>)) as Hold
    fixture.assertSafe(next)
    await next.unlock()
    await assert.rejects(hold.unlock(), { reason: 'gone' })
  })

  it('a forceUnlock({ holder }) whose operator dies leaves only the mark, which ends nothing later', async () => {
    const { clock, otherPort } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { anyway: true }).catch(() => {})
    await settle()
    otherPort.isDisconnected = true
    await clock.advance(10_000)
    fixture.assertSafe(hold)
    assert.notEqual(markInRedis(hold.holder), null)
    isReachable = true
    notify(hold)
    await clock.advance(100)
    fixture.assertSafe(hold)
    otherPort.isDisconnected = false
    await clock.until(forcing)
    await hold.unlock()
  })

  it('forceUnlock({ holder }) is recorded, the latest first', async () => {
    const { clock } = fixture
    const context: LeaseContext = theirs.context
    const hold = await fixture.lock.lock()
    await clock.until(force(hold, { graceMs: 0 }))
    await clock.until(theirs.forceUnlock({ holder: hold.holder }))
    fixture.redis.execute(['LPUSH', AUDIT_KEY, 'not of ours', '{}'])
    const [last, first, ...others] = await readAudit(context)
    assert.equal(others.length, 0)
    assert.deepEqual(
      { ...first, time: undefined },
      { time: undefined, lock: 'a', holder: hold.holder, ...ORDER, outcome: 'released' },
    )
    assert.match(first?.time ?? '', /^\d{4}-\d\d-\d\dT/)
    assert.match(last?.by ?? '', /./)
    assert.equal(last?.outcome, 'not-held')
  })

  it('the audit keeps the newest 1,000 records', async () => {
    for (let n = 0; n < 1_005; n++) fixture.redis.execute(['LPUSH', AUDIT_KEY, `{"n":${n}}`])
    await theirs.forceUnlock({ holder: 'somebody:1' })
    const lines = fixture.redis.execute(['LRANGE', AUDIT_KEY, '0', '-1']) as string[]
    assert.equal(lines.length, 1_000)
    assert.match(lines[0] as string, /somebody:1/)
  })

  it('an audit record has at most 2 KB, with the beginning of every text', async () => {
    const name = 'a'.repeat(3_000)
    const reason = '不'.repeat(1_024)
    await fixture.clock.until(
      fixture.other.getLock(name).forceUnlock({ holder: 'somebody:1', reason, by: '\u0001'.repeat(1_024) }),
    )
    const [line = ''] = fixture.redis.execute(['LRANGE', AUDIT_KEY, '0', '-1']) as string[]
    assert(line.length > 500 && Buffer.byteLength(line) <= 2_048, `${Buffer.byteLength(line)} bytes`)
    const [entry] = await readAudit(theirs.context as LeaseContext)
    for (const [text, whole] of [
      [entry?.lock, name],
      [entry?.reason, reason],
    ] as const) {
      assert(text?.endsWith('…') && whole.startsWith(text.slice(0, -1)), text)
    }
    assert.equal(entry?.holder, 'somebody:1')
  })

  it('an audit record keeps the texts that are no longer than those that are cut', async () => {
    const reason = 'r'.repeat(512)
    await fixture.clock.until(
      fixture.other.getLock('a'.repeat(3_000)).forceUnlock({ holder: 'somebody:1', reason, by: 'me' }),
    )
    const [entry] = await readAudit(theirs.context as LeaseContext)
    assert.equal(entry?.lock, `${'a'.repeat(512)}…`)
    assert.equal(entry?.reason, reason)
  })

  for (const [what, script, options] of [
    ['the mark', 'forced/mark', {}],
    ['the release on behalf of the holder', 'lock/release-queued', { anyway: true }],
    ['the withdrawal of the mark', 'forced/withdraw', {}],
  ] as const) {
    it(`forceUnlock({ holder }) is recorded although the reply to ${what} is lost, once Redis replies`, async () => {
      const { clock, otherPort } = fixture
      isReachable = false
      const hold = await fixture.lock.lock()
      const { fault } = otherPort
      let isLost = false
      otherPort.fault = (sent) => {
        if (sent.name === script) isLost = true
        return isLost ? { lost: 'reply' } : fault(sent)
      }
      await assert.rejects(clock.until(force(hold, { graceMs: 0, ...options })), { code: 'LOCK_OUTCOME_UNKNOWN' })
      await clock.advance(10_000)
      otherPort.fault = fault
      await clock.advance(10_000)
      const entries = (await readAudit(theirs.context as LeaseContext)).map(({ lock, outcome }) => [lock, outcome])
      assert.deepEqual(entries, [['a', 'unknown']])
      await hold.unlock().catch(() => {})
    })
  }

  it('forceUnlock({ holder }) warns if Redis cannot record it for a minute', async () => {
    const { clock, otherPort } = fixture
    const warnings: unknown[] = []
    fixture.other.on('warning', ({ message }) => warnings.push(message))
    const { fault } = otherPort
    otherPort.fault = (sent) => (sent.name === 'forced/record' ? { errorReply: 'ERR upstream failure' } : fault(sent))
    await clock.until(theirs.forceUnlock({ holder: 'somebody:1' }))
    await clock.advance(70_000)
    assert.match(warnings.join(), /^The forced release of "a" \(not-held\) could not be recorded .* upstream failure$/)
  })

  it('forceUnlock({ holder }) warns if Redis refuses to record it', async () => {
    const { clock } = fixture
    const warnings: (Error & { code?: string })[] = []
    fixture.other.on('warning', (warning) => warnings.push(warning))
    fixture.otherPort.once('forced/record', { errorReply: 'NOPERM No permissions to access a key' })
    await clock.until(theirs.forceUnlock({ holder: 'somebody:1' }))
    assert.deepEqual(
      warnings.map(({ code }) => code),
      ['AUDIT_FAILED'],
    )
  })

  it('forceUnlock({ holder }) rejects what cannot work, and sends nothing', async () => {
    const { client, port } = fixture
    const wrong: [ForceUnlockOptions | undefined, string][] = [
      [undefined, 'options'],
      [{} as ForceUnlockOptions, 'holder'],
      [{ holder: 'mode' }, 'holder'],
      [{ holder: 'a:1', graceMs: 60_001 }, 'graceMs'],
      [{ holder: 'a:1', graceMs: -1 }, 'graceMs'],
      [{ holder: 'a:1', by: 'x'.repeat(1_025) }, 'by'],
      [{ holder: 'a:1', reason: 7 as unknown as string }, 'reason'],
      [{ holder: 'a:1', anyway: 'yes' as unknown as boolean }, 'anyway'],
      [{ holder: 'a:1', quarantineMs: 10_000 }, 'quarantineMs'],
      [{ holder: 'a:1', anyway: true, quarantineMs: 60_001 }, 'quarantineMs'],
      [{ holder: 'a:1', grace: 7 } as ForceUnlockOptions, 'grace'],
    ]
    for (const [options, path] of wrong) {
      const forcing = fixture.lock.forceUnlock(options as ForceUnlockOptions)
      await assert.rejects(forcing, { code: 'LOCK_CONFIG', path, lockName: 'a' })
    }
    const both = client.getReadWriteLock('a')
    for (const lock of [both.readLock(), both.writeLock()]) {
      const forcing = lock.forceUnlock({ holder: 'a:1', anyway: true, quarantineMs: 1 })
      await assert.rejects(forcing, { code: 'LOCK_CONFIG', path: 'quarantineMs' })
    }
    const values = client.getFasterMultiLock('group', ['1'])
    const forcing = values.forceUnlock({ holder: 'a:1' })
    await assert.rejects(forcing, { code: 'LOCK_CONFIG', path: 'forceUnlock', lockName: 'group' })
    assert.equal(port.count(), 0)
  })

  it('forceUnlock({ holder }) takes every holder that Redisson or Holdfast can have, and no other text', async () => {
    const { clock, client, lock, port } = fixture
    for (const holder of [`${'a'.repeat(64)}:1`, 'a-b_c:1234567890123456789', 'a:10:write']) {
      assert.deepEqual(await clock.until(lock.forceUnlock({ holder })), { outcome: 'not-held' })
    }
    const string = client.getStringLock('s')
    assert.deepEqual(await clock.until(string.forceUnlock({ holder: 'any text' })), { outcome: 'not-held' })
    const sent = port.count()
    const wrong = [
      '',
      ':1',
      'a',
      'a:',
      'a:0',
      'a:01',
      'a:1:writer',
      'x a:1',
      'a:1 ',
      `${'a'.repeat(65)}:1`,
      'a:1:write:write',
    ]
    for (const holder of [...wrong, `a:1${'0'.repeat(19)}`]) {
      await assert.rejects(lock.forceUnlock({ holder }), { code: 'LOCK_CONFIG', path: 'holder' }, holder)
    }
    await assert.rejects(string.forceUnlock({ holder: '' }), { code: 'LOCK_CONFIG', path: 'holder' })
    assert.equal(port.count(), sent)
  })

  it('forceUnlock({ holder }) is not recorded if Redis refuses to mark the holder', async () => {
    const hold = await fixture.lock.lock()
    fixture.otherPort.once('forced/mark', { errorReply: 'NOPERM no permissions' })
    await assert.rejects(fixture.clock.until(force(hold)), /NOPERM/)
    await fixture.clock.advance(1_000)
    assert.deepEqual(await readAudit(theirs.context), [])
    await hold.unlock()
  })

  it('forceUnlock({ holder }) does not warn if it was recorded in the end', async () => {
    const { clock, other, otherPort } = fixture
    const warnings: unknown[] = []
    other.on('warning', (warning) => warnings.push(warning))
    otherPort.once('forced/record', { errorReply: 'ERR upstream failure' })
    await clock.until(theirs.forceUnlock({ holder: 'somebody:1' }))
    await clock.advance(70_000)
    assert.deepEqual([(await readAudit(theirs.context)).length, warnings], [1, []])
  })

  it('forceUnlock({ holder }) asks ten times a second at most whether the lock was released', async () => {
    const { clock, otherPort } = fixture
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { graceMs: 5_000 })
    await clock.advance(4_000)
    const asked = otherPort.count('lock/inspect')
    assert(asked >= 40 && asked <= 50, `${asked} times`)
    await assert.rejects(hold.unlock(), { reason: 'forced' })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
  })

  it('forceUnlock({ holder }) ends with the client that called it', async () => {
    const { clock } = fixture
    isReachable = false
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { graceMs: 5_000 })
    await clock.advance(500)
    const closing = fixture.other.close()
    const closedAt = clock.now()
    await assert.rejects(clock.until(forcing), { code: 'LOCK_CLIENT_CLOSED' })
    assert(clock.now() - closedAt <= 200, `${clock.now() - closedAt} ms`)
    await clock.until(closing)
    await hold.unlock()
  })

  it('forceUnlock({ holder }) goes on although Redis cannot say for a moment who holds the lock', async () => {
    const hold = await fixture.lock.lock()
    const forcing = force(hold)
    fixture.otherPort.once('lock/inspect', { errorReply: 'UNBLOCKED' })
    fixture.otherPort.once('lock/inspect', { errorReply: 'UNBLOCKED' })
    assert.deepEqual(await fixture.clock.until(forcing), { outcome: 'released' })
    assert.equal(hold.lostError?.reason, 'forced')
  })

  it('the audit leaves out records that make no sense, and reasons that are no text', async () => {
    const entry = { time: 't', lock: 'a', holder: 'a:1', by: 'x', outcome: 'freed' }
    for (const line of [
      'no JSON',
      'null',
      JSON.stringify({ ...entry, by: 7 }),
      JSON.stringify({ ...entry, reason: 7 }),
    ]) {
      fixture.redis.execute(['LPUSH', AUDIT_KEY, line])
    }
    assert.deepEqual(await readAudit(theirs.context), [entry])
  })

  it('forceUnlock({ holder }) rejects a lock of another kind', async () => {
    const hold = await fixture.client.getReadWriteLock('a').readLock().lock()
    await assert.rejects(force(hold), { code: 'LOCK_WRONG_TYPE' })
    await hold.unlock()
  })
})

for (const anyway of [false, true]) {
  describe(`forceUnlock({ holder${anyway ? ', anyway' : ''} }) of each kind of lock`, () => {
    const kinds: [string, (client: typeof fixture.client) => Lock][] = [
      ['lock', (client) => client.getLock('a')],
      ['non-reentrant lock', (client) => client.getNonReentrantLock('a')],
      ['fair lock', (client) => client.getFairLock('a')],
      ['read lock', (client) => client.getReadWriteLock('a').readLock()],
      ['write lock', (client) => client.getReadWriteLock('a').writeLock()],
      ['fenced lock', (client) => client.getFencedLock('a')],
      ['spin lock', (client) => client.getSpinLock('a')],
      ['string lock', (client) => client.getStringLock('a')],
    ]
    for (const [title, of] of kinds) {
      it(`forceUnlock({ holder${anyway ? ', anyway' : ''} }) ends the hold of a ${title}, and only that`, async () => {
        const { clock, client, other } = fixture
        isReachable = !anyway
        const hold = await of(client).lock()
        const reader = title === 'read lock' ? await of(other).lock() : undefined
        const [holder] = await of(other).getHolders()
        assert.equal(holder?.holder, hold.holder)
        const forcing = of(other).forceUnlock({ holder: hold.holder, graceMs: 100, anyway, ...ORDER })
        assert.equal((await clock.until(forcing)).outcome, anyway ? 'freed' : 'released')
        await assert.rejects(hold.unlock(), { reason: anyway ? 'gone' : 'forced', forced: ORDER })
        assert.deepEqual(
          (await of(client).getHolders()).map((one) => one.holder),
          reader ? [reader.holder] : [],
        )
        await reader?.unlock()
        const next = await clock.until(of(other).lock())
        await next.unlock()
      })
    }
  })
}
