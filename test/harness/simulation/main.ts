// Simulated lives, as many as you like. scripts/verify/simulate.mjs runs it.
import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { finish, numberOf, oneOf, readOptions, secondsSoFar } from '../options.js'
import { type Failure, Lives, type Report } from './lives.js'
import { TOPOLOGIES, WORKLOADS } from './plan.js'

const BATCH = 20
const PROGRESS_MS = 5_000

const values = readOptions({
  lives: { type: 'string', default: '5000' },
  minutes: { type: 'string' },
  seed: { type: 'string', default: '1' },
  workload: { type: 'string' },
  topology: { type: 'string' },
  threads: { type: 'string', default: String(availableParallelism()) },
})
const workload = values.workload === undefined ? undefined : oneOf('workload', values.workload, WORKLOADS)
const topology = values.topology === undefined ? undefined : oneOf('topology', values.topology, TOPOLOGIES)
const first = numberOf(values, 'seed')
const total = numberOf(values, 'lives')
const threads = numberOf(values, 'threads')
const startedAt = performance.now()
const endsAt = startedAt + Number(values.minutes ?? Number.POSITIVE_INFINITY) * 60_000
const tally = new Map(
  WORKLOADS.map((name) => [name, { lives: 0, grants: 0, handOffs: 0, losses: 0, troubles: 0, failovers: 0 }]),
)
const failures: Failure[] = []
const digests: string[] = []
let done = 0
let next = first

const progress = setInterval(() => console.error(stateLine()), PROGRESS_MS)
await Promise.all(Array.from({ length: Math.min(threads, Math.ceil(total / BATCH)) }, liveOn))
clearInterval(progress)

const result = {
  lives: done,
  seed: first,
  seconds: secondsSoFar(),
  livesPerMinute: perMinute(),
  /** The same for the same lives, on every Node and with any number of threads. */
  digest: createHash('sha256').update(digests.sort().join()).digest('hex'),
  failures: failures.map(({ seed, workload: name, message }) => ({
    seed,
    workload: name,
    message: firstLine(message),
  })),
}
console.log(table())
for (const failure of failures.slice(0, 3)) console.log(described(failure))
const isPassed = failures.length === 0
finish(isPassed, isPassed ? 'passed' : `FAILED: ${failures.length} of ${done} lives`, result, values)

async function liveOn(): Promise<void> {
  await using lives = new Lives()
  while (next < first + total && performance.now() < endsAt) {
    const seeds = Array.from({ length: Math.min(BATCH, first + total - next) }, (_, index) => next + index)
    next += seeds.length
    count(await lives.run({ seeds, workload, topology }))
  }
}

function count({ lives, failures: failed }: Report): void {
  done += lives.length + failed.length
  failures.push(...failed)
  for (const { seed, workload: name, message } of failed) console.error(`Seed ${seed}, ${name}: ${firstLine(message)}`)
  for (const { workload: name, grants, handOffs, losses, troubles, failovers, digest } of lives) {
    digests.push(digest)
    const sums = tally.get(name)
    if (!sums) continue
    sums.lives++
    sums.grants += grants
    sums.handOffs += handOffs
    sums.losses += losses
    sums.troubles += troubles
    sums.failovers += failovers
  }
}

function firstLine(message: string): string {
  return message.split('\n')[0] as string
}

function perMinute(): number {
  return Math.round(done / ((performance.now() - startedAt) / 60_000))
}

function stateLine(): string {
  const untilDoneS = ((total - done) / Math.max(1, perMinute())) * 60
  const leftS = Math.round(Math.max(0, Math.min(untilDoneS, (endsAt - performance.now()) / 1_000)))
  return `${done} of ${total} lives, ${perMinute()} a minute, ${failures.length} failed, ${leftS} s left`
}

function table(): string {
  const rows = [...tally].filter(([, { lives }]) => lives > 0)
  const line = (cells: readonly (string | number)[]): string =>
    cells.map((cell, at) => (at === 0 ? String(cell).padEnd(24) : String(cell).padStart(10))).join('')
  return [
    line(['', 'lives', 'holds', 'hand-offs', 'lost', 'troubles', 'failovers']),
    ...rows.map(([name, { lives, grants, handOffs, losses, troubles, failovers }]) =>
      line([name, lives, grants, handOffs, losses, troubles, failovers]),
    ),
    `${done} lives in ${secondsSoFar()} s, ${perMinute()} a minute, seeds from ${first}`,
  ].join('\n')
}

function described({ seed, workload: name, message, smallest, timeline = [] }: Failure): string {
  return [
    '',
    `Seed ${seed}, ${name}: ${message}`,
    `Again: npm run verify -- simulate --seed ${seed} --lives 1${workload ? ` --workload '${workload}'` : ''}${topology ? ` --topology '${topology}'` : ''}`,
    smallest ? `The smallest life that fails: ${smallest}` : '',
    ...timeline.slice(-80),
  ].join('\n')
}
