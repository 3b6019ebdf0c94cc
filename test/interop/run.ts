// The interop tests: every case, with every kind of lock, beside every version of Redisson. scripts/interop.mjs runs it.
import { parseArgs } from 'node:util'
import { settlesWithin, sleep } from '../support/wait-until.js'
import { Bench, type Mortals, Site } from './bench.js'
import { CASES, type Case } from './cases.js'
import { KINDS, type Kind, kindOf, lacks } from './kinds.js'
import { text } from './redisson.js'
import { expectNoKeys } from './steps.js'

interface Job {
  readonly kind: Kind
  readonly case: Case
}

interface Result extends Job {
  readonly version: string
  /** `cannot`: this version or kind has no such thing. */
  readonly outcome: 'passed' | 'failed' | 'cannot'
  /** What was measured, or why it failed or cannot be. */
  readonly note: string | undefined
}

const CASE_LIMIT_MS = 60_000
/** How many cases run side by side that do not measure time. Most of what they do is wait. */
const SIDE_BY_SIDE = 8

const { values } = parseArgs({
  options: {
    built: { type: 'string', default: '' },
    versions: { type: 'string', default: '' },
    unbuilt: { type: 'string', default: '' },
    kinds: { type: 'string', default: KINDS.map(({ name }) => name).join() },
    cases: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
})

const versions = values.versions.split(',')
const kinds = chosenKinds()
const cases = CASES.filter(({ id }) => values.cases === '' || values.cases.split(',').includes(id))
const jobs = kinds.flatMap((kind) => cases.filter((one) => isAbout(one, kind)).map((one) => ({ kind, case: one })))
if (jobs.length === 0) fail(`No such case. There are: ${CASES.map(({ id }) => id).join(', ')}`)

// A case that failed may leave a call to Java that nobody waits for any more.
process.on('unhandledRejection', (reason) => tell(`Left over: ${String(reason)}`))

const results: Result[] = []
for (const version of versions) results.push(...(await runVersion(version)))

const passed = results.filter(({ outcome }) => outcome === 'passed').length
const failed = results.filter(({ outcome }) => outcome === 'failed').length
console.log(`${matrix()}\n`)
for (const { version, kind, case: one, note } of results.filter(({ outcome }) => outcome === 'failed'))
  console.log(
    `FAILED ${one.id} – ${one.title}\n  ${kind.name}, Redisson ${version}\n  ${note?.replaceAll('\n', '\n  ')}\n`,
  )
console.log(`${passed} passed, ${failed} failed`)
if (values.json) console.log(JSON.stringify({ passed, failed, total: passed + failed }))
process.exit(failed > 0 || passed === 0 ? 1 : 0) // JVMs and servers that would not end, end with us

async function runVersion(version: string): Promise<Result[]> {
  const done: Result[] = []
  const add = (result: Result): void => {
    done.push(result)
    const { outcome, note, kind } = result
    if (outcome !== 'cannot') tell(`${version} ${kind.name} ${result.case.id}: ${outcome}${note ? ` (${note})` : ''}`)
  }
  const runnable = jobs.filter((job) => {
    const why = lacks(version, job.kind) ?? job.case.notFor?.(job.kind, version)
    if (why !== undefined) add({ version, ...job, outcome: 'cannot', note: why })
    return why === undefined
  })
  const startedAt = performance.now()
  try {
    if (values.unbuilt.split(',').includes(version)) throw new Error('its Java side could not be built')
    const deadly = (process: keyof Mortals): Job[] => runnable.filter((job) => job.case.dies === process)
    const mortals = { jvm: deadly('jvm').length, node: deadly('node').length }
    await using site = await Site.open(values.built, version, mortals)
    tell(`${version} is up after ${seconds(startedAt)}`)
    const run = async (job: Job): Promise<void> => add({ version, ...job, ...(await runJob(site, job)) })
    await warmUp(site)
    const queue = runnable.filter(({ case: { alone, dies } }) => !alone && !dies)
    const workers = Array.from({ length: SIDE_BY_SIDE }, async () => {
      for (let job = queue.shift(); job; job = queue.shift()) await run(job)
    })
    await Promise.all([...deadly('jvm'), ...deadly('node')].map(run).concat(workers))
    for (const job of runnable.filter(({ case: { alone } }) => alone)) await run(job)
    if (done.some(({ outcome }) => outcome === 'failed') && site.jvm.log) tell(`Redisson ${version}:\n${site.jvm.log}`)
  } catch (error) {
    for (const job of runnable.filter(({ kind, case: one }) => !done.some((r) => r.kind === kind && r.case === one)))
      add({ version, ...job, outcome: 'failed', note: `could not run: ${describe(error)}` })
  }
  tell(`${version} took ${seconds(startedAt)}`)
  return done
}

async function runJob(site: Site, { kind, case: one }: Job): Promise<Pick<Result, 'outcome' | 'note'>> {
  const bench = new Bench(site, kind, `interop:${kind.name}:${one.id}`)
  try {
    const running = one.run(bench)
    await settlesWithin(running, CASE_LIMIT_MS)
    const note = await running
    await expectNoKeys(bench)
    return { outcome: 'passed', note }
  } catch (error) {
    return { outcome: 'failed', note: describe(error) }
  } finally {
    if (one.dies === 'jvm') site.doomedJvm.giveUp(bench)
    if (one.dies === 'node') site.doomedNode.giveUp(bench)
  }
}

/** A JVM is slow at first: it loads and compiles what it runs. */
async function warmUp({ redissons, clients, servers }: Site): Promise<void> {
  const [redisson] = redissons
  const lock = await redisson.lock('getLock', text('interop:warm-up'))
  const node = clients[0].getLock('interop:warm-up')
  const startedAt = performance.now()
  while (performance.now() - startedAt < 1_000) {
    const hold = await node.lock()
    const waiter = lock.by('warm-up').lock()
    await sleep(5)
    await hold.unlock()
    await waiter
    await lock.by('warm-up').unlock()
  }
  await servers[0].admin.del('interop:warm-up')
}

/** For each version one line for each case and one column for each kind; then what cannot be, and why. */
function matrix(): string {
  const reasons: string[] = []
  const cell = (version: string, kind: Kind, one: Case): string => {
    const result = results.find((r) => r.version === version && r.kind === kind && r.case === one)
    if (!result) return ''
    if (result.outcome !== 'cannot') return result.outcome === 'passed' ? 'pass' : 'FAIL'
    const reason = result.note ?? ''
    if (!reasons.includes(reason)) reasons.push(reason)
    return `– (${reasons.indexOf(reason) + 1})`
  }
  const first = Math.max(...cases.map(({ id }) => id.length))
  const row = (head: string, cells: string[]): string =>
    [head.padEnd(first), ...cells.map((text, index) => text.padEnd(Math.max(kinds[index]?.name.length ?? 0, 6)))]
      .join('  ')
      .trimEnd()
  const heads = kinds.map(({ name }) => name)
  const tables = versions.flatMap((version) => [
    row(version, heads),
    ...cases.map((one) =>
      row(
        one.id,
        kinds.map((kind) => cell(version, kind, one)),
      ),
    ),
    '',
  ])
  return [
    ...tables,
    ...cases.map(({ id, title }) => `${id.padEnd(first)}  ${title}`),
    '',
    ...reasons.map((reason, index) => `(${index + 1}) ${reason}`),
  ].join('\n')
}

function isAbout({ kinds: about }: Case, { name }: Kind): boolean {
  return about?.includes(name) ?? true
}

function chosenKinds(): Kind[] {
  try {
    return values.kinds.split(',').map(kindOf)
  } catch (error) {
    return fail((error as Error).message)
  }
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

/** Progress goes to stderr, results to stdout. */
function tell(progress: string): void {
  console.error(progress)
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`
}
