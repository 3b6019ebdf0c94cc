/** `withLock`: its callbacks, its value and its errors, for every kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { AnyFixture } from '../support/fixture.js'
import type { KindFixture } from '../support/kinds.js'

export function callbackContract(fixture: AnyFixture, kindFixture: KindFixture): void {
  it('withLock passes the hold to the callback, resolves to its value, and calls onAcquire and onRelease', async () => {
    const client = await fixture.connect()
    const calls: string[] = []
    const value = await kindFixture.lock(client).withLock(
      {
        label: 'charge',
        onAcquire: (hold) => calls.push(`acquire ${hold.label}`),
        onRelease: async () => calls.push(`release ${await kindFixture.isFree()}`),
      },
      (hold) => {
        hold.assertHeld()
        calls.push('body')
        return 'done'
      },
    )
    assert.equal(value, 'done')
    assert.deepEqual(calls, ['acquire charge', 'body', 'release true'])
  })

  it('withLock releases the lock when the callback fails, and rejects with the callback’s error', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    const failure = new Error('the card was declined')
    await assert.rejects(
      lock.withLock(() => {
        throw failure
      }),
      failure,
    )
    assert.equal(await kindFixture.isFree(), true)
    await assert.rejects(
      lock.withLock(async () => {
        await kindFixture.deleteKeys()
        throw failure
      }),
      failure,
      'also when the lock was lost meanwhile',
    )
    const warned = new Promise<Error>((resolve) => client.once('warning', resolve))
    const onRelease = (): never => {
      throw new Error('onRelease failed, too')
    }
    await assert.rejects(
      lock.withLock({ onRelease }, () => {
        throw failure
      }),
      failure,
      'also when onRelease fails',
    )
    assert.equal((await warned).message, 'onRelease failed, too')
  })

  it('withLock rejects when the lock was lost while the callback ran', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    const lost: string[] = []
    client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
    await assert.rejects(
      lock.withLock(async (hold) => {
        await kindFixture.deleteKeys()
        hold.assertHeld()
      }),
      { code: 'LOCK_LEASE_LOST', reason: 'gone', lockName: lock.name },
    )
    assert.equal(lost.filter((loss) => loss === `${lock.name} gone`).length, 1, 'reported once')
  })
}
