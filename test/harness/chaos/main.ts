// Chaos: every kind of lock at once while connections, processes and servers fail. scripts/verify/chaos.mjs runs it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { measureSlowness } from '../../support/lateness.js'
import { TooLateError } from '../../support/wait-until.js'
import { anySeed, fail, finish, listOf, note, numberOf, oneOf, readOptions } from '../options.js'
import { type Random, randomOf } from '../random.js'
import { runControls, type Tried } from './controls.js'
import { FAULTS } from './faults.js'
import { PERMITS, SEMAPHORE } from './messages.js'
import { ReplicatedTopology } from './replicated.js'
import { isPassed, reportOf, table, tableOfControls } from './report.js'
import { runChaos } from './run.js'
import { SingleTopology } from './single.js'
import { timelineOf } from './timeline.js'
import type { Fault, Topology } from './topology.js'

const TOPOLOGIES = {
  single: async (_: Random): Promise<Topology> => await SingleTopology.start(),
  sentinel: async (random: Random): Promise<Topology> => await ReplicatedTopology.start('sentinel', random),
  cluster: async (random: Random): Promise<Topology> => await ReplicatedTopology.start('cluster', random),
}

/** Undefined: the machine was too slow to judge. */
type Verdict = [isPassed: boolean | undefined, verdict: string, result: object]

const values = readOptions({
  seconds: { type: 'string', default: '60' },
  seed: { type: 'string', default: anySeed() },
  topology: { type: 'string', default: 'single' },
  faults: { type: 'string', default: '' },
  workers: { type: 'string', default: '4' },
  tasks: { type: 'string', default: '6' },
  redisson: { type: 'boolean', default: false },
  control: { type: 'boolean', default: false },
  timeline: { type: 'string' },
})
const seconds = numberOf(values, 'seconds')
const seed = numberOf(values, 'seed')

const slowness = measureSlowness()
finish(...(await (values.control ? control() : chaos()).catch(gaveUp)), values)

async function chaos(): Promise<Verdict> {
  const start = TOPOLOGIES[oneOf('topology', values.topology, Object.keys(TOPOLOGIES) as (keyof typeof TOPOLOGIES)[])]
  note(`${seconds} s, seed ${seed}, ${values.topology}: starting servers`)
  await using topology = await start(randomOf(seed + 2))
  const faults = chosen([...FAULTS, ...topology.faults])
  const outcome = await runChaos(
    {
      ...{ seconds, seed, workers: numberOf(values, 'workers'), tasks: numberOf(values, 'tasks'), faults },
      ...{ semaphores: [PERMITS, SEMAPHORE], isControl: false, withJava: values.redisson, note },
      // On one server short, so that many leases end. After a failover the new master may know an older lease, which must
      // last until a renewal reaches it; and so a killed process keeps its locks for longer.
      ...(topology.isReplicated ? { leaseMs: 10_000, everyMs: 500 } : { leaseMs: 3_000, everyMs: 120 }),
      ...{ proveMs: 30_000, quietMs: 25_000 },
    },
    topology,
  )
  const slow = slowness()
  const { controls, slow: slowControls } = await controlRun()
  const report = reportOf({ seconds, seed, topology: topology.name }, outcome, controls)
  console.log(`${table(report, outcome)}\n\nControls: locks that are broken on purpose\n${tableOfControls(controls)}\n`)
  const file = resolve(values.timeline ?? `.cache/chaos/${topology.name}-${seed}.html`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, timelineOf(outcome, `${topology.name}, seed ${seed}, ${seconds} s`))
  console.log(`Timeline: ${file}`)
  const passed = isPassed(report, outcome.findings, { run: slow, controls: slowControls })
  return [passed, passed === undefined ? tooSlow(slow ?? slowControls) : passed ? 'passed' : 'FAILED', report]
}

async function control(): Promise<Verdict> {
  const { controls, slow } = await controlRun()
  const controlsRed = controls.every(({ isRed }) => isRed)
  console.log(tableOfControls(controls))
  const result = { controlsRed, controls }
  if (controlsRed) return [true, 'Every broken lock was found', result]
  return slow === undefined ? [false, 'A broken lock was NOT found', result] : [undefined, tooSlow(slow), result]
}

/** Servers or processes were not ready in time. */
function gaveUp(error: unknown): Verdict {
  const slow = slowness()
  if (!(error instanceof TooLateError) || slow === undefined) throw error
  return [undefined, `${error.message}\n${tooSlow(slow)}`, {}]
}

function tooSlow(slow = ''): string {
  return `The machine was too slow to judge: ${slow}. Run it again while less else runs`
}

async function controlRun(): Promise<{ controls: Tried[]; slow: string | undefined }> {
  note('controls: one process breaks its locks')
  const ownSlowness = measureSlowness()
  const controls = await runControls(seed, (text) => note(`controls: ${text}`))
  return { controls, slow: ownSlowness() }
}

function chosen(all: readonly Fault[]): readonly Fault[] {
  const names = listOf(values.faults)
  if (names.length === 0) return all.filter(({ isOptional }) => !isOptional)
  const list = all.map(
    ({ name, title, isOptional }) => `  ${name.padEnd(16)} ${title}${isOptional ? ' (only if named)' : ''}`,
  )
  if (names.includes('list')) {
    console.log(list.join('\n'))
    process.exit()
  }
  const unknown = names.find((name) => !all.some((fault) => fault.name === name))
  if (unknown) fail(`There is no fault ${unknown} on ${values.topology}. There are:\n${list.join('\n')}`)
  return all.filter(({ name }) => names.includes(name))
}
