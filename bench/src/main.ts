import { parseArgs } from 'node:util'
import { Bench } from './bench.js'
import { LIBRARIES } from './libraries/index.js'
import { machine, versions } from './machine.js'
import { RedisPlace } from './redis-place.js'
import { runRounds } from './rounds.js'
import { summarize } from './summary.js'
import { markdownOf, textOf } from './text.js'
import { WORKLOADS } from './workloads/index.js'

const USAGE = `npm run bench -- [options]

  --workloads w1,w3   only these: ${WORKLOADS.map(({ id }) => id).join(' ')}
  --libraries a,b     only these, tuned where they poll: ${LIBRARIES.filter(({ tuned }) => !tuned)
    .map(({ name }) => name)
    .join(' ')}
  --rounds 3          every library in every workload so many times
  --seconds 2         length of one measurement
  --json              one line of JSON instead of tables
  --markdown          the tables as Markdown`

const { values } = parseArgs({
  options: {
    workloads: { type: 'string' },
    libraries: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    markdown: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

async function main(): Promise<void> {
  if (values.help) return console.log(USAGE)
  const workloads = chosen(WORKLOADS, values.workloads, ({ id }) => id)
  const libraries = chosen(LIBRARIES, values.libraries, ({ name }) => name.replace(/-tuned$/, ''))
  const rounds = positive('--rounds', values.rounds)
  const about = machine()
  const place = await RedisPlace.start()
  const table = await runRounds(
    new Bench(place, positive('--seconds', values.seconds) * 1_000),
    workloads,
    libraries,
    rounds,
  )
  const report = {
    machine: about,
    versions: versions(libraries, await place.version()),
    rounds,
    workloads: summarize(table),
  }
  await place.stop()
  for (const workload of workloads) {
    const summary = report.workloads[workload.id]
    if (summary === undefined || values.json) continue
    console.log(values.markdown ? `${markdownOf(workload, summary)}\n` : textOf(workload, summary))
  }
  if (values.json) console.log(JSON.stringify(report))
}

function chosen<T>(all: readonly T[], names: string | undefined, nameOf: (one: T) => string): readonly T[] {
  if (names === undefined) return all
  const wanted = names.split(',')
  const unknown = wanted.filter((name) => !all.some((one) => nameOf(one) === name))
  if (unknown.length > 0) fail(`No such thing here: ${unknown.join(', ')}\n\n${USAGE}`)
  return all.filter((one) => wanted.includes(nameOf(one)))
}

function positive(option: string, text: string): number {
  const number = Number(text)
  return number > 0 ? number : fail(`${option} must be a number above 0, not ${text}`)
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143)) // takes along what was started
await main()
