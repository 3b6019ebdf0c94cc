/**
 * Random sequences of operations by several owners and clients, on a real Redis and on a small model: after every step
 * each result, each hold and each key must be what the model says.
 *
 * To repeat a failure: PROPERTY_SEED=… PROPERTY_PATH=… with the numbers that it printed, and the kind of lock as
 * --test-name-pattern. For more sequences: PROPERTY_RUNS=20000
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { settlesWithin } from '../support/wait-until.js'
import type { Report, Task } from './agreement-worker.js'
import { kinds } from './kinds.js'

const { PROPERTY_RUNS: runs = '1000', PROPERTY_SEED: seed, PROPERTY_PATH: path } = process.env
/** Far more than it takes: a slow machine is no failure. */
const LIMIT_MS = 280_000

/** Which test file is about which kinds: together they take minutes, side by side less. */
const FILES = {
  locks: ['lock', 'non-reentrant lock', 'fenced lock', 'spin lock', 'string lock'],
  'fair-locks': ['fair lock', 'non-reentrant fair lock'],
  'shared-locks': ['read-write lock', 'multi-lock of values'],
  'joint-locks': ['multi-lock', 'red lock'],
} as const

assert.deepEqual(Object.values(FILES).flat().sort(), kinds.map(({ title }) => title).sort())

export function itAgrees(file: keyof typeof FILES): void {
  for (const title of FILES[file]) {
    it(title, { timeout: LIMIT_MS }, async (t) => {
      const task: Task = {
        title,
        runs: Number(runs),
        seed: seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(seed),
        path,
      }
      // In a separate thread, where the test runner does not track each promise: that more than halves the time.
      const worker = new Worker(new URL('agreement-worker.js', import.meta.url), { workerData: task })
      const ended = once(worker, 'exit')
      const [report] = (await once(worker, 'message')) as [Report]
      for (const line of report.diagnostics) t.diagnostic(line)
      if (report.failure !== undefined) assert.fail(report.failure)
      await settlesWithin(ended, 10_000) // no timer or socket keeps it
    })
  }
}
