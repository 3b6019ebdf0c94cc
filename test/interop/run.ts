// The interop tests: every case, with every kind of lock, beside every version of Redisson. scripts/interop.mjs runs it.
import { parseArgs } from 'node:util'
import { settlesWithin, sleep } from '../support/wait-until.js'
import { Bench, Site } from './bench.js'
import { CASES, type Case, expectNoKeys } from './cases.js'
import { KINDS, type Kind, lacks } from './kinds.js'
import { text } from './redisson.js'

interface Result {
  readonly version: string
  readonly kind: Kind
  readonly case: Case
  /** `cannot`: this version or kind has no such thing. */
  readonly outcome: 'passed' | 'failed' | 'cannot'
  /** What was measured, or why it failed or cannot be. */
  readonly note: string | undefined
}

const CASE_LIMIT_MS = 60_000
/** How many cases run side by side that do not measure time. Most of what they do is wait. */
const SIDE_BY_SIDE = 4

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
const kinds = values.kinds.split(',').map((name) => KINDS.find((kind) => kind.name === name) ?? unknown(name))
const cases = CASES.filter(({ id }) => values.cases === '' || values.cases.split(',').includes(id))
if (cases.length === 0) fail(`No such case. There are: ${CASES.map(({ id }) => id).join(', ')}`)

// A case that failed may leave a call to Java that nobody waits for any more.
process.on('unhandledRejection', (reason) => tell(`Left over: ${String(reason)}`))

const results: Result[] = []
for (const version of versions) results.push(...(await runVersion(version)))

const passed = results.filter(({ outcome }) => outcome === 'passed').length
const failed = results.filter(({ outcome }) => outcome === 'failed').length
console.log(`${table()}\n`)
for (const {
  version,
  kind,
  case: { id, title },
  note,
} of results.filter(({ outcome }) => outcome === 'failed'))
  console.log(`FAILED ${id} – ${title}\n  ${kind.name}, Redisson ${version}\n  ${note?.replaceAll('\n', '\n  ')}\n`)
console.log(`${passed} passed, ${failed} failed`)
if (values.json) console.log(JSON.stringify({ passed, failed, total: passed + failed }))
process.exit(failed > 0 || passed === 0 ? 1 : 0) // JVMs and servers that would not end, end with us

async function runVersion(version: string): Promise<Result[]> {
  const jobs = kinds.flatMap((kind) => cases.map((one) => ({ kind, case: one })))
  const done: Result[] = []
  const add = (result: Result): void => {
    done.push(result)
    const { outcome, note, kind } = result
    if (outcome !== 'cannot') tell(`${version} ${kind.name} ${result.case.id}: ${outcome}${note ? ` (${note})` : ''}`)
  }
  const runnable = jobs.filter(({ kind, case: one }) => {
    const why = lacks(version, kind) ?? one.notFor?.(kind)
    if (why !== undefined) add({ version, kind, case: one, outcome: 'cannot', note: why })
    return why === undefined
  })
  const startedAt = performance.now()
  try {
    if (values.unbuilt.split(',').includes(version)) throw new Error('its Java side could not be built')
    await using site = await Site.open(values.built, version)
    tell(`${version} is up after ${seconds(startedAt)}`)
    const run = async ({ kind, case: one }: (typeof jobs)[number]): Promise<void> => {
      add({ version, kind, case: one, ...(await runCase(new Bench(site, kind, one.id), one)) })
    }
    await warmUp(site)
    const queue = runnable.filter(({ case: { alone } }) => !alone)
    const workers = Array.from({ length: SIDE_BY_SIDE }, async () => {
      for (let job = queue.shift(); job; job = queue.shift()) await run(job)
    })
    await Promise.all(workers)
    for (const job of runnable.filter(({ case: { alone } }) => alone)) await run(job)
    if (done.some(({ outcome }) => outcome === 'failed') && site.jvm.log) tell(`Redisson ${version}:\n${site.jvm.log}`)
  } catch (error) {
    for (const job of runnable.filter(({ kind, case: one }) => !done.some((r) => r.kind === kind && r.case === one)))
      add({ version, ...job, outcome: 'failed', note: `could not run: ${describe(error)}` })
  }
  tell(`${version} took ${seconds(startedAt)}`)
  return done
}

async function runCase(bench: Bench, one: Case): Promise<Pick<Result, 'outcome' | 'note'>> {
  try {
    const running = one.run(bench)
    await settlesWithin(running, CASE_LIMIT_MS)
    const note = await running
    await expectNoKeys(bench)
    return { outcome: 'passed', note }
  } catch (error) {
    return { outcome: 'failed', note: describe(error) }
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

/** One line for each case and kind, one column for each version. */
function table(): string {
  const reasons: string[] = []
  const cell = (version: string, kind: Kind, one: Case): string => {
    const result = results.find((r) => r.version === version && r.kind === kind && r.case === one)
    if (result?.outcome === 'passed') return 'pass'
    if (result?.outcome !== 'cannot') return 'FAIL'
    const reason = `${kind.name}: ${result.note}`
    if (!reasons.includes(reason)) reasons.push(reason)
    return `– (${reasons.indexOf(reason) + 1})`
  }
  const width = Math.max(...kinds.map(({ name }) => name.length))
  const columns = (cells: string[]): string => cells.map((text) => text.padEnd(9)).join('')
  const lines = kinds.flatMap((kind) =>
    cases.map((one) => {
      const cells = versions.map((version) => cell(version, kind, one))
      return `${kind.name.padEnd(width)}  ${columns(cells)}${one.title}`
    }),
  )
  return [
    `${' '.repeat(width)}  ${columns(versions)}`,
    ...lines,
    ...reasons.map((reason, index) => `(${index + 1}) ${reason}`),
  ].join('\n')
}

function unknown(name: string): never {
  fail(`No such kind: ${name}. There are: ${KINDS.map((kind) => kind.name).join(', ')}`)
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
