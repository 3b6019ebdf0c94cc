import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LeaseLostError } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep, waitUntil } from '../support/wait-until.js'

async function lossOf(working: Promise<unknown>): Promise<LeaseLostError> {
  const error = await working.then(
    () => assert.fail('the lock should have been lost'),
    (error: unknown) => error,
  )
  assert(error instanceof LeaseLostError, String(error))
  return error
}

describe('the loss of a hold with a lease of its own', () => {
  const fixture = setUpFixture()

  it('the loss of a lease names the lease, the label, the run time and the line of the caller', async () => {
    const client = await fixture.connect()
    const refundTheOrder = async (): Promise<void> => {
      await client.getLock('a').withLock({ leaseTimeMs: 30, label: 'refund' }, async () => await sleep(120))
    }
    const error = await lossOf(refundTheOrder())
    assert.deepEqual([error.reason, error.leaseTimeMs, error.label], ['expired', 30, 'refund'])
    const said = /^Lock "a" \(label "refund"\) is no longer held by \S+: its fixed lease of 30 ms \(leaseTimeMs\) ended/
    assert.match(error.message, said)
    const [, ran] = /The function ran for (\d+) ms$/.exec(error.message) ?? []
    assert(Number(ran) >= 119, error.message)
    assert.match(error.stack ?? '', /at async refundTheOrder .*lost-leases\.test/)
    assert(error.stack?.includes(error.message), error.stack)
  })

  it('the loss of a lease says that also if the function rejects with the reason of hold.signal', async () => {
    const client = await fixture.connect()
    const refundTheOrder = async (): Promise<void> => {
      await client.getLock('a').withLock({ leaseTimeMs: 30 }, async ({ signal }) => {
        await waitUntil(() => signal.aborted)
        signal.throwIfAborted()
      })
    }
    const error = await lossOf(refundTheOrder())
    assert.match(error.message, /its fixed lease of 30 ms .*The function ran for \d+ ms$/)
    assert.match(error.stack ?? '', /at async refundTheOrder .*lost-leases\.test/)
  })

  it('the loss of a lease has the line of assertHeld() and of unlock() in its stack', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('a').lock({ leaseTimeMs: 30 })
    await waitUntil(() => hold.signal.aborted)
    const writeTheOrder = (): void => hold.assertHeld()
    assert.throws(writeTheOrder, ({ stack }: Error) => /at writeTheOrder .*lost-leases\.test/.test(stack ?? ''))
    const releaseTheOrder = (): Promise<void> => hold.unlock()
    const error = await lossOf(releaseTheOrder())
    assert.match(error.stack ?? '', /at releaseTheOrder .*lost-leases\.test/)
    assert.equal(error, hold.signal.reason)
  })

  it('the loss of a renewed hold does not blame a lease of its own', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('a').lock({ label: 'refund' })
    await client.getLock('a').forceUnlock()
    const { message } = await lossOf(hold.unlock())
    assert.match(message, /^Lock "a" \(label "refund"\) is no longer held by \S+: this client force-unlocked it\./)
    assert(!message.includes('leaseTimeMs'))
  })
})
