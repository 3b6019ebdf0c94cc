/** A copy of a command may arrive long after its reply. It names a holder, who must not have been granted the lock again. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { LateCopies } from '../../src/delivery/late-copies.js'
import type { Scripts } from '../../src/delivery/scripts.js'
import { type BaseLock, type Client, getRedLock, type Hold, type Lock } from '../../src/index.js'
import { knownScript } from '../../src/testing/memory-redis.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import { type Kind, kinds } from '../support/kinds.js'

let fixture: ClientFixture
/** Every command that a client has sent and that takes nothing. */
let copies: (readonly string[])[]

beforeEach(() => {
  fixture = new ClientFixture({})
  copies = []
  for (const port of [fixture.port, fixture.otherPort]) {
    const send = port.send.bind(port)
    port.send = (command, key) => {
      const name = knownScript(command[1] ?? '')?.script.name ?? ''
      if (name.includes('/') && !name.includes('acquire')) copies.push(command)
      return send(command, key)
    }
  }
})

afterEach(() => fixture.close())

function deliverCopies(): void {
  for (const command of copies) fixture.redis.execute(command)
}

type Traits = Partial<Pick<Kind, 'isReentrant' | 'isJoint' | 'isAdoptable' | 'isShared'>>
type NamedLock = Traits & { readonly name: string; lock(client: Client): BaseLock }

const LOCKS: readonly NamedLock[] = [
  ...kinds.map((kind) => ({ ...kind, lock: (client: Client) => kind.lock(client, 'a') })),
  {
    name: 'red lock',
    isJoint: true,
    lock: (client) => getRedLock(...['a', 'b', 'c'].map((name) => client.getLock(name))),
  },
]

const take = async (lock: BaseLock, options = {}): Promise<Hold> => await fixture.clock.until(lock.lock(options))

interface End {
  readonly title: string
  readonly isFor?: (lock: NamedLock) => boolean
  /** Takes the lock, or waits for it, as a scope does, until that has ended. */
  run(lock: BaseLock, ofOther: BaseLock): Promise<void>
}

const ENDS: readonly End[] = [
  {
    title: 'its unlock()',
    async run(lock) {
      await (await take(lock)).unlock()
    },
  },
  {
    title: 'the unlock() of a hold and of one that re-entered it',
    isFor: ({ isReentrant, isJoint }) => isReentrant === true && !isJoint,
    async run(lock) {
      const holds = [await take(lock), await take(lock)]
      for (const hold of holds) await hold.unlock()
    },
  },
  {
    title: 'an unlock() without a reply',
    async run(lock) {
      const hold = await take(lock)
      fixture.port.fault = ({ name }) => (/\/release/.test(name) ? { failsWith: 'Connection is closed' } : undefined)
      const unlocking = hold.unlock()
      await turn()
      fixture.port.fault = () => undefined
      await fixture.clock.until(unlocking)
    },
  },
  {
    title: 'the loss of all data',
    async run(lock) {
      const hold = await take(lock)
      fixture.redis.flush()
      await assert.rejects(fixture.clock.until(hold.unlock()), { code: 'LOCK_LEASE_LOST' })
    },
  },
  {
    title: 'the end of its lease, and unlock()',
    async run(lock) {
      const hold = await take(lock, { leaseTimeMs: 1_000 })
      await fixture.clock.advance(1_000)
      await assert.rejects(hold.unlock(), { reason: 'expired' })
    },
  },
  {
    title: 'the end of maxHoldMs, and unlock()',
    async run(lock) {
      const hold = await take(lock, { maxHoldMs: 1_000 })
      await fixture.clock.advance(1_000)
      await assert.rejects(hold.unlock(), { reason: 'maxHold' })
    },
  },
  {
    title: 'handOver()',
    isFor: ({ isAdoptable }) => isAdoptable === true,
    async run(lock, ofOther) {
      const holder = (await take(lock)).handOver()
      const adopted = await (ofOther as Lock).adopt(holder)
      await adopted.unlock()
    },
  },
  {
    title: 'its unlock() while an operator was breaking it',
    isFor: ({ name, isJoint }) => !isJoint && !/values/.test(name),
    async run(lock, ofOther) {
      const hold = await take(lock)
      fixture.otherPort.fault = ({ name }) => (/\/release/.test(name) ? { lost: 'request' } : undefined)
      const { holder } = hold
      const options = { holder, graceMs: 0, anyway: true }
      const breaking = (ofOther as Lock).forceUnlock(options)
      breaking.catch(() => {})
      while (!fixture.otherPort.sent.some(({ name }) => /\/release/.test(name))) await fixture.clock.advance(100)
      fixture.otherPort.fault = () => undefined
      await hold.unlock()
    },
  },
  {
    title: 'forceUnlock()',
    isFor: ({ isJoint }) => !isJoint,
    async run(lock, ofOther) {
      const hold = await take(lock)
      assert.equal(await fixture.clock.until((ofOther as Lock).forceUnlock()), true)
      await assert.rejects(fixture.clock.until(hold.unlock()), { code: 'LOCK_LEASE_LOST' })
    },
  },
  {
    title: 'an aborted wait',
    isFor: ({ isShared }) => !isShared,
    async run(lock, ofOther) {
      const other = await take(ofOther)
      const abort = new AbortController()
      const waiting = lock.lock({ signal: abort.signal })
      await fixture.clock.advance(100)
      abort.abort(new Error('enough'))
      await assert.rejects(waiting, /enough/)
      await other.unlock()
      await fixture.clock.advance(1_000)
    },
  },
  {
    title: 'a wait in vain',
    isFor: ({ isShared }) => !isShared,
    async run(lock, ofOther) {
      const other = await take(ofOther)
      assert.equal(await fixture.clock.until(lock.tryLock({ waitTimeMs: 100 })), null)
      await other.unlock()
    },
  },
]

for (const { title, isFor, run } of ENDS) {
  describe(`what a scope has taken again after ${title} is not freed by copies of earlier commands`, () => {
    for (const named of LOCKS.filter((lock) => isFor?.(lock) ?? true)) {
      it(`what a scope took again after ${title} is not freed by earlier commands: a ${named.name}`, async () => {
        const [lock, ofOther] = [fixture.client, fixture.other].map((client) => named.lock(client)) as [
          BaseLock,
          BaseLock,
        ]
        await fixture.client.runInScope(async () => {
          await run(lock, ofOther)
          const hold = await take(lock)
          deliverCopies()
          for (const member of hold.members) assert.equal(await member.isHeld(), true)
          await hold.unlock()
        })
        fixture.redis.execute(['DEL', 'redisson_lock_token:{a}'])
      })
    }
  })
}

it('a lock is released once more when no copy can take it any more, however short its lease was', async () => {
  const { clock, port, lock } = fixture
  port.once('lock/acquire', { lost: 'reply' })
  const sentAt = clock.now()
  await assert.rejects(clock.until(lock.tryLock({ leaseTimeMs: 100 })), { code: 'LOCK_OUTCOME_UNKNOWN' })
  await clock.advance(20_000)
  const last = (port.sent.filter(({ name }) => name.startsWith('lock/release')).at(-1)?.at ?? 0) - sentAt
  const { lateAfterMs } = lock.context.scripts
  assert(last >= lateAfterMs && last <= lateAfterMs + 1_000, `last released after ${last} ms`)
})

describe('copies of the commands that take a lock', () => {
  const LATE_MS = 4_000
  let scripts: { reconnects: number; lateAfterMs: number }
  let late: LateCopies

  beforeEach(() => {
    scripts = { reconnects: 0, lateAfterMs: LATE_MS }
    late = new LateCopies({ clock: fixture.clock, scripts: scripts as Scripts })
  })

  it('copies of a command may arrive only if it got no reply, and only until it is too late', async () => {
    const { clock } = fixture
    assert.equal(late.until, 0)
    const sentAt = clock.now()
    late.sending(sentAt)
    assert.equal(late.until, 0)
    late.isInDoubt = true
    assert.equal(late.until, sentAt + LATE_MS)
    await clock.advance(LATE_MS - 1)
    assert.equal(late.until, sentAt + LATE_MS)
    await clock.advance(1)
    assert.equal(late.until, 0)
  })

  it('copies of a command may arrive after a reconnect, until those sent after that are too late', async () => {
    const { clock } = fixture
    late.sending(clock.now())
    scripts.reconnects++
    await clock.advance(LATE_MS - 1)
    late.sending(clock.now())
    assert.equal(late.until, clock.now() + LATE_MS, 'also of the first')
    await clock.advance(LATE_MS)
    late.sending(clock.now())
    assert.equal(late.until, 0, 'the connection of the last is the same')
  })
})
