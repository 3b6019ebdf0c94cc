import { parentPort, workerData } from 'node:worker_threads'
import fc from 'fast-check'
import { drivers } from '../support/lab.js'
import { expectNothingLeft, watchProcess } from '../support/leak-check.js'
import { SCRIPTS } from '../support/script-names.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { type Command, sequences } from './commands.js'
import { type Kind, kinds } from './kinds.js'
import { Stage, Tally } from './stage.js'
import { World } from './world.js'

/** What a thread is to do: sequences for one kind of lock. */
export interface Task {
  readonly title: string
  readonly runs: number
  readonly seed: number
  readonly path: string | undefined
}

export interface Report {
  readonly diagnostics: readonly string[]
  readonly failure?: string
}

/** How many sequences run at once, each with separate clients. */
const STAGES = 8
/** When to stop searching for a shorter failing sequence. */
const LIMIT_MS = 240_000

async function openStage(server: RedisServer, kind: Kind, ends: (() => unknown)[]): Promise<Stage> {
  const open = async (index: number, database: number) => {
    const driver = drivers[index % drivers.length] as (typeof drivers)[number]
    // The model checks Redis after each release. Hand-offs without Redis belong to the simulation.
    const options = { lockWatchdogTimeoutMs: 60_000, commandTimeoutMs: 20_000, maxHandOffs: 0 }
    const { client, end } = await driver.open(`${server.url}/${database}`, options)
    ends.push(async () => {
      await client.close()
      await end()
    })
    return client
  }
  const databases = [...new Array(kind.databases).keys()]
  const clients = Array.from({ length: kind.cast.clients }, (_, index) =>
    Promise.all(databases.map((database) => open(index, database))),
  )
  const stage = new Stage(server.admin, await Promise.all(clients))
  await stage.prepare()
  return stage
}

/** What failed, and how to repeat it. */
function failureText(kind: Kind, details: fc.RunDetails<[readonly Command[]]>): string {
  const { seed, counterexamplePath, numRuns, numShrinks, errorInstance } = details
  if (!details.failed) return `only ${numRuns} sequences in ${LIMIT_MS / 1_000} s`
  const where = counterexamplePath === null ? '' : ` PROPERTY_PATH=${counterexamplePath}`
  const why = errorInstance instanceof Error ? errorInstance.message : String(errorInstance)
  return (
    `The ${kind.title} does not agree with the model in sequence ${numRuns}, made shorter ${numShrinks} times.\n` +
    `Again: PROPERTY_SEED=${seed}${where} npm test -- test/property --test-name-pattern='${kind.title}'\n${why}`
  )
}

async function agree(kind: Kind, { runs, seed, path }: Task): Promise<Report> {
  const startedAt = performance.now()
  const tally = new Tally()
  const ends: (() => unknown)[] = []
  const server = await startRedis()
  // The first use of a script takes a second round trip, in which later commands of the same turn overtake it.
  await Promise.all(SCRIPTS.map(({ text }) => server.admin.script('LOAD', text)))
  let sequence = 0
  let isOver = false
  const play = async (number: number): Promise<fc.RunDetails<[readonly Command[]]>> => {
    const stage = await openStage(server, kind, ends)
    const property = fc.asyncProperty(sequences(kind.maxLength), async (commands) => {
      if (!isOver) await new World(kind, stage, `<${++sequence}>`, tally).run(commands)
    })
    const numRuns = Math.ceil(runs / STAGES)
    const again = path === undefined ? {} : { path }
    const details = await fc.check(property, {
      seed: seed + number,
      numRuns,
      interruptAfterTimeLimit: LIMIT_MS,
      includeErrorInReport: true,
      ...again,
    })
    isOver ||= details.failed
    return details
  }
  const numbers = path === undefined ? [...new Array(STAGES).keys()] : [0]
  const all = await Promise.all(numbers.map(play))
  const wrong = all.find(({ failed }) => failed) ?? all.find(({ interrupted }) => interrupted)
  const diagnostics = [`${sequence} sequences, seed ${seed}, ${Math.round(performance.now() - startedAt)} ms`]
  if (process.env['PROPERTY_TALLY']) diagnostics.push(...[...tally].sort().map(([what, count]) => `${count} × ${what}`))
  if (wrong) return { diagnostics, failure: failureText(kind, wrong) }
  await Promise.all(ends.map((end) => end()))
  await expectNothingLeft(server)
  await server.stop()
  return { diagnostics }
}

const task = workerData as Task
const watch = watchProcess()
const kind = kinds.find(({ title }) => title === task.title) as Kind
const report = await agree(kind, task).catch((error: unknown): Report => {
  return { diagnostics: [`seed ${task.seed}`], failure: error instanceof Error ? String(error.stack) : String(error) }
})
await watch.assertQuiet().catch((error: Error) => Object.assign(report, { failure: error.message }))
watch.stop()
parentPort?.postMessage(report)
// What a failure leaves must not keep it.
if (report.failure !== undefined) process.exit()
