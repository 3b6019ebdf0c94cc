// The failover suite: real servers fail while clients of every kind contend for locks. scripts/failover.mjs runs it.
import { parseArgs } from 'node:util'
import { ClusterTopology } from './cluster.js'
import { line, markdown, table } from './report.js'
import type { Round } from './rounds.js'
import { Scene } from './scene.js'
import { SentinelTopology } from './sentinel.js'
import { isRed, type Result, summarize } from './summary.js'
import type { Topology } from './topology.js'

const TOPOLOGIES: Record<string, () => Promise<Topology>> = {
  sentinel: () => SentinelTopology.start(),
  cluster: () => ClusterTopology.start(),
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    topology: { type: 'string', default: Object.keys(TOPOLOGIES).join() },
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
const isControl = values['no-acknowledgement']
const startedAt = performance.now()
log(`${rounds} rounds each, seed ${seed}${isControl ? ', without acknowledgement' : ''}`)

const names = values.topology.split(',')
const results = (await Promise.all(names.map(runTopology))).flat()
const seconds = Math.round((performance.now() - startedAt) / 1_000)

console.log(values.markdown ? markdown(results) : table(results, isControl))
const overlaps = results.reduce((sum, { overlaps }) => sum + overlaps, 0)
const red = results.filter(isRed).length
if (isControl)
  console.log(
    `The control found ${overlaps} overlaps: ${overlaps > 0 ? 'the suite detects them' : 'it should have found some'}`,
  )
else console.log(`${results.length - red} passed, ${red} failed, in ${seconds} s`)
if (values.json) console.log(JSON.stringify({ isControl, rounds, seed, seconds, results }))
process.exit((isControl ? overlaps > 0 : red === 0 && results.length > 0) ? 0 : 1)

async function runTopology(name: string): Promise<Result[]> {
  const start = TOPOLOGIES[name]
  if (!start) throw new Error(`no such topology: ${name}. There are ${Object.keys(TOPOLOGIES).join()}`)
  const options = isControl ? { checkLockSyncedSlaves: false } : {}
  await using scene = new Scene(start, options, seed, (text) => log(`${name}, ${text}`))
  const chosen = (await scene.faults()).filter(({ id }) => faults.length === 0 || faults.includes(id))
  const results: Result[] = []
  for (const fault of chosen) {
    const done: Round[] = []
    for (let round = 1; round <= rounds; round++) {
      const result = await scene.run(fault.id)
      log(`${name}, ${fault.id}, round ${round} of ${rounds}: ${line(result)}`)
      done.push(result)
    }
    results.push(summarize(name, fault, done))
  }
  return results
}

function log(text: string): void {
  console.error(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${text}`)
}
