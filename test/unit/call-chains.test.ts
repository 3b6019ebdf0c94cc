/** What a call chain is inside of: holds to re-enter, scopes that own what is taken next, and nothing that has ended. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Hold } from '../../src/index.js'
import { around } from '../../src/locks/call-chain.js'
import type { LeaseContext } from '../../src/locks/lease.js'
import { currentScope, holdsAround, isInsideOf } from '../../src/locks/ownership.js'
import { ClientBench } from '../support/fakes/client-bench.js'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({})
})

afterEach(() => bench.close())

const contextOf = (hold: Hold): LeaseContext => hold.lease.context as LeaseContext
const namesOf = (holds: readonly Hold[] = []): string[] => holds.map(({ lockName }) => lockName)

describe('a call inside withLock()', () => {
  it('re-enters its hold and no other lock, nor the lock of that name of another client', async () => {
    await bench.lock.withLock(async (outer) => {
      const other = await bench.client.getLock('b').lock()
      assert.deepEqual([other.lockName, other.count], ['b', 1])
      await other.unlock()
      assert.equal(await bench.other.getLock('a').tryLock(), null)
      const again = await bench.lock.lock()
      assert.deepEqual([again.holder, again.count], [outer.holder, 2])
      await again.unlock()
    })
  })

  it('is inside every hold and scope around it', async () => {
    await bench.lock.withLock(async (outer) => {
      await bench.client.getLock('b').withLock(async (inner) => {
        assert.deepEqual(
          [outer, inner].map((hold) => isInsideOf(hold.members[0] as Hold)),
          [true, true],
        )
        await bench.client.runInScope(async () => assert.equal(await bench.lock.getHoldCount(), 1))
      })
    })
    const hold = await bench.lock.lock()
    await bench.client.getLock('b').withLock(() => assert.equal(isInsideOf(hold.members[0] as Hold), false))
    await hold.unlock()
  })

  it('finds the scope around it, which owns what it takes', async () => {
    await bench.client.runInScope(async () => {
      const first = await bench.lock.lock()
      await bench.client.getLock('b').withLock(async () => {
        const second = await bench.client.getLock('c').lock()
        assert.equal(second.ownerId, first.ownerId)
        await bench.client.getLock('c').unlock()
      })
      await bench.lock.unlock()
    })
  })

  it('re-enters what a scope around it still holds, although the scope has released another lock', async () => {
    const [b, c] = [bench.client.getLock('b'), bench.client.getLock('c')]
    await bench.client.runInScope(async () => {
      const [ended, held] = [await bench.lock.lock(), await b.lock()]
      await ended.unlock()
      await bench.client.runInScope(async () => {
        await c.withLock(async () => {
          const again = await b.tryLock()
          assert.deepEqual([again?.holder, again?.count], [held.holder, 2])
          await again?.unlock()
        })
      })
      await b.unlock()
    })
  })

  it('of another client has no owner of this one, unless it is inside a scope or a hold of this one, too', async () => {
    const lock = bench.other.getLock('a')
    const needsOwner = { code: 'LOCK_NOT_HELD', message: /needs a current owner/ }
    await lock.withLock(async () => await assert.rejects(bench.lock.getHoldCount(), needsOwner))
    await bench.other.runInScope(async () => await assert.rejects(bench.lock.getHoldCount(), needsOwner))
    await bench.client.runInScope(async () => {
      await lock.withLock(async () => assert.equal(await bench.lock.getHoldCount(), 0))
      await bench.other.runInScope(async () => {
        const hold = await bench.lock.lock()
        assert.equal(await bench.lock.getHoldCount(), 1)
        assert.equal(currentScope(contextOf(hold))?.holds.at(-1), hold.members[0])
        await bench.lock.unlock()
      })
    })
    await getMultiLock(bench.lock, bench.other.getLock('b')).withLock(async () => {
      assert.equal(await bench.lock.getHoldCount(), 1)
      assert.equal(await bench.other.getLock('b').getHoldCount(), 1)
    })
  })
})

describe('a scope', () => {
  it('continues with one new owner for all its locks after a loss', async () => {
    await bench.client.runInScope(async () => {
      const lost = await bench.lock.lock({ leaseTimeMs: 1_000 })
      await bench.clock.advance(1_001)
      const holds = [await bench.lock.lock(), await bench.client.getLock('b').lock()]
      for (const { ownerId } of holds) assert.equal(ownerId, (holds[0] as Hold).ownerId)
      assert.notEqual(holds[0]?.ownerId, lost.ownerId)
      for (const hold of holds) await hold.unlock()
    })
  })

  it('knows what it holds, and forgets what it has released', async () => {
    await bench.client.runInScope(async () => {
      const [a, b, c] = [await bench.lock.lock(), await bench.client.getLock('b').lock(), await take('c')]
      await a.unlock()
      await b.unlock()
      assert.deepEqual(namesOf(holdsAround(contextOf(c))), ['c'])
      const d = await take('d')
      assert.deepEqual(namesOf(currentScope(contextOf(d))?.holds), ['c', 'd'])
      for (const name of ['c', 'd']) await bench.client.getLock(name).unlock()
    })
    async function take(name: string): Promise<Hold> {
      return await bench.client.getLock(name).lock()
    }
  })
})

describe('a loop that starts its next round inside the previous one', () => {
  /** How many holds and scopes each round is inside of. */
  let depths: number[]

  beforeEach(() => {
    depths = []
  })

  it('is inside of its own round only, if each takes a lock and the previous one has released it', async () => {
    const round = async (left: number): Promise<void> => {
      let next: Promise<void> | undefined
      await bench.lock.withLock(() => {
        depths.push(around().length)
        if (left > 0) next = bench.pause(1).then(() => round(left - 1))
      })
      await next
    }
    await bench.clock.until(round(4))
    assert.deepEqual(depths, [1, 1, 1, 1, 1])
  })

  it('is inside of the innermost scope of each client only, if the rounds are scopes', async () => {
    const clients = [bench.client, bench.other]
    const round = async (left: number, of: typeof clients): Promise<void> => {
      await of[left % of.length]?.runInScope(async () => {
        depths.push(around().length)
        if (left > 0) await round(left - 1, of)
      })
    }
    await round(4, [bench.client])
    assert.deepEqual(depths, [1, 1, 1, 1, 1])
    depths = []
    await round(4, clients)
    assert.deepEqual(depths, [1, 2, 2, 2, 2])
  })

  it('leaves an outer scope when what that scope held is released', async () => {
    await bench.client.runInScope(async () => {
      const hold = await bench.lock.lock()
      await bench.client.runInScope(async () => {
        await bench.client.getLock('b').withLock(() => depths.push(around().length))
        await hold.unlock()
        await bench.client.getLock('b').withLock(() => depths.push(around().length))
      })
    })
    assert.deepEqual(depths, [3, 2])
  })
})

describe('a client with implicitReentry: false', () => {
  it('re-enters by `within` only, has no current owner, and sees no self-deadlock', async () => {
    const { client } = bench.connect({ implicitReentry: false })
    const lock = client.getLock('a')
    await lock.withLock(async (hold) => {
      assert.equal(await lock.tryLock(), null)
      await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD', message: /needs a current owner/ })
      assert.deepEqual(holdsAround(contextOf(hold)), [])
      await lock.withLock({ within: hold }, (inner) => assert.deepEqual([inner.holder, inner.count], [hold.holder, 2]))
    })
    const strict = client.getNonReentrantLock('b')
    await strict.withLock(async () => assert.equal(await strict.tryLock(), null))
  })
})
