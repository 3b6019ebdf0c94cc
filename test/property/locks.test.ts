/**
 * Random sequences of operations by several owners and clients, on a real Redis and on a small model side by side: each
 * answer, each hold and each key must be what the model says, after every step.
 *
 * To see a failure again: PROPERTY_SEED=… PROPERTY_PATH=… with the numbers that it printed, and the kind of lock as
 * --test-name-pattern. For more sequences: PROPERTY_RUNS=20000
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { settlesWithin } from '../support/wait-until.js'
import type { Report, Task } from './agreement-worker.js'
import { kinds } from './kinds.js'

const { PROPERTY_RUNS: runs = '1000', PROPERTY_SEED: seed, PROPERTY_PATH: path } = process.env

describe('agrees with the model after every step of random sequences', () => {
  for (const { title } of kinds) {
    it(title, async (t) => {
      const task: Task = {
        title,
        runs: Number(runs),
        seed: seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(seed),
        path,
      }
      // In a thread of its own, where the test runner does not follow each promise: that more than halves the time.
      const worker = new Worker(new URL('agreement-worker.js', import.meta.url), { workerData: task })
      const ended = once(worker, 'exit')
      const [report] = (await once(worker, 'message')) as [Report]
      for (const line of report.diagnostics) t.diagnostic(line)
      if (report.failure !== undefined) assert.fail(report.failure)
      await settlesWithin(ended, 10_000) // no timer or socket keeps it
    })
  }
})
