/** What holds when processes block their event loops for longer than a lease. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { measureLateness } from '../support/lateness.js'
import { spawnChild } from '../support/processes/child.js'

const BLOCKING = new URL('../support/processes/blocking-process.js', import.meta.url)
const PROCESSES = 3
const SECTIONS = 5
const MOST_STORMS = 3

describe('the watchdog thread', () => {
  const fixture = setUpFixture()

  /** What came of it: updates that were lost or done by two at once, and holds that were lost. */
  async function storm(thread: boolean, leaseMs: number): Promise<{ missing: number; overlaps: number; lost: number }> {
    const args = [fixture.server.url, String(SECTIONS), String(leaseMs), String(thread)]
    const children = Array.from({ length: PROCESSES }, () => spawnChild(BLOCKING, args))
    fixture.onEnd(() => Promise.all(children.map((child) => child.stop())))
    await Promise.all(children.map((child) => child.nextMessage(({ at }) => at === 'ready', 30_000)))
    for (const child of children) child.send({ go: true })
    const reports = await Promise.all(
      children.map((child) => child.nextMessage<{ at: string; lost: number }>(({ at }) => at === 'done', 150_000)),
    )
    const { admin } = fixture.server
    const counter = Number(await admin.get('counter'))
    const overlaps = Number(await admin.get('overlaps'))
    await admin.flushall()
    const lost = reports.reduce((sum, report) => sum + report.lost, 0)
    return { missing: PROCESSES * SECTIONS - counter, overlaps, lost }
  }

  it('processes block their event loops at random: sections never overlap, and no lock is lost', async () => {
    for (let storms = 1; ; storms++) {
      const latenessMs = measureLateness()
      // Long enough for the machine to stall for 1.5 s between two renewals.
      const seen = await storm(true, 3_000)
      const isStalled = latenessMs() > 1_500
      assert.deepEqual({ ...seen, lost: 0 }, { missing: 0, overlaps: 0, lost: 0 })
      if (seen.lost === 0) return
      // A machine that stalls for longer gives no time to the thread either.
      assert(isStalled && storms < MOST_STORMS, `${seen.lost} lost`)
    }
  })

  it('without the watchdog thread, blocked event loops lose locks', async () => {
    assert((await storm(false, 1_500)).lost > 0)
  })
})
