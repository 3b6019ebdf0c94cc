import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Permit } from '../../src/index.js'
import { permitAcquire } from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
import { type Fixture, setUpFixture } from '../support/fixture.js'
import { NAMES, recordMessages } from '../support/key-contents.js'
import { openSynchronizerTwin } from '../support/redisson-twin/twin-synchronizers.js'
import { listening } from '../support/subscribers.js'
import { expectOnly, repliesForgotten } from '../support/synchronizers.js'
import { waitUntil } from '../support/wait-until.js'

/** Redisson's lease that never ends, as a score. */
const NEVER = 922_337_203_685_477
const WATCHDOG_MS = 30_000

/** The permits that are held: ids as hexadecimal digits, and ms until their leases end. */
async function leases(fixture: Fixture, key: string): Promise<Map<string, number>> {
  const found = await fixture.server.admin.zrangeBuffer(key, 0, '-1', 'WITHSCORES')
  const held = new Map<string, number>()
  for (let n = 0; n < found.length; n += 2) {
    const [member, score] = [found[n], String(found[n + 1])]
    assert(member)
    assert.equal(member.length, 16, 'a permit is 16 bytes')
    assert.match(score, /^\d+$/, 'a score is a whole number')
    held.set(member.toString('hex'), Number(score) - Date.now())
  }
  return held
}

/** Fails unless exactly these permits are held, each with about this lease. */
async function expectLeases(
  fixture: Fixture,
  key: string,
  expected: readonly (readonly [Permit, number])[],
): Promise<void> {
  const held = await leases(fixture, key)
  const ids = expected.flatMap(([permit]) => permit.permitIds)
  assert.deepEqual([...held.keys()].sort(), [...ids].sort())
  for (const [{ permitIds }, leaseMs] of expected) {
    for (const id of permitIds) {
      const left = held.get(id) ?? -1
      assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `${left} ms left, not about ${leaseMs}`)
    }
  }
}

async function run(fixture: Fixture, { script, keys, args }: ScriptCall): Promise<unknown> {
  return await fixture.server.admin.eval(script.text, keys.length, ...keys, ...args)
}

describe('the wire format of a permit-expirable semaphore', () => {
  const fixture = setUpFixture()

  for (const [name, tagged] of NAMES) {
    it(`permits named ${JSON.stringify(name)} are a string, a sorted set of 16-byte ids, and the semaphore’s messages`, async () => {
      const key = `${tagged}:timeout`
      const semaphore = (await fixture.connect()).getPermitExpirableSemaphore(name)
      const messages = await recordMessages(fixture)
      const expectPermits = async (available: number, held: readonly (readonly [Permit, number])[]) => {
        await repliesForgotten(fixture)
        const expected = held.length > 0 ? [name, key] : [name]
        assert.deepEqual((await fixture.server.admin.keys('*')).sort(), expected.sort())
        assert.equal(await fixture.server.admin.get(name), String(available))
        for (const each of expected) assert.equal(await fixture.server.admin.pttl(each), -1, `${each} has no TTL`)
        await expectLeases(fixture, key, held)
      }
      await semaphore.trySetPermits(4)
      await expectPermits(4, [])
      const permit = await semaphore.acquire()
      await expectPermits(3, [[permit, WATCHDOG_MS]])
      const pair = await semaphore.acquire({ permits: 2, leaseTimeMs: 90_000 })
      const held = [[permit, WATCHDOG_MS] as const, [pair, 90_000] as const]
      await expectPermits(1, held)
      assert.equal(await semaphore.tryAcquire({ permits: 2 }), null)
      await expectPermits(1, held)
      await semaphore.addPermits(2)
      await expectPermits(3, held)
      await semaphore.reducePermits(1)
      await expectPermits(2, held)
      await semaphore.setPermits(3)
      await expectPermits(0, held)
      await semaphore.setPermits(3)
      await semaphore.setPermits(6)
      await expectPermits(3, held)
      await semaphore.updateLeaseTime(permit.permitIds[0] ?? '', 60_000)
      await expectPermits(3, [
        [permit, 60_000],
        [pair, 90_000],
      ])
      await semaphore.release(permit.permitIds[0] ?? '')
      await expectPermits(4, [[pair, 90_000]])
      await semaphore.release(pair.permitIds)
      await expectPermits(6, [])
      await semaphore.delete()
      await expectOnly(fixture, {})
      const expected = ['4', '3', '3', '4', '6'].map((available) => [`redisson_sc:${tagged}`, available])
      assert.deepEqual(await messages(), expected)
      await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST' })
    })
  }

  it('the sorted set of permits gets the TTL of the semaphore, as in Redisson', async () => {
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('order')
    await fixture.server.admin.set('order', 2, 'PX', 60_000)
    const permit = await semaphore.acquire()
    const ttls = [await fixture.server.admin.pttl('order'), await fixture.server.admin.pttl('{order}:timeout')]
    for (const ttl of ttls) assert(ttl > 56_000 && ttl <= 60_000, `${ttl} ms`)
    await permit.unlock()
    assert.equal(await fixture.server.admin.get('order'), '2')
    await semaphore.delete()
  })

  it('a renewal of a permit is a later score in whole ms, never an earlier one', async () => {
    const semaphore = (await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })).getPermitExpirableSemaphore('order')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2 })
    const first = Math.max(...(await leases(fixture, '{order}:timeout')).values()) + Date.now()
    await waitUntil(
      async () => Math.min(...(await leases(fixture, '{order}:timeout')).values()) + Date.now() > first + 100,
    )
    const [id = '', other = ''] = permit.permitIds
    await semaphore.updateLeaseTime(id, 60_000)
    const endsAt = Number(await fixture.server.admin.zscore('{order}:timeout', Buffer.from(other, 'hex')))
    await waitUntil(
      async () => Number(await fixture.server.admin.zscore('{order}:timeout', Buffer.from(other, 'hex'))) > endsAt,
    )
    await expectLease(id, 60_000)
    await permit.unlock()
    await semaphore.delete()

    async function expectLease(permitId: string, leaseMs: number): Promise<void> {
      const left = (await leases(fixture, '{order}:timeout')).get(permitId) ?? -1
      assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `${left} ms`)
    }
  })

  it('an ended lease adds one permit and a message, whichever request comes first', async () => {
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('order')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2, leaseTimeMs: 50 })
    const messages = await recordMessages(fixture)
    await waitUntil(() => permit.signal.aborted)
    await waitUntil(async () => [...(await leases(fixture, '{order}:timeout')).values()].every((left) => left < -5))
    await expectLeasesStay()
    assert.equal(await semaphore.availablePermits(), 2)
    await expectOnly(fixture, { order: { string: '2' } })
    assert.deepEqual(await messages(), [['redisson_sc:{order}', '2']])
    await semaphore.delete()

    async function expectLeasesStay(): Promise<void> {
      assert.deepEqual([...(await leases(fixture, '{order}:timeout')).keys()].sort(), [...permit.permitIds].sort())
    }
  })

  it('the number of permits is right when an acquire arrives twice, even after some were released', async () => {
    const { admin } = fixture.server
    const ids = ['1'.repeat(32), '2'.repeat(32), '3'.repeat(32)]
    const acquire = permitAcquire('order', '{order}:timeout', WATCHDOG_MS, 'redisson_sc:{order}', ids)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('order')
    for (const released of [[], [ids[0]], [ids[2]], [ids[0], ids[1]]] as string[][]) {
      await admin.set('order', '6')
      assert.equal(await run(fixture, acquire), null)
      for (const id of released) await other.release(id)
      assert.equal(await run(fixture, acquire), null)
      assert.equal(await other.getPermits(), 6, `released: ${released.length}`)
      for (const id of ids) await other.tryRelease(id)
      assert.equal(await other.getPermits(), 6)
      assert.equal(await other.availablePermits(), 6)
      await other.delete()
    }
  })

  for (const name of ['order', '{shop}:order']) {
    const key = name === 'order' ? '{order}:timeout' : '{shop}:order:timeout'

    it(`permits keep a Redisson twin out, and wake it within 100 ms, released as a hold or by ids: ${name}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del(name, key))
      const semaphore = (await fixture.connect()).getPermitExpirableSemaphore(name)
      const peer = await openSynchronizerTwin(fixture)
      await semaphore.trySetPermits(2)
      for (const release of [
        (permit: Permit) => permit.unlock(),
        (permit: Permit) => semaphore.release(permit.permitIds),
      ]) {
        const permit = await semaphore.acquire({ permits: 2, leaseTimeMs: 60_000 })
        const endsAt = await peer.tryAcquirePermits(name, 1, WATCHDOG_MS)
        assert(typeof endsAt === 'number', 'the reply says when the lease ends')
        assert(Math.abs(endsAt - Date.now() - 60_000) < 4_000)
        const waiting = [peer.acquirePermits(name, 1, WATCHDOG_MS), peer.acquirePermits(name, 1, WATCHDOG_MS)]
        await waitUntil(() => peer.sleeping === 2)
        await repliesForgotten(fixture)
        const releasedAt = performance.now()
        await release(permit)
        const [first, second] = await Promise.all(waiting)
        assert(performance.now() - releasedAt < 100, 'woken')
        assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [0, 2])
        for (const ids of [first, second]) assert.equal(await semaphore.tryRelease(ids?.[0] ?? ''), true)
        assert.equal(await semaphore.availablePermits(), 2)
        await permit.unlock().catch(() => {})
      }
    })

    it(`permits are refused by a Redisson twin, and woken by it within 100 ms: ${name}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del(name, key))
      const semaphore = (await fixture.connect()).getPermitExpirableSemaphore(name)
      const peer = await openSynchronizerTwin(fixture)
      await peer.trySetPermits(name, 1)
      const ids = (await peer.tryAcquirePermits(name, 1, -1)) as string[]
      const [id = ''] = ids
      assert.equal(await semaphore.tryAcquire(), null)
      assert.equal(await semaphore.getLeaseTime(id), Number.POSITIVE_INFINITY)
      assert.equal(await fixture.server.admin.zscore(key, Buffer.from(id, 'hex')), String(NEVER))
      const waiting = semaphore.acquire()
      await listening(fixture)
      await repliesForgotten(fixture)
      const releasedAt = performance.now()
      assert.equal(await peer.releasePermit(name, id), true)
      const permit = await waiting
      assert(performance.now() - releasedAt < 100, 'woken, not polling')
      await expectLeases(fixture, key, [[permit, WATCHDOG_MS]])
      assert.equal(await peer.releasePermit(name, permit.permitIds[0] ?? ''), true)
      await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      assert.equal(await fixture.server.admin.get(name), '1')
    })
  }

  it('Holdfast and a Redisson twin each get the permits that the other let expire', async () => {
    fixture.onEnd(() => fixture.server.admin.del('order', '{order}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('order')
    const peer = await openSynchronizerTwin(fixture)
    await semaphore.trySetPermits(1)
    await peer.tryAcquirePermits('order', 1, 300)
    const permit = await semaphore.acquire({ leaseTimeMs: 300, waitTimeMs: 3_000 })
    const ids = await peer.acquirePermits('order', 1, WATCHDOG_MS)
    assert.equal(permit.signal.aborted, true)
    assert.deepEqual([...(await leases(fixture, '{order}:timeout')).keys()], ids)
    assert.equal(await peer.releasePermit('order', ids[0] ?? ''), true)
    assert.equal(await semaphore.getPermits(), 1)
  })
})
