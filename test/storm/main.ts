// The storm: every kind of lock at once while connections and processes fail. scripts/storm.mjs runs it.
import { parseArgs } from 'node:util'
import { connect } from '../../src/index.js'
import { randomFrom } from '../support/random.js'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { sleep } from '../support/wait-until.js'
import { FAULTS } from './faults.js'
import { MOST_INSIDE, PERMITS, SEMAPHORE } from './messages.js'
import { isPassed, judge, table, type Verdict } from './verdict.js'
import { Workers } from './workers.js'

/** The mean time between faults. */
const EVERY_MS = 120
/** By then, leases of killed processes and late copies have ended. */
const QUIET_MS = 20_000

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    workers: { type: 'string', default: '4' },
    tasks: { type: 'string', default: '6' },
    control: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
})
const seconds = Number(values.seconds)
const seed = Number(values.seed)
const isControl = values.control
console.error(`${seconds} s, seed ${seed}${isControl ? ', control: some workers enter without a lock' : ''}`)

const verdict = await storm()
console.log(table(verdict))
if (isControl)
  console.log(
    verdict.overlaps > 0 ? 'The overlaps of the control were found' : 'The overlaps of the control were NOT found',
  )
else console.log(isPassed(verdict) ? 'passed' : 'FAILED')
if (values.json) console.log(JSON.stringify(verdict))
process.exit(isPassed(verdict) ? 0 : 1)

async function storm(): Promise<Verdict> {
  await using server = await startRedis()
  await using red1 = await startRedis()
  await using red2 = await startRedis()
  await using red3 = await startRedis()
  const reds = [red1, red2, red3]
  await prepare(server)
  await using workers = new Workers(server.port)
  for (let n = 0; n < Number(values.workers); n++) {
    await workers.start({
      redUrls: reds.map(({ url }) => url),
      seed: seed + n,
      tasks: Number(values.tasks),
      isMortal: n % 2 === 1,
      isControl: isControl && n === 0,
    })
  }
  const faults = await rage(workers, server)
  await workers.end()
  const { summaries } = workers
  const latches = summaries.flatMap((summary) => summary.latches)
  const keysLeft = await leftOver([server, ...reds], latches)
  return {
    seconds,
    seed,
    isControl,
    faults,
    ...judge(workers.sections),
    permits: await permitsIn(server),
    keysLeft,
    neverSettled: summaries.flatMap(({ pending }) => pending),
    failures: [...workers.failures, ...summaries.flatMap(({ failures }) => failures)],
    errors: added(summaries.map(({ errors }) => errors)),
  }
}

async function prepare({ url }: RedisServer): Promise<void> {
  const client = await connect(url)
  await client.getPermitExpirableSemaphore(PERMITS).trySetPermits(MOST_INSIDE)
  await client.getSemaphore(SEMAPHORE).trySetPermits(MOST_INSIDE)
  await client.close()
}

/** Faults at random times, also while others last. */
async function rage(workers: Workers, server: RedisServer): Promise<Record<string, number>> {
  const next = randomFrom(seed)
  const random = (n: number): number => Math.floor(next() * n)
  const bag = FAULTS.flatMap(([name, weight, fault]) => Array.from({ length: weight }, () => ({ name, fault })))
  const counts: Record<string, number> = {}
  const struck: Promise<unknown>[] = []
  const endsAt = performance.now() + seconds * 1_000
  await sleep(2_000)
  while (performance.now() < endsAt) {
    await sleep(random(2 * EVERY_MS))
    const { name, fault } = bag[random(bag.length)] as (typeof bag)[number]
    counts[name] = (counts[name] ?? 0) + 1
    struck.push(Promise.resolve(fault({ workers, server, random })))
  }
  await Promise.all(struck)
  return counts
}

async function permitsIn({ url }: RedisServer): Promise<Record<string, number>> {
  const client = await connect(url)
  const expirable = client.getPermitExpirableSemaphore(PERMITS)
  const counts = {
    [PERMITS]: await expirable.availablePermits(),
    [SEMAPHORE]: await client.getSemaphore(SEMAPHORE).availablePermits(),
  }
  await client.close()
  return counts
}

/** Keys that remain when all leases have ended, except those meant to stay. */
async function leftOver(servers: readonly RedisServer[], latches: readonly string[]): Promise<string[]> {
  const endsAt = performance.now() + QUIET_MS
  for (;;) {
    const left: string[] = []
    for (const { admin } of servers) {
      for (const key of await admin.keys('*')) if (!(await mayStay(key, latches, () => admin.pttl(key)))) left.push(key)
    }
    if (left.length === 0 || performance.now() > endsAt) return left
    await sleep(500)
  }
}

async function mayStay(key: string, latches: readonly string[], ttl: () => Promise<number>): Promise<boolean> {
  if (key === PERMITS || key === SEMAPHORE || key.startsWith('redisson_lock_token:') || latches.includes(key))
    return true
  // Idempotency keys and generations of semaphores expire.
  return /^holdfast_(idempotency|generation):/.test(key) && (await ttl()) > 0
}

function added(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sum: Record<string, number> = {}
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + count
  }
  return sum
}
