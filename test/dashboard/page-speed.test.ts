/** The page of the dashboard stays fluent with 1,000 locks that change each second. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { longestTask, TASK_CATEGORIES } from '../support/servers/chromium.js'
import { open, showsText } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { client, demoFleet, healthyLocks, holder, lock } from './fake-fleet.js'

const LOCKS = 1_000
const TURNS = 10
const FRAME_MS = 50
/** A task takes longer if the machine is busy with other things, but not in every round. */
const ROUNDS = 4

describe('the page with 1,000 locks that change each second', () => {
  it(`the page computes less than ${FRAME_MS} ms for any frame with 1,000 locks that change each second`, async (context) => {
    await using dashboard = await FakeDashboard.start({ ...demoFleet(), locks: healthyLocks(LOCKS) })
    const { page } = await open(dashboard.url, { isCalm: false })
    await showsText(page, '.choice output', '1,000 of 1,000')
    const change = async (turn: number): Promise<void> => {
      const label = `turn ${turn}.`
      const oldest = lock('oldest', [holder('responding', client('clock', 'wall'), { heldMs: 86_400_000, label })])
      dashboard.push([...healthyLocks(LOCKS - 1, turn), oldest], [])
      await showsText(page, '#locks .col-label', label)
    }
    let best = Number.POSITIVE_INFINITY
    for (let round = 0; round < ROUNDS && best >= FRAME_MS; round += 1) {
      await page.tracing.start({ categories: TASK_CATEGORIES })
      for (let turn = 1; turn <= TURNS; turn += 1) await change(round * TURNS + turn)
      const { cpuMs, wallMs, tasks } = longestTask(await page.tracing.stop())
      context.diagnostic(`longest of ${tasks} tasks: ${cpuMs.toFixed(1)} ms of processor time, ${wallMs.toFixed(1)} ms`)
      assert.ok(cpuMs > 0, 'the trace has the processor time of each task')
      best = Math.min(best, cpuMs)
    }
    assert.ok(best < FRAME_MS, `the longest task takes ${best.toFixed(1)} ms of processor time in each round`)
  })
})
