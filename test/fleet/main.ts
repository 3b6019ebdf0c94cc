// The fleet as operators see it, against what its processes know. scripts/verify/fleet.mjs runs it.
import { parseArgs } from 'node:util'
import { type Agreement, agree } from './agreement.js'
import { type Breaks, breakLocks } from './breaks.js'
import { Dashboard } from './dashboard.js'
import { type DeadlockFindings, findDeadlocks, type NamedMs, type Scene } from './deadlocks.js'
import { JavaSide } from './java.js'
import { measurePageHeap } from './page-heap.js'
import { startPlace } from './place.js'
import { measureScale } from './scale.js'
import { type TopologyName, WAYS } from './ways.js'
import { Workers } from './workers.js'

const USAGE = `npm run verify -- fleet [options]

Processes hold locks of every kind; what operators are shown is compared with what each of them knows.

  --topology single   single, sentinel or cluster
  --breaks 1000       how many holders are interrupted
  --seconds 600       how long locks are taken in one order, while nobody may call it a deadlock
  --scale             instead: what a look costs Redis, with a million keys and ten thousand clients
  --page              instead: the heap of the page while 1,000 locks change each second, for --seconds
  --redisson          a JVM with the real Redisson holds locks too (needs a JDK and Maven)
  --json              the last line is the result as JSON`

const NAMED_WITHIN_MS = 2_000

interface Result {
  /** What is not as it should be. */
  readonly findings: readonly string[]
  readonly figures: object
}

const { values } = parseArgs({
  options: {
    topology: { type: 'string', default: 'single' },
    breaks: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '600' },
    scale: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    redisson: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
const startedAt = performance.now()

if (values.help) console.log(USAGE)
else if (values.scale) process.exitCode = finish('scale', await scale())
else if (values.page) process.exitCode = finish('page', await page())
else process.exitCode = finish(values.topology, await run(values.topology))
process.exit() // a JVM and servers that would not end, end with us

async function scale(): Promise<Result> {
  const { costs, found } = await measureScale()
  console.table(costs)
  log('scale', found)
  return { findings: found, figures: { costs } }
}

async function page(): Promise<Result> {
  const measured = await measurePageHeap(await startPlace('single'), numberOf('seconds'))
  const { samples, grownKb, turns, longestMs, found } = measured
  console.table(samples)
  const longest = `its longest task in 5 s: p50 ${longestMs.p50} ms, at most ${longestMs.max} ms of processor time`
  log(`page: ${turns} turns, its heap has grown by ${grownKb} KB; ${longest}`, found)
  return { findings: found, figures: measured }
}

async function run(topology: string): Promise<Result> {
  if (!isTopology(topology)) throw new Error(`no such topology: ${topology}. There are ${Object.keys(WAYS).join(', ')}`)
  const place = await startPlace(topology)
  await using workers = await Workers.start(place)
  log(`${topology}: ${workers.all.map(({ way }) => way).join(', ')}`)
  await using dashboard = await Dashboard.start(place)
  const scene = { place, workers, dashboard }
  const agreement = await agreeBeside(scene)
  log(agreementLine(agreement), agreement.differences)
  const breaks = await breakLocks(place, workers, numberOf('breaks'))
  log(breaksLine(breaks), breaks.found)
  const deadlocks = await findDeadlocks(scene, numberOf('seconds'), values.redisson)
  const late = [deadlocks.named, deadlocks.namedWithRedisson].flatMap((named) =>
    named && Math.max(...Object.values(named)) > NAMED_WITHIN_MS ? [`named after ${namedLine(named)}`] : [],
  )
  log(deadlocksLine(deadlocks), [...deadlocks.found, ...late])
  return {
    findings: [...agreement.differences, ...breaks.found, ...deadlocks.found, ...late],
    figures: { agreement, breaks, deadlocks },
  }
}

/** @returns the exit code */
function finish(what: string, { findings, figures }: Result): number {
  const isPassed = findings.length === 0
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  console.log(`${isPassed ? 'Passed' : 'FAILED'}: ${what}, in ${seconds} s`)
  if (values.json) console.log(JSON.stringify({ what, isPassed, seconds, ...figures }))
  return isPassed ? 0 : 1
}

async function agreeBeside({ place, workers, dashboard }: Scene): Promise<Agreement> {
  if (!values.redisson) return await agree(place, workers, dashboard, undefined)
  await using java = await JavaSide.start(place)
  return await agree(place, workers, dashboard, java)
}

function agreementLine({ locks, holders, waiters, compared, handOffs, differences, offMs }: Agreement): string {
  const what = `${locks} locks, ${holders} holders, ${waiters} waiters, ${handOffs} hand-offs`
  return `agreement: ${what}; ${compared} looks, ${differences.length} differences; durations off by at most ${offMs.max} ms`
}

function breaksLine({ n, p50, p99, max, violations }: Breaks): string {
  return `breaks: ${n}, until the abort p50 ${p50} ms, p99 ${p99} ms, at most ${max} ms; ${violations} violations`
}

function deadlocksLine({ named, namedWithRedisson, phantoms, suspected, looks, bodies }: DeadlockFindings): string {
  const beside = namedWithRedisson ? `, with Redisson ${namedLine(namedWithRedisson)}` : ''
  const phantom = `${phantoms} phantoms and ${suspected} suspected in ${looks} looks, ${bodies} bodies`
  return `deadlocks: named after ${namedLine(named)}${beside}; ${phantom}`
}

function namedLine({ api, command, page }: NamedMs): string {
  return `${api} ms, by holdfast ${command} ms, on the page ${page} ms`
}

function isTopology(name: string): name is TopologyName {
  return Object.hasOwn(WAYS, name)
}

function numberOf(option: 'breaks' | 'seconds'): number {
  const number = Number(values[option])
  if (!(number >= 0)) throw new Error(`--${option} takes a number`)
  return number
}

/** @param findings  what is not as it should be */
function log(text: string, findings: readonly string[] = []): void {
  console.error(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${text}`)
  for (const finding of findings) console.error(`✗ ${finding}`)
}
