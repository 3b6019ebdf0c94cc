/** What every kind of lock promises. What does not apply to a kind is left out by one of its traits: test/support/kinds.ts. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Driver } from '../support/drivers.js'
import type { SetUp } from '../support/fixture.js'
import { type Kind, KindFixture } from '../support/kinds.js'
import { measureLateness } from '../support/lateness.js'
import { spawnChild } from '../support/processes/child.js'
import { settlesWithin } from '../support/wait-until.js'
import { acquireContract, waitContract } from './lock-acquire.js'
import { callbackContract } from './lock-callbacks.js'
import { handOffContract } from './lock-hand-off.js'
import { leaseContract } from './lock-lease.js'
import { exclusionContract, reentryContract } from './lock-reentry.js'
import { noTransferContract, transferContract } from './lock-transfer.js'
import { watchContract } from './lock-watch.js'

const CONTENDER = new URL('../support/processes/contender-process.js', import.meta.url)
/** A busy machine is slow to start processes. */
const START_MS = 30_000
const VICTIM = new URL('../support/processes/victim-process.js', import.meta.url)

/** Everything that one process can show of a kind; call it inside a `describe`. */
export function contract(kind: Kind, setUp: SetUp): void {
  const fixture = setUp({ keysThatStay: kind.keysThatStay })
  const kindFixture = new KindFixture(kind, fixture)

  acquireContract(kind, fixture, kindFixture)
  waitContract(kind, fixture, kindFixture)
  exclusionContract(kind, fixture, kindFixture)
  reentryContract(kind, fixture, kindFixture)
  leaseContract(kind, fixture, kindFixture)
  callbackContract(fixture, kindFixture)
  if (!kind.isJoint) watchContract(fixture, kindFixture)
  if (!kind.isShared) handOffContract(kind, fixture, kindFixture)
  if (kind.isAdoptable) transferContract(kind, fixture, kindFixture)
  else noTransferContract(kind, fixture, kindFixture)
}

/** What several processes show of a kind, through one driver. */
export function contractOfProcesses(kind: Kind, setUp: SetUp, driver: Driver): void {
  const fixture = setUp({ keysThatStay: kind.keysThatStay })
  const kindFixture = new KindFixture(kind, fixture)

  if (!kind.isShared) {
    it('sections of several processes never overlap, and no update is lost', async () => {
      const { admin, url } = fixture.server
      const processes = [1, 2].map(() => spawnChild(CONTENDER, [url, '3', '20', kind.name, driver.name]))
      for (const child of processes) fixture.onEnd(() => child.stop())
      await Promise.all(processes.map((child) => child.nextMessage(({ at }) => at === 'ready', START_MS)))
      for (const child of processes) child.send({ at: 'go' })
      for (const child of processes) {
        const { sections } = await child.nextMessage<{ at: string; sections: number }>(
          ({ at }) => at === 'done',
          30_000,
        )
        assert.equal(sections, 60)
      }
      assert.deepEqual(await admin.mget('counter', 'overlaps', 'inside'), ['120', null, '0'])
      for (const child of processes) await settlesWithin(child.exit, 10_000)
      await admin.del('counter', 'inside')
    })
  }

  it('the lock of a crashed holder is acquired within 1 s of its lease', async () => {
    const child = spawnChild(VICTIM, [fixture.server.url, kind.name, driver.name])
    fixture.onEnd(() => child.stop())
    await child.nextMessage(({ at }) => at === 'held', START_MS)
    const client = await fixture.connect()
    const waiter = kindFixture.rival(client).lock()
    await kindFixture.somebodyWaits()
    await child.stop()
    const killedAt = performance.now()
    const latenessMs = measureLateness()
    const leftMs = Math.max(...(await Promise.all(kindFixture.parts(client).map((part) => part.remainingLeaseMs()))))
    const hold = await waiter
    const waitedMs = performance.now() - killedAt
    assert(
      waitedMs < leftMs + 1_000 + latenessMs(),
      `taken ${waitedMs} ms after the crash, with ${leftMs} ms of the lease left`,
    )
    await hold.unlock()
  })
}
