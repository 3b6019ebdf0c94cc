/** What a call chain is inside of: holds to re-enter, scopes that own what is taken next, and nothing that has ended. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Hold } from '../../src/index.js'
import { around } from '../../src/locks/call-chain.js'
import type { LeaseContext } from '../../src/locks/lease.js'
import { currentScope, holdsAround, isInsideOf } from '../../src/locks/ownership.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({})
})

afterEach(() => fixture.close())

const contextOf = (hold: Hold): LeaseContext => hold.lease.context as LeaseContext
const namesOf = (holds: readonly Hold[] = []): string[] => holds.map(({ lockName }) => lockName)

describe('a call inside withLock()', () => {
  it("a call inside withLock() re-enters its hold, and no other lock or other client's lock", async () => {
    await fixture.lock.withLock(async (outer) => {
      const other = await fixture.client.getLock('b').lock()
      assert.deepEqual([other.lockName, other.count], ['b', 1])
      await other.unlock()
      assert.equal(await fixture.other.getLock('a').tryLock(), null)
      const again = await fixture.lock.lock()
      assert.deepEqual([again.holder, again.count], [outer.holder, 2])
      await again.unlock()
    })
  })

  it('a call inside withLock() is inside every hold and scope around it', async () => {
    await fixture.lock.withLock(async (outer) => {
      await fixture.client.getLock('b').withLock(async (inner) => {
        assert.deepEqual(
          [outer, inner].map((hold) => isInsideOf(hold.members[0] as Hold)),
          [true, true],
        )
        await fixture.client.runInScope(async () => assert.equal(await fixture.lock.getHoldCount(), 1))
      })
    })
    const hold = await fixture.lock.lock()
    await fixture.client.getLock('b').withLock(() => assert.equal(isInsideOf(hold.members[0] as Hold), false))
    await hold.unlock()
  })

  it('a call inside withLock() finds the scope around it, which owns what it takes', async () => {
    await fixture.client.runInScope(async () => {
      const first = await fixture.lock.lock()
      await fixture.client.getLock('b').withLock(async () => {
        const second = await fixture.client.getLock('c').lock()
        assert.equal(second.ownerId, first.ownerId)
        await fixture.client.getLock('c').unlock()
      })
      await fixture.lock.unlock()
    })
  })

  it('a call inside withLock() re-enters what a scope around it still holds after another release', async () => {
    const [b, c] = [fixture.client.getLock('b'), fixture.client.getLock('c')]
    await fixture.client.runInScope(async () => {
      const [ended, held] = [await fixture.lock.lock(), await b.lock()]
      await ended.unlock()
      await fixture.client.runInScope(async () => {
        await c.withLock(async () => {
          const again = await b.tryLock()
          assert.deepEqual([again?.holder, again?.count], [held.holder, 2])
          await again?.unlock()
        })
      })
      await b.unlock()
    })
  })

  it('a call in withLock() of another client has no owner of this one, unless in its scope or hold', async () => {
    const lock = fixture.other.getLock('a')
    const needsOwner = { code: 'LOCK_NOT_HELD', message: /needs a current owner/ }
    await lock.withLock(async () => await assert.rejects(fixture.lock.getHoldCount(), needsOwner))
    await fixture.other.runInScope(async () => await assert.rejects(fixture.lock.getHoldCount(), needsOwner))
    await fixture.client.runInScope(async () => {
      await lock.withLock(async () => assert.equal(await fixture.lock.getHoldCount(), 0))
      await fixture.other.runInScope(async () => {
        const hold = await fixture.lock.lock()
        assert.equal(await fixture.lock.getHoldCount(), 1)
        assert.equal(currentScope(contextOf(hold))?.holds.at(-1), hold.members[0])
        await fixture.lock.unlock()
      })
    })
    await getMultiLock(fixture.lock, fixture.other.getLock('b')).withLock(async () => {
      assert.equal(await fixture.lock.getHoldCount(), 1)
      assert.equal(await fixture.other.getLock('b').getHoldCount(), 1)
      assert.deepEqual(namesOf(holdsAround(fixture.lock.context)), ['a', 'b'])
    })
  })
})

describe('a scope', () => {
  it('a scope continues with one new owner for all its locks after a loss', async () => {
    await fixture.client.runInScope(async () => {
      const lost = await fixture.lock.lock({ leaseTimeMs: 1_000 })
      await fixture.clock.advance(1_001)
      const holds = [await fixture.lock.lock(), await fixture.client.getLock('b').lock()]
      for (const { ownerId } of holds) assert.equal(ownerId, (holds[0] as Hold).ownerId)
      assert.notEqual(holds[0]?.ownerId, lost.ownerId)
      for (const hold of holds) await hold.unlock()
    })
  })

  it('a scope knows what it holds, and forgets what it has released', async () => {
    await fixture.client.runInScope(async () => {
      const [a, b, c] = [await fixture.lock.lock(), await fixture.client.getLock('b').lock(), await take('c')]
      await a.unlock()
      await b.unlock()
      assert.deepEqual(namesOf(holdsAround(contextOf(c))), ['c'])
      const d = await take('d')
      assert.deepEqual(namesOf(currentScope(contextOf(d))?.holds), ['c', 'd'])
      for (const name of ['c', 'd']) await fixture.client.getLock(name).unlock()
    })
    async function take(name: string): Promise<Hold> {
      return await fixture.client.getLock(name).lock()
    }
  })
})

describe('a loop that starts its next round inside the previous one', () => {
  /** How many holds and scopes each round is inside of. */
  let depths: number[]

  beforeEach(() => {
    depths = []
  })

  it('a round inside the previous one is inside its own only, once the previous has released its lock', async () => {
    const round = async (left: number): Promise<void> => {
      let next: Promise<void> | undefined
      await fixture.lock.withLock(() => {
        depths.push(around().length)
        if (left > 0) next = fixture.pause(1).then(() => round(left - 1))
      })
      await next
    }
    await fixture.clock.until(round(4))
    assert.deepEqual(depths, [1, 1, 1, 1, 1])
  })

  it('a round of nested scopes is inside the innermost scope of each client only', async () => {
    const clients = [fixture.client, fixture.other]
    const round = async (left: number, of: typeof clients): Promise<void> => {
      await of[left % of.length]?.runInScope(async () => {
        depths.push(around().length)
        if (left > 0) await round(left - 1, of)
      })
    }
    await round(4, [fixture.client])
    assert.deepEqual(depths, [1, 1, 1, 1, 1])
    depths = []
    await round(4, clients)
    assert.deepEqual(depths, [1, 2, 2, 2, 2])
  })

  it('a loop of nested rounds leaves an outer scope when what that scope held is released', async () => {
    await fixture.client.runInScope(async () => {
      const hold = await fixture.lock.lock()
      await fixture.client.runInScope(async () => {
        await fixture.client.getLock('b').withLock(() => depths.push(around().length))
        await hold.unlock()
        await fixture.client.getLock('b').withLock(() => depths.push(around().length))
      })
    })
    assert.deepEqual(depths, [3, 2])
  })
})

describe('a client with implicitReentry: false', () => {
  it('a client with implicitReentry: false re-enters by `within` only, and sees no self-deadlock', async () => {
    const { client } = fixture.connect({ implicitReentry: false })
    const lock = client.getLock('a')
    await lock.withLock(async (hold) => {
      assert.equal(await lock.tryLock(), null)
      await assert.rejects(lock.unlock(), {
        code: 'LOCK_NOT_HELD',
        message:
          /needs a current owner, and with implicitReentry: false there is none: use hold\.unlock\(\) of the hold that/,
      })
      assert.deepEqual(holdsAround(contextOf(hold)), [])
      await lock.withLock({ within: hold }, (inner) => assert.deepEqual([inner.holder, inner.count], [hold.holder, 2]))
    })
    const strict = client.getNonReentrantLock('b')
    await strict.withLock(async () => assert.equal(await strict.tryLock(), null))
  })
})
