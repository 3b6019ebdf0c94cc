/** What every kind of lock promises. What does not apply to a kind is left out by one of its traits: test/support/kinds.ts. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Driver } from '../support/drivers.js'
import { Bench, type Kind } from '../support/kinds.js'
import type { SetUp } from '../support/lab.js'
import { measureLateness } from '../support/lateness.js'
import { spawnChild } from '../support/processes/child.js'
import { settlesWithin } from '../support/wait-until.js'
import { acquireContract, waitContract } from './lock-acquire.js'
import { callbackContract } from './lock-callbacks.js'
import { handOffContract } from './lock-hand-off.js'
import { leaseContract } from './lock-lease.js'
import { exclusionContract, reentryContract } from './lock-reentry.js'
import { noTransferContract, transferContract } from './lock-transfer.js'

const CONTENDER = new URL('../support/processes/contender-process.js', import.meta.url)
/** A busy machine is slow to start processes. */
const START_MS = 30_000
const VICTIM = new URL('../support/processes/victim-process.js', import.meta.url)

/** Everything that one process can show of a kind; call it inside a `describe`. */
export function contract(kind: Kind, setUp: SetUp): void {
  const lab = setUp({ keysThatStay: kind.keysThatStay })
  const bench = new Bench(kind, lab)

  acquireContract(kind, lab, bench)
  waitContract(kind, lab, bench)
  exclusionContract(kind, lab, bench)
  reentryContract(kind, lab, bench)
  leaseContract(kind, lab, bench)
  callbackContract(lab, bench)
  if (!kind.isShared) handOffContract(kind, lab, bench)
  if (kind.isAdoptable) transferContract(kind, lab, bench)
  else noTransferContract(kind, lab, bench)
}

/** What several processes show of a kind, through one driver. */
export function contractOfProcesses(kind: Kind, setUp: SetUp, driver: Driver): void {
  const lab = setUp({ keysThatStay: kind.keysThatStay })
  const bench = new Bench(kind, lab)

  if (!kind.isShared) {
    it('sections of several processes never overlap, and no update is lost', async () => {
      const { admin, url } = lab.server
      const processes = [1, 2].map(() => spawnChild(CONTENDER, [url, '3', '20', kind.name, driver.name]))
      for (const child of processes) lab.onEnd(() => child.stop())
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
    const child = spawnChild(VICTIM, [lab.server.url, kind.name, driver.name])
    lab.onEnd(() => child.stop())
    await child.nextMessage(({ at }) => at === 'held', START_MS)
    const client = await lab.connect()
    const waiter = bench.rival(client).lock()
    await bench.somebodyWaits()
    await child.stop()
    const killedAt = performance.now()
    const latenessMs = measureLateness()
    const leftMs = Math.max(...(await Promise.all(bench.parts(client).map((part) => part.remainingLeaseMs()))))
    const hold = await waiter
    const waitedMs = performance.now() - killedAt
    assert(
      waitedMs < leftMs + 1_000 + latenessMs(),
      `taken ${waitedMs} ms after the crash, with ${leftMs} ms of the lease left`,
    )
    await hold.unlock()
  })
}
