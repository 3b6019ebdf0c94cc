/** `watch()`, for every kind of lock that has a state of its own. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Client, Lock, LockState } from '../../src/index.js'
import type { AnyFixture } from '../support/fixture.js'
import type { KindFixture } from '../support/kinds.js'

export function watchContract(fixture: AnyFixture, kindFixture: KindFixture): void {
  function watch(client: Client): { next(): Promise<LockState>; end(): Promise<unknown> } {
    const states = (kindFixture.parts(client)[0] as Lock).watch()
    return { next: async () => (await states.next()).value, end: async () => await states.return?.() }
  }
  const FREE: LockState = { state: 'free', holders: [] }

  it('a watcher sees a lock of another client held and free, and leaves nothing behind', async () => {
    const [watching, holding] = [await fixture.connect({ inspection: false }), await fixture.connect()]
    const watched = watch(watching)
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(await watched.next(), FREE)
      const hold = await kindFixture.lock(holding).lock()
      assert.deepEqual(await watched.next(), { state: 'held', holders: [{ holder: hold.holder, holdCount: 1 }] })
      await hold.unlock()
    }
    assert.deepEqual(await watched.next(), FREE)
    await watched.end()
    await kindFixture.nobodyWaits()
  })

  it('a watcher sees a lock free whose lease ended', async () => {
    const [watching, holding] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.lock(holding).lock({ leaseTimeMs: 400 })
    const watched = watch(watching)
    assert.equal((await watched.next()).state, 'held')
    assert.deepEqual(await watched.next(), FREE)
    await watched.end()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })
}
