import { describe } from 'node:test'
import type { Client } from '../../src/index.js'
import { drivers, type Fixture, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { type Kind, KindFixture, kindsThrough } from '../support/kinds.js'

/** What a suite has for one kind of lock, through one driver. */
export interface KindUnderFault {
  readonly kind: Kind
  readonly fixture: Fixture
  readonly kindFixture: KindFixture
  /** Makes Redis load the scripts, so that the faults find the requests. */
  warmUp(client: Client): Promise<void>
}

/** Declares a suite for each kind of lock; what does not apply to a kind is left out by one of its traits. */
export function describeEachKind(title: string, suite: (fixture: KindUnderFault) => void): void {
  describe(title, { concurrency: 6 }, () => {
    watchWholeProcess()
    for (const { kind, driver } of kindsThrough(drivers)) {
      describe(`a ${kind.name}, through ${driver.name} with its default settings`, { concurrency: 1 }, () => {
        const fixture = setUpFixture(driver, [], { keysThatStay: kind.keysThatStay, isBesideOthers: true })
        const kindFixture = new KindFixture(kind, fixture)
        suite({ kind, fixture, kindFixture, warmUp: (client) => warmUp(client, kind, kindFixture) })
      })
    }
  })
}

async function warmUp(client: Client, kind: Kind, kindFixture: KindFixture): Promise<void> {
  await client.runInScope(async () => {
    const hold = await kindFixture.lock(client).lock()
    if (kind.isReentrant) await (await kindFixture.lock(client).lock()).unlock()
    await hold.unlock()
  })
}
