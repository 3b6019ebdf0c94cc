import './life-clock.js'
import { type MessagePort, parentPort, Worker, workerData } from 'node:worker_threads'
import { CONTROLS } from './controls.js'
import { type Life, live, shrink } from './life.js'
import { type Plan, planOf, type Topology, type WorkloadName } from './plan.js'

export interface Failure {
  readonly seed: number
  readonly workload: WorkloadName
  readonly message: string
  /** What is left of the life after everything else was removed. */
  readonly smallest?: string
  readonly timeline?: readonly string[]
}

/** What came of some lives. */
export interface Report {
  readonly lives: readonly Life[]
  readonly failures: readonly Failure[]
}

/** Seeds to live with. */
export interface Batch {
  readonly seeds: readonly number[]
  readonly workload?: WorkloadName | undefined
  readonly topology?: Topology | undefined
  /** An error to plant: the lives end with the first that fails. */
  readonly control?: string | undefined
}

/** Nearly everything in a life is garbage soon. */
const YOUNG_MB = 128
/** Nobody reads the stacks of the errors of a life that succeeds, and they cost a tenth of it. */
const STACK_TRACES = { living: 0, explaining: 10 }

/** Lives one after the other, in a thread of its own, where no test runner follows each promise. */
export class Lives {
  readonly #worker: Worker
  readonly #waiting: { resolve(report: Report): void; reject(error: Error): void }[] = []

  constructor() {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB }
    this.#worker = new Worker(new URL(import.meta.url), { workerData: 'lives', resourceLimits })
    this.#worker.on('message', (report: Report) => this.#waiting.shift()?.resolve(report))
    this.#worker.on('error', (error: Error) => this.#waiting.shift()?.reject(error))
  }

  run(batch: Batch): Promise<Report> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#worker.postMessage(batch)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

async function runHere({ control, ...batch }: Batch): Promise<Report> {
  const planted = control === undefined ? undefined : CONTROLS[control]
  const undo = planted?.plant()
  try {
    return await runAll({ ...batch, ...planted }, planted !== undefined)
  } finally {
    undo?.()
  }
}

async function runAll({ seeds, workload, topology }: Batch, isControl: boolean): Promise<Report> {
  const lives: Life[] = []
  const failures: Failure[] = []
  for (const seed of seeds) {
    const plan = planOf(seed, workload, topology)
    try {
      lives.push(await live(plan))
    } catch {
      const message = await messageOf(plan)
      if (isControl) return { lives, failures: [{ seed, workload: plan.workload, message }] }
      if (failures.length > 0) failures.push({ seed, workload: plan.workload, message })
      else {
        const { plan: smallest, error: last, timeline } = await shrink(plan)
        const { seed: _, workload: __, ...left } = smallest
        failures.push({
          seed,
          workload: plan.workload,
          message: `${message}\nwith less: ${last.message}`,
          smallest: JSON.stringify(left),
          timeline,
        })
      }
    }
  }
  return { lives, failures }
}

/** What it fails with, by living it once more. */
async function messageOf(plan: Plan): Promise<string> {
  Error.stackTraceLimit = STACK_TRACES.explaining
  try {
    await live(plan)
    return 'it did not fail again'
  } catch (error) {
    return error instanceof Error ? String(error.stack) : String(error)
  } finally {
    Error.stackTraceLimit = STACK_TRACES.living
  }
}

if (workerData === 'lives') {
  Error.stackTraceLimit = STACK_TRACES.living
  const port = parentPort as MessagePort
  port.on('message', async (batch: Batch) => port.postMessage(await runHere(batch)))
}
