import { describe } from 'node:test'
import type { Client } from '../../src/index.js'
import { Bench, type Kind, kindsThrough } from '../support/kinds.js'
import { drivers, type Lab, setUpLab, watchWholeProcess } from '../support/lab.js'

/** What a suite has for one kind of lock, through one driver. */
export interface KindUnderFault {
  readonly kind: Kind
  readonly lab: Lab
  readonly bench: Bench
  /** Makes Redis load the scripts, so that the faults find the requests. */
  warmUp(client: Client): Promise<void>
}

/** Declares a suite for each kind of lock; what does not apply to a kind is left out by one of its traits. */
export function describeEachKind(title: string, suite: (fixture: KindUnderFault) => void): void {
  describe(title, { concurrency: 6 }, () => {
    watchWholeProcess()
    for (const { kind, driver } of kindsThrough(drivers)) {
      describe(`of a ${kind.name}, through ${driver.name} with its default settings`, { concurrency: 1 }, () => {
        const lab = setUpLab(driver, [], { keysThatStay: kind.keysThatStay, isBesideOthers: true })
        const bench = new Bench(kind, lab)
        suite({ kind, lab, bench, warmUp: (client) => warmUp(client, kind, bench) })
      })
    }
  })
}

async function warmUp(client: Client, kind: Kind, bench: Bench): Promise<void> {
  await client.runInScope(async () => {
    const hold = await bench.lock(client).lock()
    if (kind.isReentrant) await (await bench.lock(client).lock()).unlock()
    await hold.unlock()
  })
}
