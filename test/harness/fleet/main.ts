// The fleet as operators see it, against what its processes know. scripts/verify/fleet.mjs runs it.
import { finish, note, numberOf, oneOf, readOptions, secondsSoFar } from '../options.js'
import { type Agreement, agree } from './agreement.js'
import { type Breaks, breakLocks } from './breaks.js'
import { Dashboard } from './dashboard.js'
import { type DeadlockFindings, type Fixture, findDeadlocks, type NamedMs } from './deadlocks.js'
import { JavaSide } from './java.js'
import { measurePageHeap } from './page-heap.js'
import { measureScale } from './scale.js'
import { startServers } from './servers.js'
import { type TopologyName, WAYS } from './ways.js'
import { Workers } from './workers.js'

const NAMED_WITHIN_MS = 2_000

interface Result {
  /** What is not as it should be. */
  readonly findings: readonly string[]
  readonly figures: object
}

const values = readOptions({
  topology: { type: 'string', default: 'single' },
  breaks: { type: 'string', default: '1000' },
  seconds: { type: 'string', default: '600' },
  scale: { type: 'boolean', default: false },
  page: { type: 'boolean', default: false },
  redisson: { type: 'boolean', default: false },
})
const breaksWanted = numberOf(values, 'breaks')
const seconds = numberOf(values, 'seconds')
const topology = oneOf('topology', values.topology, Object.keys(WAYS) as TopologyName[])

const what = values.scale ? 'scale' : values.page ? 'page' : topology
const { findings, figures } = await (values.scale ? scale() : values.page ? page() : run())
const isPassed = findings.length === 0
const verdict = `${isPassed ? 'Passed' : 'FAILED'}: ${what}, in ${secondsSoFar()} s`
finish(isPassed, verdict, { what, isPassed, seconds: secondsSoFar(), ...figures }, values)

async function scale(): Promise<Result> {
  const { costs, found } = await measureScale()
  console.table(costs)
  log('scale', found)
  return { findings: found, figures: { costs } }
}

async function page(): Promise<Result> {
  const measured = await measurePageHeap(await startServers('single'), seconds)
  const { samples, grownKb, turns, longestMs, found } = measured
  console.table(samples)
  const longest = `its longest task in 5 s: p50 ${longestMs.p50} ms, at most ${longestMs.max} ms of processor time`
  log(`page: ${turns} turns, its heap has grown by ${grownKb} KB; ${longest}`, found)
  return { findings: found, figures: measured }
}

async function run(): Promise<Result> {
  const servers = await startServers(topology)
  await using workers = await Workers.start(servers)
  log(`${topology}: ${workers.all.map(({ way }) => way).join(', ')}`)
  await using dashboard = await Dashboard.start(servers)
  const fixture = { servers, workers, dashboard }
  const agreement = await agreeBeside(fixture)
  log(agreementLine(agreement), agreement.differences)
  const breaks = await breakLocks(servers, workers, breaksWanted)
  log(breaksLine(breaks), breaks.found)
  const deadlocks = await findDeadlocks(fixture, seconds, values.redisson)
  const late = [deadlocks.named, deadlocks.namedWithRedisson].flatMap((named) =>
    named && Math.max(...Object.values(named)) > NAMED_WITHIN_MS ? [`named after ${namedLine(named)}`] : [],
  )
  log(deadlocksLine(deadlocks), [...deadlocks.found, ...late])
  return {
    findings: [...agreement.differences, ...breaks.found, ...deadlocks.found, ...late],
    figures: { agreement, breaks, deadlocks },
  }
}

async function agreeBeside({ servers, workers, dashboard }: Fixture): Promise<Agreement> {
  if (!values.redisson) return await agree(servers, workers, dashboard, undefined)
  await using java = await JavaSide.start(servers)
  return await agree(servers, workers, dashboard, java)
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

/** @param findings  what is not as it should be */
function log(text: string, findings: readonly string[] = []): void {
  note(text)
  for (const finding of findings) console.error(`✗ ${finding}`)
}
