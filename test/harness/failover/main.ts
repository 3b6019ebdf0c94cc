// The failover suite: real servers fail while clients of every kind contend for locks. scripts/verify/failover.mjs runs it.
import { anySeed, finish, listOf, note, numberOf, oneOf, readOptions, secondsSoFar } from '../options.js'
import { ClusterTopology } from './cluster.js'
import { Fixture } from './fixture.js'
import { ManagedTopology } from './managed.js'
import { writeIntoPage } from './page.js'
import { line, table } from './report.js'
import type { Round } from './rounds.js'
import { SentinelTopology } from './sentinel.js'
import { isRed, type Result, summarize } from './summary.js'
import type { Announced, Topology } from './topology.js'

interface Stand {
  readonly topology: Topology['name']
  /** Only the fault of this name. */
  readonly announced?: Announced
  readonly start: () => Promise<Topology>
}

/** Those that take longest come first. */
const STANDS: readonly Stand[] = [
  { topology: 'cluster', start: () => ClusterTopology.start() },
  { topology: 'sentinel', start: () => SentinelTopology.start() },
  { topology: 'managed', start: () => ManagedTopology.start() },
  { topology: 'cluster', announced: 'names', start: () => ClusterTopology.start(undefined, 'names') },
  { topology: 'sentinel', announced: 'names', start: () => SentinelTopology.start('names') },
  { topology: 'sentinel', announced: 'nat', start: () => SentinelTopology.start('nat') },
]
/** They mostly wait. */
const STANDS_AT_ONCE = 3

const TOPOLOGIES = [...new Set(STANDS.map(({ topology }) => topology))]

const values = readOptions({
  rounds: { type: 'string', default: '20' },
  topology: { type: 'string', default: TOPOLOGIES.join() },
  fault: { type: 'string', default: '' },
  'no-acknowledgement': { type: 'boolean', default: false },
  seed: { type: 'string', default: anySeed() },
  markdown: { type: 'boolean', default: false },
})
const rounds = numberOf(values, 'rounds')
const seed = numberOf(values, 'seed')
const faults = listOf(values.fault)
const topologies = listOf(values.topology).map((name) => oneOf('topology', name, TOPOLOGIES))
const isControl = values['no-acknowledgement']
note(`${rounds} rounds each, seed ${seed}${isControl ? ', without acknowledgement' : ''}`)

const results = await runAll()
const seconds = secondsSoFar()

console.log(table(results, isControl))
if (values.markdown) writeIntoPage(results)
const overlaps = results.reduce((sum, { overlaps }) => sum + overlaps, 0)
const red = results.filter(isRed).length
const verdict = isControl
  ? `The control found ${overlaps} overlaps: ${overlaps > 0 ? 'the suite detects them' : 'it should have found some'}`
  : `${results.length - red} passed, ${red} failed, in ${seconds} s`
const isPassed = isControl ? overlaps > 0 : red === 0 && results.length > 0
finish(isPassed, verdict, { isControl, rounds, seed, seconds, results }, values)

async function runAll(): Promise<Result[]> {
  const chosen = STANDS.filter(
    ({ topology, announced }) => topologies.includes(topology) && (!announced || isChosen(announced)),
  )
  const results = new Map<Stand, Result[]>()
  const waiting = [...chosen]
  const lane = async () => {
    for (let stand = waiting.shift(); stand; stand = waiting.shift()) results.set(stand, await runStand(stand))
  }
  await Promise.all(Array.from({ length: STANDS_AT_ONCE }, lane))
  return chosen.flatMap((stand) => results.get(stand) ?? [])
}

async function runStand({ topology, announced, start }: Stand): Promise<Result[]> {
  const name = [topology, ...(announced ? [announced] : [])].join(' ')
  const options = isControl ? { checkLockSyncedSlaves: false } : {}
  await using fixture = new Fixture(start, options, seed, (text) => note(`${name}, ${text}`))
  const results: Result[] = []
  for (const fault of (await fixture.faults()).filter(({ id }) => isChosen(id))) {
    const done: Round[] = []
    for (let round = 1; round <= rounds; round++) {
      const result = await fixture.run(fault.id)
      note(`${name}, ${fault.id}, round ${round} of ${rounds}: ${line(result)}`)
      done.push(result)
    }
    results.push(summarize(topology, fault, done))
  }
  return results
}

function isChosen(fault: string): boolean {
  return faults.length === 0 || faults.includes(fault)
}
