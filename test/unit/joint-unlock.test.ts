/** `unlock()` of a lock made of others: in a scope, and inside `withLock`. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, getRedLock } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { RedLockFixture } from '../support/fakes/red-lock-fixture.js'

const NOT_HELD = { code: 'LOCK_NOT_HELD' }

describe('unlock() of a multi-lock', () => {
  let fixture: ClientFixture

  beforeEach(() => {
    fixture = new ClientFixture({ lockWatchdogTimeoutMs: 30_000 })
  })

  afterEach(() => fixture.close())

  const a = () => fixture.client.getLock('a')
  const b = () => fixture.client.getLock('b')
  const both = () => getMultiLock(a(), b())

  it('unlock() releases what the current owner took last, by any object made of the same locks', async () => {
    const multi = both()
    await fixture.client.runInScope(async () => {
      const outer = await multi.lock()
      const inner = await multi.lock()
      assert.equal(await a().getHoldCount(), 2)
      await getMultiLock(b(), a()).unlock()
      assert.deepEqual([inner.count, outer.count, await a().getHoldCount()], [0, 1, 1])
      await multi.unlock()
      assert.deepEqual(fixture.redis.keys, [])
      await assert.rejects(multi.unlock(), {
        ...NOT_HELD,
        lockName: multi.name,
        message: 'Multi-lock of "a", "b" is not held by the current owner',
      })
    })
    assert.deepEqual(fixture.lost, [])
  })

  it('unlock() leaves a hold on other locks, or of a red lock, alone', async () => {
    await fixture.client.runInScope(async () => {
      await both().lock()
      for (const other of [
        getMultiLock(a()),
        getMultiLock(a(), fixture.client.getLock('c')),
        getMultiLock(a(), b(), fixture.client.getLock('c')),
        getMultiLock(a(), fixture.client.getFairLock('b')),
        getMultiLock(a(), fixture.other.getLock('b')),
        getRedLock(a(), b()),
      ]) {
        await assert.rejects(other.unlock(), {
          ...NOT_HELD,
          message: /by the current owner\. It stays held by this client/,
        })
      }
      await both().unlock()
    })
  })

  it('unlock() does not find a hold that was released by itself', async () => {
    await fixture.client.runInScope(async () => {
      const hold = await both().lock()
      await hold.unlock()
      await assert.rejects(both().unlock(), NOT_HELD)
    })
  })

  it('unlock() of a hold that was lost throws once, and frees what is left', async () => {
    await fixture.client.runInScope(async () => {
      const hold = await both().lock()
      fixture.redis.delete('a')
      await fixture.clock.advance(10_000)
      assert.equal(hold.signal.aborted, true)
      await assert.rejects(both().unlock(), { code: 'LOCK_LEASE_LOST' })
      assert.deepEqual(fixture.redis.keys, [])
      await assert.rejects(both().unlock(), NOT_HELD)
    })
  })

  it('unlock() ends the hold of withLock early', async () => {
    await both().withLock(async () => {
      await both().unlock()
      assert.deepEqual(fixture.redis.keys, [])
    })
    assert.deepEqual(fixture.lost, [])
  })

  it('unlock() inside withLock of one of its locks has an owner, who does not hold it', async () => {
    await a().withLock(
      async () => await assert.rejects(both().unlock(), { ...NOT_HELD, message: /by the current owner/ }),
    )
  })

  it('unlock() outside any scope and hold names itself and what to do', async () => {
    const hold = await both().lock()
    await assert.rejects(both().unlock(), {
      ...NOT_HELD,
      message:
        /^unlock\(\) on multi-lock of "a", "b" needs a current owner, .* use hold\.unlock\(\) of the hold .*runInScope\(\)\. It stays held/,
    })
    await hold.unlock()
  })

  it('unlock() works in a scope of any client that it has a lock of', async () => {
    const multi = getMultiLock(a(), fixture.other.getLock('b'))
    for (const client of [fixture.client, fixture.other]) {
      await client.runInScope(async () => {
        await multi.lock()
        await multi.unlock()
        assert.deepEqual(fixture.redis.keys, [])
      })
    }
  })
})

describe('unlock() of a red lock', () => {
  let fixture: RedLockFixture

  beforeEach(() => {
    fixture = new RedLockFixture()
  })

  afterEach(() => fixture.close())

  it('unlock() in the scope of a client whose server refused its lock releases the majority', async () => {
    fixture.take(0)
    await fixture.clients[0].runInScope(async () => {
      const hold = await fixture.clock.until(fixture.red.lock())
      await fixture.redOf((client) => client.getLock('a')).unlock()
      assert.equal(hold.count, 0)
    })
    fixture.free(0)
  })
})
