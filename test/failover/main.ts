// The failover suite: real servers fail while clients of every kind contend for locks. scripts/verify/failover.mjs runs it.
import { parseArgs } from 'node:util'
import { ClusterTopology } from './cluster.js'
import { ManagedTopology } from './managed.js'
import { writeIntoPage } from './page.js'
import { line, table } from './report.js'
import type { Round } from './rounds.js'
import { Scene } from './scene.js'
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

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    topology: { type: 'string', default: TOPOLOGIES.join() },
    fault: { type: 'string', default: '' },
    'no-acknowledgement': { type: 'boolean', default: false },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    json: { type: 'boolean', default: false },
    markdown: { type: 'boolean', default: false },
  },
})
const rounds = Number(values.rounds)
const seed = Number(values.seed)
const faults = values.fault.split(',').filter((id) => id !== '')
const topologies = values.topology.split(',')
for (const name of topologies) {
  if (!TOPOLOGIES.some((known) => known === name))
    throw new Error(`no such topology: ${name}. There are ${TOPOLOGIES.join()}`)
}
const isControl = values['no-acknowledgement']
const startedAt = performance.now()
log(`${rounds} rounds each, seed ${seed}${isControl ? ', without acknowledgement' : ''}`)

const results = await runAll()
const seconds = Math.round((performance.now() - startedAt) / 1_000)

console.log(table(results, isControl))
if (values.markdown) writeIntoPage(results)
const overlaps = results.reduce((sum, { overlaps }) => sum + overlaps, 0)
const red = results.filter(isRed).length
if (isControl)
  console.log(
    `The control found ${overlaps} overlaps: ${overlaps > 0 ? 'the suite detects them' : 'it should have found some'}`,
  )
else console.log(`${results.length - red} passed, ${red} failed, in ${seconds} s`)
if (values.json) console.log(JSON.stringify({ isControl, rounds, seed, seconds, results }))
process.exit((isControl ? overlaps > 0 : red === 0 && results.length > 0) ? 0 : 1)

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
  await using scene = new Scene(start, options, seed, (text) => log(`${name}, ${text}`))
  const results: Result[] = []
  for (const fault of (await scene.faults()).filter(({ id }) => isChosen(id))) {
    const done: Round[] = []
    for (let round = 1; round <= rounds; round++) {
      const result = await scene.run(fault.id)
      log(`${name}, ${fault.id}, round ${round} of ${rounds}: ${line(result)}`)
      done.push(result)
    }
    results.push(summarize(topology, fault, done))
  }
  return results
}

function isChosen(fault: string): boolean {
  return faults.length === 0 || faults.includes(fault)
}

function log(text: string): void {
  console.error(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${text}`)
}
