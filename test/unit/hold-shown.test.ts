/** What a log shows of a hold. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { inspect } from 'node:util'
import { getMultiLock, type Hold } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: 30_000 })
})

afterEach(() => fixture.close())

/** The names that `inspect` shows of a hold. */
function shownOf(hold: Hold): string[] {
  return [...inspect(hold).matchAll(/(\w+): /g)].map(([, name]) => name as string)
}

describe('a hold in a log', () => {
  it('a hold in a log shows its lock, holder, count, time left and since when, and nothing internal', async () => {
    const hold = await fixture.lock.lock()
    const { lockName, holder, count, acquiredAt } = hold
    const shown = { lockName, holder, count, remainingMs: hold.remainingMs(), acquiredAt }
    assert.equal(inspect(hold), `Hold ${inspect(shown)}`)
    assert.deepEqual(JSON.parse(JSON.stringify(hold)), shown)
    await hold.unlock()
    assert.deepEqual(JSON.parse(JSON.stringify(hold)), { ...shown, count: 0, remainingMs: 0 })
  })

  it('a hold in a log shows the label', async () => {
    const hold = await fixture.lock.lock({ label: 'refund' })
    assert.match(inspect(hold), /label: 'refund'/)
    assert.equal(JSON.parse(JSON.stringify(hold)).label, 'refund')
    await hold.unlock()
  })

  it('a hold in a log shows the fencing token, in JSON as a text', async () => {
    const hold = await fixture.client.getFencedLock('fenced').lock()
    assert.match(inspect(hold), /fencingToken: 1n/)
    assert.equal(JSON.parse(JSON.stringify(hold)).fencingToken, '1')
    await hold.unlock()
  })

  it('a hold in a log shows the ids of permits', async () => {
    const semaphore = fixture.client.getPermitExpirableSemaphore('permits')
    await semaphore.trySetPermits(2)
    const hold = await semaphore.acquire({ permits: 2 })
    const { permitIds } = JSON.parse(JSON.stringify(hold))
    assert.deepEqual(permitIds, hold.permitIds)
    assert.match(inspect(hold), new RegExp(`permitIds: .*${permitIds[0]}`, 's'))
    await hold.unlock()
    await semaphore.delete()
  })

  it('a hold in a log shows a hold on several locks as one', async () => {
    const hold = await fixture.clock.until(getMultiLock(fixture.lock, fixture.client.getLock('b')).lock())
    assert.deepEqual(shownOf(hold), ['lockName', 'holder', 'count', 'remainingMs', 'acquiredAt'])
    assert.match(inspect(hold), /multi-lock of "a", "b"/)
    await hold.unlock()
  })

  it("a hold in a log shows the caller's object of a watched hold like the hold itself", async () => {
    const hold = await fixture.lock.lock({ label: 'refund' })
    const callerHold = hold.hold.newCallerHold()
    assert.notEqual(callerHold, callerHold.hold)
    assert.equal(inspect(callerHold), inspect(callerHold.hold))
    assert.equal(JSON.stringify(callerHold), JSON.stringify(callerHold.hold))
    await hold.unlock()
  })

  it('a hold in a log is indented within another object', async () => {
    const hold = await fixture.lock.lock()
    assert.match(inspect({ a: { hold } }, { depth: 1 }), /\n {4}hold: Hold \{\n {6}lockName: 'a'/)
    await hold.unlock()
  })
})
