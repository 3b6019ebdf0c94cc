import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { Bench } from './bench.js'
import { type Curves, GROWTHS, runGrowth } from './growth.js'
import { htmlOf } from './html.js'
import { LIBRARIES } from './libraries/index.js'
import { machine, versions } from './machine.js'
import { writeMarkdown } from './markdown.js'
import { RedisPlace } from './redis-place.js'
import type { Report } from './report.js'
import { runRounds } from './rounds.js'
import { measureSizing, sizingText } from './sizing.js'
import { summarize } from './summary.js'
import { textOf } from './text.js'
import { WORKLOADS } from './workloads/index.js'

// scripts/bench.mjs has the help.
const { values } = parseArgs({
  options: {
    workloads: { type: 'string' },
    libraries: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    html: { type: 'string' },
    markdown: { type: 'boolean', default: false },
    growth: { type: 'boolean', default: false },
    sizing: { type: 'boolean', default: false },
  },
})

async function main(): Promise<void> {
  if (values.sizing) {
    const measured = await measureSizing()
    return console.log(values.json ? JSON.stringify(measured) : sizingText(measured))
  }
  const workloads = chosen(WORKLOADS, values.workloads, ({ id }) => id)
  const libraries = chosen(LIBRARIES, values.libraries, ({ name }) => name.replace(/-tuned$/, ''))
  const rounds = positive('--rounds', values.rounds)
  const seconds = positive('--seconds', values.seconds)
  const about = machine() // before the benchmark itself loads the machine
  const place = await RedisPlace.start()
  const bench = new Bench(place, seconds * 1_000)
  const table = await runRounds(bench, workloads, libraries, rounds)
  const growth: Record<string, Curves> = {}
  if (values.growth) for (const one of GROWTHS) growth[one.id] = await runGrowth(bench, one, libraries)
  const report: Report = {
    at: new Date().toISOString().slice(0, 10),
    machine: about,
    versions: versions(libraries, await place.version()),
    rounds,
    secondsEach: seconds,
    workloads: summarize(table),
    ...(values.growth && { growth }),
  }
  await bench.stop()
  if (values.html !== undefined) writeFileSync(values.html, htmlOf(report, workloads))
  if (values.markdown) writeMarkdown(report, workloads)
  if (values.json) return console.log(JSON.stringify(report))
  for (const workload of workloads) {
    const summary = report.workloads[workload.id]
    if (summary !== undefined) console.log(textOf(workload, summary))
  }
}

function chosen<T>(all: readonly T[], names: string | undefined, nameOf: (one: T) => string): readonly T[] {
  if (names === undefined) return all
  if (names === 'none') return []
  const wanted = names.split(',')
  const unknown = wanted.filter((name) => !all.some((one) => nameOf(one) === name))
  if (unknown.length > 0) fail(`Unknown: ${unknown.join(', ')}. There are ${[...new Set(all.map(nameOf))].join(', ')}`)
  return all.filter((one) => wanted.includes(nameOf(one)))
}

function positive(option: string, text: string): number {
  const number = Number(text)
  return number > 0 ? number : fail(`${option} must be a number above 0, not ${text}`)
}

/** An option is wrong. */
function fail(message: string): never {
  console.error(message)
  process.exit(2)
}

process.setMaxListeners(0) // each started process adds one
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143)) // exiting ends what was started
await main()
