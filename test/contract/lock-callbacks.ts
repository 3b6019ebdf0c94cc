/** `withLock`: its callbacks, its value and its errors, for every kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Bench } from '../support/kinds.js'
import type { AnyLab } from '../support/lab.js'

export function callbackContract(lab: AnyLab, bench: Bench): void {
  it('withLock passes the hold to the callback, resolves to its value, and calls onAcquire and onRelease', async () => {
    const client = await lab.connect()
    const calls: string[] = []
    const value = await bench.lock(client).withLock(
      {
        label: 'charge',
        onAcquire: (hold) => calls.push(`acquire ${hold.label}`),
        onRelease: async () => calls.push(`release ${await bench.isFree()}`),
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
    const client = await lab.connect()
    const lock = bench.lock(client)
    const failure = new Error('the card was declined')
    await assert.rejects(
      lock.withLock(() => {
        throw failure
      }),
      failure,
    )
    assert.equal(await bench.isFree(), true)
    await assert.rejects(
      lock.withLock(async () => {
        await bench.deleteKeys()
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
    const client = await lab.connect()
    const lock = bench.lock(client)
    const lost: string[] = []
    client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
    await assert.rejects(
      lock.withLock(async (hold) => {
        await bench.deleteKeys()
        hold.assertHeld()
      }),
      { code: 'LOCK_LEASE_LOST', reason: 'gone', lockName: lock.name },
    )
    assert.equal(lost.filter((loss) => loss === `${lock.name} gone`).length, 1, 'reported once')
  })
}
