// Chaos: every kind of lock at once while connections, processes and servers fail. scripts/verify/chaos.mjs runs it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
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

const USAGE = `npm run verify -- chaos [options]

Processes contend for every kind of lock and synchronizer while connections, processes and servers fail.

  --seconds 60         how long faults happen; then all must work again
  --seed 1             the same choices again, not the same timing; default: any
  --topology single    single, sentinel or cluster
  --faults cut,kill    only these; default: all but lost-locks. "list" lists them
  --workers 4          processes; every other one may be killed
  --tasks 6            tasks in each
  --redisson           a JVM with the real Redisson takes the same locks (needs a JDK and Maven)
  --control            only the controls: locks that are broken on purpose, which the verdicts have to find
  --timeline FILE      where the timeline goes (HTML); default .cache/chaos/<topology>-<seed>.html
  --json               the last line is the result as JSON

Passes if nothing is violated or stuck and every broken lock of the controls was found.`

type Verdict = [isPassed: boolean, verdict: string, result: object]

const values = readOptions(
  {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: anySeed() },
    topology: { type: 'string', default: 'single' },
    faults: { type: 'string', default: '' },
    workers: { type: 'string', default: '4' },
    tasks: { type: 'string', default: '6' },
    redisson: { type: 'boolean', default: false },
    control: { type: 'boolean', default: false },
    timeline: { type: 'string' },
  },
  USAGE,
)
const seconds = numberOf(values, 'seconds')
const seed = numberOf(values, 'seed')

finish(...(await (values.control ? control() : chaos())), values)

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
  const controls = await controlRun()
  const report = reportOf({ seconds, seed, topology: topology.name }, outcome, controls)
  console.log(`${table(report, outcome)}\n\nControls: locks that are broken on purpose\n${tableOfControls(controls)}\n`)
  const file = resolve(values.timeline ?? `.cache/chaos/${topology.name}-${seed}.html`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, timelineOf(outcome, `${topology.name}, seed ${seed}, ${seconds} s`))
  console.log(`Timeline: ${file}`)
  return [isPassed(report), isPassed(report) ? 'passed' : 'FAILED', report]
}

async function control(): Promise<Verdict> {
  const controls = await controlRun()
  const controlsRed = controls.every(({ isRed }) => isRed)
  console.log(tableOfControls(controls))
  const verdict = controlsRed ? 'Every broken lock was found' : 'A broken lock was NOT found'
  return [controlsRed, verdict, { controlsRed, controls }]
}

async function controlRun(): Promise<Tried[]> {
  note('controls: one process breaks its locks')
  return await runControls(seed, (text) => note(`controls: ${text}`))
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
