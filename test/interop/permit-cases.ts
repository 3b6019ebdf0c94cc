import assert from 'node:assert/strict'
import { once } from 'node:events'
import { LeaseLostError, NotHeldError } from '../../src/index.js'
import { assertInTime } from '../support/wait-until.js'
import { WATCHDOG_MS } from './backend.js'
import { isBefore } from './kinds.js'
import { int, type JavaArgument, JavaError, long, MILLISECONDS, text, texts } from './redisson.js'
import type { SemaphoreCase } from './semaphore-steps.js'
import { PERMITS, type SemaphoreFixture } from './semaphores.js'
import { becomes, comesAtEndOfLease, endsIn, onePattern, PROMPT_MS, soon } from './steps.js'

const KINDS = [PERMITS]
/** Longer than it takes until all are ready for the death that they wait for. */
const MORTAL_LEASE_MS = 10_000
const ID = /^[\da-f]{32}$/

/** What is only about permits with ids and leases. */
export const PERMIT_CASES: readonly SemaphoreCase[] = [
  {
    id: 'ids',
    title: 'an id is 32 hexadecimal digits on both sides and 16 bytes in Redis; each side releases ids of the other',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 5)
      const ofJava = (await pool.inJava('acquire', int(3))) as string[]
      const inNode = await pool.node.acquire({ permits: 2 })
      const all = [...ofJava, ...inNode.permitIds]
      assert.ok(all.every((id) => ID.test(id)) && new Set(all).size === 5, all.join())
      assert.deepEqual(await idsInRedis(fixture), all.toSorted())
      await pool.node.release(ofJava)
      await pool.sees({ available: 3, acquired: 2 })
      await pool.inJava('release', texts(inNode.permitIds))
      await pool.sees({ available: 5, acquired: 0 })
      await soon(lost(inNode.signal), WATCHDOG_MS / 3 + PROMPT_MS)

      const one = await pool.node.acquire()
      await pool.inJava('release', text(one.permitIds[0] ?? ''))
      await assert.rejects(one.unlock(), LeaseLostError)
      await pool.end()
      return undefined
    },
  },
  {
    id: 'released-twice',
    title: 'a permit released by one side, or never acquired, cannot be released by the other',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 2)
      const ofJava = String(await pool.inJava('acquire'))
      const ofNode = await pool.node.acquire()
      const [id = ''] = ofNode.permitIds
      await pool.inJava('release', text(ofJava))
      await ofNode.unlock()
      for (const gone of [ofJava, id, '0123456789abcdef'.repeat(2)]) {
        await assert.rejects(pool.node.release(gone), NotHeldError)
        assert.equal(await pool.node.tryRelease(gone), false)
        await assert.rejects(pool.inJava('release', text(gone)), isUnknownPermit)
        assert.equal(await pool.inJava('tryRelease', text(gone)), false)
        await pool.sees({ available: 2, acquired: 0 })
      }
      await pool.end()
      return undefined
    },
  },
  {
    id: 'by-ids',
    title: 'several permits that Node releases by their ids come all at once to a waiter of either side, or none does',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 3)
      const ofNode = await pool.node.acquire({ permits: 3 })
      const inJava = pool.inJava('acquire', int(3))
      await fixture.hasWaiters(1)
      await assert.rejects(pool.node.release([...ofNode.permitIds, '0'.repeat(32)]), NotHeldError)
      await pool.sees({ available: 0, acquired: 3 })
      await pool.node.release(ofNode.permitIds)
      const ofJava = (await soon(inJava, PROMPT_MS)) as string[]
      await assert.rejects(ofNode.unlock(), LeaseLostError)
      const inNode = pool.node.acquire({ permits: 3 })
      await fixture.hasWaiters(1)
      await pool.node.release(ofJava)
      await assert.rejects(pool.inJava('release', texts(ofJava)), isUnknownPermit)
      await (await soon(inNode, PROMPT_MS)).unlock()
      await pool.end()
      return undefined
    },
  },
  {
    id: 'totals',
    title: 'both sides agree on free, held and total permits, even with more held than the new total',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 3)
      const ofJava = String(await pool.inJava('acquire'))
      await pool.sees({ available: 2, acquired: 1 })
      const ofNode = await pool.node.acquire({ permits: 2 })
      await pool.sees({ available: 0, acquired: 3 })
      await pool.inJava('setPermits', int(1))
      await pool.sees({ available: -2, acquired: 3 })
      await ofNode.unlock()
      await pool.sees({ available: 0, acquired: 1 })
      assert.equal(await pool.node.tryAcquire(), null)
      await pool.node.setPermits(4)
      await pool.sees({ available: 3, acquired: 1 })
      await pool.node.release(ofJava)
      await pool.node.setPermits(2)
      await pool.sees({ available: 2, acquired: 0 })
      await pool.inJava('setPermits', int(5))
      await pool.sees({ available: 5, acquired: 0 })
      await pool.end()
      return undefined
    },
  },
  {
    id: 'set-permits',
    title: 'permits set by one side wake the other, even where there was no semaphore',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 0)
      const inNode = pool.node.acquire()
      await fixture.hasWaiters(1)
      await pool.inJava('setPermits', int(1))
      await (await soon(inNode, PROMPT_MS)).unlock()
      await pool.node.setPermits(0)
      const inJava = pool.inJava('acquire')
      await fixture.hasWaiters(1)
      await pool.node.setPermits(1)
      await pool.node.release(String(await soon(inJava, PROMPT_MS)))
      await pool.end()

      const first = pool.node.acquire()
      await fixture.hasWaiters(1)
      await pool.inJava('setPermits', int(1))
      await (await soon(first, PROMPT_MS)).unlock()
      await pool.end()
      const second = pool.inJava('acquire')
      await fixture.hasWaiters(1)
      await pool.node.setPermits(1)
      await pool.node.release(String(await soon(second, PROMPT_MS)))
      await pool.end()
      return undefined
    },
  },
  {
    id: 'java-lease',
    title: 'Node sees the lease of a Java permit and gets the permit when it ends; Java cannot release it then',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 1)
      const long20 = String(await pool.inJava('acquire', long(20_000), MILLISECONDS))
      isAbout(20_000, await pool.node.getLeaseTime(long20))
      await pool.node.release(long20)
      const id = String(await pool.inJava('acquire', long(700), MILLISECONDS))
      const permit = await endsIn(700, () => pool.node.acquire({ waitTimeMs: 5_000 }))
      assert.equal(await pool.inJava('tryRelease', text(id)), false)
      await assert.rejects(pool.node.getLeaseTime(id), NotHeldError)
      await pool.sees({ available: 0, acquired: 1 })
      await permit.unlock()
      await pool.end()
      return undefined
    },
  },
  {
    id: 'node-lease',
    title: 'the lease of a Node permit ends: Java gets the permit, and the hold in Node is lost',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 1)
      const permit = await pool.node.acquire({ leaseTimeMs: 700 })
      const id = await endsIn(700, () => pool.inJava('tryAcquire', long(5_000), long(60_000), MILLISECONDS))
      await assert.rejects(permit.unlock(), LeaseLostError)
      await pool.sees({ available: 0, acquired: 1 })
      await pool.inJava('release', text(String(id)))
      await pool.end()
      return undefined
    },
  },
  {
    id: 'lease-in-java',
    title: 'Java sees the lease of a Node permit, fixed or renewed',
    kinds: KINDS,
    notFor: (_, version) => (isBefore(version, '3.41.0') ? 'Redisson has getLeaseTime since 3.41' : undefined),
    async run(fixture) {
      const pool = await poolOf(fixture, 2)
      const leased = await pool.node.acquire({ leaseTimeMs: 20_000 })
      const watched = await pool.node.acquire()
      const leftOf = async ([id = '']: readonly string[]) => Number(await pool.inJava('getLeaseTime', text(id)))
      isAbout(20_000, await leftOf(leased.permitIds))
      isAbout(WATCHDOG_MS, await leftOf(watched.permitIds))
      await leased.unlock()
      await watched.unlock()
      await assert.rejects(leftOf(leased.permitIds), isUnknownPermit)
      await pool.end()
      return undefined
    },
  },
  {
    id: 'new-lease',
    title: 'each side changes the lease of a permit of the other: it ends sooner or later',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 1)
      const ofJava = String(await pool.inJava('acquire', long(20_000), MILLISECONDS))
      assert.equal(await pool.node.updateLeaseTime(ofJava, 40_000), true)
      isAbout(40_000, await pool.node.getLeaseTime(ofJava))
      assert.equal(await pool.node.updateLeaseTime(ofJava, 700), true)
      const ofNode = await endsIn(700, () => pool.node.acquire({ leaseTimeMs: 20_000 }))
      assert.equal(await pool.node.updateLeaseTime(ofJava, 700), false)
      assert.equal(await pool.inJava('updateLeaseTime', text(ofJava), long(700), MILLISECONDS), false)

      const [id = ''] = ofNode.permitIds
      assert.equal(await pool.inJava('updateLeaseTime', text(id), long(40_000), MILLISECONDS), true)
      isAbout(40_000, await pool.node.getLeaseTime(id))
      assert.equal(await pool.inJava('updateLeaseTime', text(id), long(700), MILLISECONDS), true)
      const next = String(await endsIn(700, () => pool.inJava('acquire', long(20_000), MILLISECONDS)))
      await assert.rejects(ofNode.unlock(), LeaseLostError)
      await pool.node.release(next)
      await pool.end()
      return undefined
    },
  },
  {
    id: 'endless',
    title: 'a Java permit without a lease never ends; Node sees that, waits, and is woken by its release',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 1)
      const id = String(await pool.inJava('acquire'))
      assert.equal(await pool.node.getLeaseTime(id), Number.POSITIVE_INFINITY)
      assert.equal(await pool.node.tryAcquire({ waitTimeMs: 500 }), null)
      const waiter = pool.node.acquire()
      await fixture.hasWaiters(1)
      await pool.inJava('release', text(id))
      await (await soon(waiter, PROMPT_MS)).unlock()

      // A permit that expires differs from one that does not.
      await pool.node.addPermits(1)
      const endless = String(await pool.inJava('acquire'))
      await pool.inJava('acquire', long(700), MILLISECONDS)
      const next = await endsIn(700, () => pool.node.acquire())
      assert.equal(await pool.node.getLeaseTime(endless), Number.POSITIVE_INFINITY)
      assert.equal(await pool.node.updateLeaseTime(endless, 20_000), true)
      isAbout(20_000, await pool.node.getLeaseTime(endless))
      await pool.node.release(endless)
      await next.unlock()
      await pool.end()
      return undefined
    },
  },
  {
    id: 'watchdog',
    title: 'Node permits without a lease are renewed after a third of it to the full, while those of Java only fall',
    kinds: KINDS,
    async run(fixture) {
      const pool = await poolOf(fixture, 3)
      const ofJava = String(await pool.inJava('acquire', long(MORTAL_LEASE_MS), MILLISECONDS))
      const permit = await pool.node.acquire({ permits: 2 })
      const patterns = permit.permitIds.map((id) => onePattern(() => pool.node.getLeaseTime(id)))
      const [note] = await Promise.all(patterns)
      const left = await pool.node.getLeaseTime(ofJava)
      assert.ok(left < MORTAL_LEASE_MS - 1.4 * WATCHDOG_MS, `${left} ms of ${MORTAL_LEASE_MS}`)
      await permit.unlock()
      await pool.inJava('release', text(ofJava))
      await pool.end()
      return note
    },
  },
  {
    id: 'java-dies',
    title:
      'the JVM is killed: Node gets its permit when the lease ends; one without a lease stays until it is released',
    kinds: KINDS,
    dies: 'jvm',
    async run(fixture) {
      const { doomedJvm } = fixture.site
      const pool = await poolOf(fixture, 2)
      const { redissons } = await doomedJvm.alive()
      const dying = await callsOf(fixture, redissons[0])
      const endless = String(await dying('acquire'))
      const id = String(await dying('acquire', long(MORTAL_LEASE_MS), MILLISECONDS))
      const waiter = pool.node.acquire()
      await fixture.hasWaiters(1)
      const left = () => pool.node.getLeaseTime(id)
      const { value, note } = await comesAtEndOfLease(() => doomedJvm.die(fixture), left, waiter)
      await value.unlock()
      await pool.sees({ available: 1, acquired: 1 })
      await pool.node.release(endless)
      await pool.end()
      return note
    },
  },
  {
    id: 'node-dies',
    title: 'the Node process is killed: Java gets its permit when the lease ends',
    kinds: KINDS,
    dies: 'node',
    async run(fixture) {
      const { doomedNode } = fixture.site
      const pool = await poolOf(fixture, 1)
      const child = await doomedNode.alive()
      child.send({ kind: fixture.kind.name, name: fixture.name })
      await child.nextMessage(({ held }) => held === fixture.name, 20_000)
      const [id = ''] = await idsInRedis(fixture)
      const waiter = pool.inJava('acquire')
      await fixture.hasWaiters(1)
      const left = () => pool.node.getLeaseTime(id)
      const { value, note } = await comesAtEndOfLease(() => doomedNode.die(fixture), left, waiter)
      await pool.inJava('release', text(String(value)))
      await pool.end()
      return note
    },
  },
]

/** A semaphore with permits that expire, as both sides have it. */
async function poolOf(fixture: SemaphoreFixture, permits: number) {
  const { site, name } = fixture
  const node = site.clients[0].getPermitExpirableSemaphore(name)
  const inJava = await callsOf(fixture, site.redissons[0])
  assert.equal(await node.trySetPermits(permits), true)
  return {
    node,
    /** Calls a method of the RPermitExpirableSemaphore. */
    inJava,
    /** Both sides see these numbers. */
    async sees({ available, acquired }: { available: number; acquired: number }) {
      const counts = [available, acquired, available + acquired]
      const methods = ['availablePermits', 'acquiredPermits', 'getPermits']
      const inNode = [await node.availablePermits(), await node.acquiredPermits(), await node.getPermits()]
      assert.deepEqual(inNode, counts)
      await becomes(async () => await Promise.all(methods.map((method) => inJava(method))), counts)
    },
    /** Nobody holds a permit, and the semaphore goes. */
    async end() {
      assert.deepEqual(await idsInRedis(fixture), [])
      assert.equal(await node.delete(), true)
    },
  }
}

async function callsOf({ name, threads }: SemaphoreFixture, redisson: SemaphoreFixture['site']['redissons'][0]) {
  const object = await redisson.get('getPermitExpirableSemaphore', text(name))
  return (method: string, ...args: JavaArgument[]) => threads.call(object, method, ...args)
}

/** The ids of the permits that are held, spelled from what is in Redis. */
async function idsInRedis({ backend, name }: SemaphoreFixture): Promise<string[]> {
  const members = await backend.admin.zrangeBuffer(`{${name}}:timeout`, '0', '-1')
  return members.map((member) => member.toString('hex')).sort()
}

/** Redisson wraps it in a RedisException. */
function isUnknownPermit(error: unknown): boolean {
  return error instanceof JavaError && /java\.lang\.IllegalArgumentException: Permits? with id/.test(error.message)
}

function isAbout(leaseMs: number, left: number): void {
  assertInTime(left > leaseMs - 1_500, `${left} ms of ${leaseMs}`)
  assert.ok(left <= leaseMs, `${left} ms of ${leaseMs}`)
}

async function lost(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
