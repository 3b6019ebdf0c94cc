/** forceUnlock({ quarantineMs }): nobody gets a lock that was taken from a holder, so that this one notices. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { ForceUnlockOptions, ForceUnlockResult, Hold, Lock } from '../../src/index.js'
import { readAudit } from '../../src/locks/breaking/audit.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const ORDER = { reason: 'INC-4711', by: 'ops@laptop' }
const KINDS: readonly [string, (client: ClientFixture['client']) => Lock][] = [
  ['lock', (client) => client.getLock('a')],
  ['non-reentrant lock', (client) => client.getNonReentrantLock('a')],
  ['fair lock', (client) => client.getFairLock('a')],
  ['fenced lock', (client) => client.getFencedLock('a')],
  ['spin lock', (client) => client.getSpinLock('a')],
  ['string lock', (client) => client.getStringLock('a')],
]

/** The holder's client has no inbox, as with `inspection: false`. */
let fixture: ClientFixture
/** Of the operator's client. */
let theirs: Lock

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
  theirs = fixture.other.getLock('a')
})

afterEach(() => fixture.close())

function force({ holder }: Hold, options: Partial<ForceUnlockOptions>): Promise<ForceUnlockResult> {
  return theirs.forceUnlock({ holder, ...ORDER, ...options })
}

describe('a quarantine', () => {
  it('without a quarantine others get in while a live holder still counts on the lock', async () => {
    const { clock } = fixture
    const hold = await fixture.lock.lock()
    const waiting = theirs.lock()
    await clock.until(force(hold, { anyway: true, graceMs: 0 }))
    const next = await clock.until(waiting)
    hold.assertHeld()
    next.assertHeld()
    await next.unlock()
    await assert.rejects(hold.unlock(), { reason: 'gone' })
  })

  it('a quarantine keeps others out until a live holder has noticed its loss at its next renewal', async () => {
    const { clock, redis } = fixture
    const hold = await fixture.lock.lock()
    const waiting = theirs.lock()
    const forcing = force(hold, { anyway: true, graceMs: 0, quarantineMs: 10_000 })
    await clock.advance(3_000)
    hold.assertHeld()
    assert(!redis.isHeldBy('a', hold.holder), 'it is taken from it')
    await clock.advance(8_000)
    assert.deepEqual(
      fixture.lost.map(({ reason }) => reason),
      ['gone'],
    )
    assert.equal(await fixture.lock.tryLock(), null)
    assert.deepEqual(await clock.until(forcing), { outcome: 'freed' })
    const next = await clock.until(waiting)
    assert(clock.now() >= 12_500)
    await next.unlock()
    await assert.rejects(hold.unlock(), { reason: 'gone', forced: { by: 'ops@laptop', reason: 'INC-4711' } })
    const [entry] = await readAudit(theirs.context)
    assert.deepEqual([entry?.outcome, entry?.quarantineMs], ['freed', 10_000])
  })

  it('a quarantine lasts for all of its time, and ends with it', async () => {
    const { clock, redis } = fixture
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { anyway: true, graceMs: 0, quarantineMs: 10_000 })
    while (redis.isHeldBy('a', hold.holder)) await clock.advance(10)
    await clock.advance(9_900)
    assert.deepEqual(redis.keys, ['a'])
    await clock.advance(150)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(await clock.until(forcing), { outcome: 'freed' })
    await assert.rejects(hold.unlock(), { reason: 'gone' })
  })

  it('a quarantine that the operator does not live to end leaves a lease, and is recorded', async () => {
    const { clock, otherPort, redis, client } = fixture
    const hold = await fixture.lock.lock()
    const forcing = force(hold, { anyway: true, graceMs: 0, quarantineMs: 10_000 })
    await clock.advance(3_000)
    otherPort.isDisconnected = true
    await clock.advance(9_000)
    assert.equal(await client.getLock('a').tryLock(), null)
    await clock.advance(1_500)
    assert.deepEqual(redis.keys, [])
    otherPort.isDisconnected = false
    await clock.until(forcing)
    await assert.rejects(hold.unlock(), { reason: 'gone' })
    assert.equal((await readAudit(theirs.context))[0]?.outcome, 'freed')
  })

  it('a quarantine is recorded only if there was one', async () => {
    const hold = await fixture.lock.lock()
    await fixture.clock.until(force(hold, { anyway: true, graceMs: 0 }))
    await assert.rejects(hold.unlock(), { reason: 'gone' })
    const next = await fixture.lock.lock()
    const forcing = force(next, { anyway: true, graceMs: 0, quarantineMs: 10_000 })
    await fixture.clock.advance(100)
    await next.unlock()
    assert.deepEqual(await fixture.clock.until(forcing), { outcome: 'released' })
    const records = await readAudit(theirs.context)
    assert.deepEqual(
      records.map((record) => [record.outcome, 'quarantineMs' in record]),
      [
        ['released', false],
        ['freed', false],
      ],
    )
  })

  it('a quarantine does not begin if the holder releases the lock at the last moment', async () => {
    const { clock, redis, otherPort, lock } = fixture
    const hold = await lock.lock()
    otherPort.fault = ({ name }) => {
      if (name === 'lock/adopt') redis.delete('a')
      return undefined
    }
    const forcing = force(hold, { anyway: true, graceMs: 0, quarantineMs: 10_000 })
    assert.deepEqual(await clock.until(forcing), { outcome: 'released' })
    assert.ok(clock.now() < 10_000)
    assert.deepEqual(redis.keys, [])
    await hold.unlock().catch(() => {})
  })

  for (const [title, of] of KINDS) {
    it(`a quarantine takes a ${title} from its holder, and frees it`, async () => {
      const { clock, client, other, redis } = fixture
      const hold = await of(client).lock()
      const forcing = of(other).forceUnlock({ holder: hold.holder, graceMs: 0, anyway: true, quarantineMs: 1_000 })
      await clock.advance(3_000)
      const [heir, ...more] = await of(client).getHolders()
      assert.deepEqual([heir?.holder.split(':')[0], heir?.holdCount, more], [other.id, 1, []])
      assert.deepEqual(await clock.until(forcing), { outcome: 'freed' })
      assert.deepEqual(redis.keys, [], 'it is free as soon as the quarantine has ended')
      await assert.rejects(hold.unlock(), { reason: 'gone' })
      const next = await clock.until(of(client).lock())
      next.assertHeld()
      await next.unlock()
    })
  }
})
