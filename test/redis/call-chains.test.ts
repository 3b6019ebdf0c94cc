/** What a call chain keeps of the holds and scopes that it is in, and a client that follows no call chain. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Client, getMultiLock, type Hold } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep, waitUntil } from '../support/wait-until.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

describe('a loop that starts its next round inside the previous one', () => {
  const fixture = setUpFixture()

  /** Runs the rounds, and asserts that next to nothing of them stays in memory. */
  async function expectNothingKept(rounds: number, round: (startNext: () => void) => Promise<object>): Promise<void> {
    const kept: WeakRef<object>[] = []
    await new Promise<void>((resolve, reject) => {
      const next = (): void => {
        if (kept.length >= rounds) resolve()
        else round(() => setImmediate(next)).then((hold) => kept.push(new WeakRef(hold)), reject)
      }
      next()
    })
    collectGarbage()
    const alive = kept.filter((ref) => ref.deref() !== undefined).length
    assert(alive < 100, `${alive} of ${rounds} holds are in memory`)
  }

  it('10 000 rounds started by a timer inside withLock() stay out of memory', async () => {
    const client = await fixture.connect()
    await expectNothingKept(10_000, (startNext) =>
      client.getLock('a').withLock(async (hold) => {
        startNext()
        return hold
      }),
    )
  })

  it('rounds that begin while the previous round still holds its lock stay out of memory', async () => {
    const client = await fixture.connect()
    let rounds = 0
    await expectNothingKept(2_000, (startNext) =>
      client.getLock(`a${rounds++}`).withLock(async (hold) => {
        startNext()
        await sleep(1)
        return hold
      }),
    )
  })

  it('rounds that are scopes, alternating between two clients, stay out of memory', async () => {
    const clients = [await fixture.connect(), await fixture.connect()]
    let rounds = 0
    await expectNothingKept(2_000, async (startNext) => {
      const client = clients[rounds++ % clients.length] as Client
      return await client.runInScope(async () => {
        const hold = await client.getLock('a').lock()
        await client.getLock('a').unlock()
        startNext()
        return hold
      })
    })
  })

  it('a round still re-enters what lasts: an outer hold and the scope around it', async () => {
    const client = await fixture.connect()
    const [lock, other] = [client.getLock('a'), client.getLock('b')]
    await client.runInScope(async () => {
      const outer = await lock.lock()
      await other.withLock(async () => {})
      await other.withLock(async () => {
        await client.runInScope(async () => {
          const again = await lock.lock()
          assert.deepEqual([again.holder, again.count], [outer.holder, 2])
          await again.unlock()
          assert.equal(await other.getHoldCount(), 1)
        })
        assert.equal(await lock.getHoldCount(), 1)
        await lock.unlock()
      })
      assert.equal(await lock.isHeldByCurrentOwner(), false)
    })
  })
})

describe('a client with implicitReentry: false', () => {
  const fixture = setUpFixture()

  it('a job of one task that runs in the call chain of another task waits for that task', async () => {
    const client = await fixture.connect({ implicitReentry: false })
    const lock = client.getLock('a')
    const jobs: (() => void)[] = []
    let isInFirst = false
    let hasOverlapped = false
    const first = lock.withLock(async () => {
      isInFirst = true
      // As batchers and pools do: the first job starts the timer for all.
      setTimeout(() => {
        for (const job of jobs) job()
      }, 20)
      await waitUntil(() => jobs.length === 0)
      await sleep(30)
      isInFirst = false
    })
    await waitUntil(() => isInFirst)
    const second = new Promise<Hold>((resolve, reject) => {
      jobs.push(() => {
        jobs.length = 0
        lock.lock().then(resolve, reject)
      })
    })
    const hold = await second
    hasOverlapped = isInFirst
    await hold.unlock()
    await first
    assert.equal(hasOverlapped, false)
  })

  it('without implicit re-entry, every kind of lock re-enters by `within` only', async () => {
    const client = await fixture.connect({ implicitReentry: false })
    const cells = client.getReadWriteLock('cells')
    for (const lock of [client.getLock('a'), client.getFairLock('fair'), cells.writeLock()]) {
      await lock.withLock(async (hold) => {
        assert.equal(await lock.tryLock(), null)
        await lock.withLock({ within: hold }, (inner) =>
          assert.deepEqual([inner.count, inner.holder], [2, hold.holder]),
        )
        assert.equal(await lock.tryLock(), null)
      })
    }
    await cells.writeLock().withLock(async (hold) => {
      assert.equal(await cells.readLock().tryLock(), null)
      await cells.readLock().withLock({ within: hold }, () => {})
    })
  })

  it('without implicit re-entry there is no self-deadlock check, no current owner and no scope', async () => {
    const client = await fixture.connect({ implicitReentry: false })
    const lock = client.getNonReentrantLock('a')
    await lock.withLock(async () => {
      assert.equal(await lock.tryLock(), null)
      await assert.rejects(lock.lock({ waitTimeMs: 20 }), { code: 'LOCK_WAIT_TIMEOUT' })
      await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD' })
      await assert.rejects(lock.getHoldCount(), { code: 'LOCK_NOT_HELD' })
    })
    assert.throws(() => client.runInScope(() => assert.fail('must not run')), {
      code: 'LOCK_CONFIG',
      path: 'runInScope',
    })
  })

  it('disabling implicit re-entry does not affect other clients, even inside a multi-lock of both', async () => {
    const [client, other] = [await fixture.connect({ implicitReentry: false }), await fixture.connect()]
    const [explicit, implicit] = [client.getLock('a'), other.getLock('b')]
    await getMultiLock(explicit, implicit).withLock(async () => {
      assert.equal(await explicit.tryLock(), null)
      const again = await implicit.tryLock()
      assert.equal(again?.count, 2)
      await again?.unlock()
    })
  })
})
