// The interop tests: every case, with every kind that it is about, with every version of Redisson, on every topology that
// this version is run on. scripts/verify/interop.mjs runs it.
import { parseArgs } from 'node:util'
import { measureSlowness } from '../support/lateness.js'
import { settlesWithin, sleep, TooLateError } from '../support/wait-until.js'
import { type Mortals, Site } from './fixture.js'
import { JavaError, text } from './redisson.js'
import { expectNoKeys } from './steps.js'
import { type Job, type SiteJob, SUITES, type Suite } from './suites.js'
import { type Setting, settingsOf, TOPOLOGIES, titleOf } from './topologies.js'

interface Result {
  readonly setting: Setting
  readonly job: Job
  /** `cannot`: this version, kind or topology has no such thing. `too slow`: it failed, and perhaps the machine is why. */
  readonly outcome: 'passed' | 'failed' | 'cannot' | 'too slow'
  /** What was measured, or why it failed or cannot be. */
  readonly note: string | undefined
}
type Outcome = Pick<Result, 'outcome' | 'note'>

const CASE_LIMIT_MS = 60_000
/** As `scripts/help.mjs` says. */
const TOO_SLOW = 3
const CELLS = { passed: 'pass', failed: 'FAIL', 'too slow': 'slow' }
/** How many cases run side by side that do not measure time. Most of what they do is wait. */
const SIDE_BY_SIDE = 8

const { values } = parseArgs({
  options: {
    built: { type: 'string', default: '' },
    versions: { type: 'string', default: '' },
    topologies: { type: 'string', default: '' },
    unbuilt: { type: 'string', default: '' },
    kinds: { type: 'string', default: '' },
    cases: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
})

const settings = settingsOf(values.versions.split(','), values.topologies)
const suites = SUITES.map(chosen).filter(({ jobs }) => jobs.length > 0)
const jobs = suites.flatMap((suite) => suite.jobs)
const known = [...new Set(TOPOLOGIES.map(({ name }) => name))].join()
if (settings.length === 0) fail(`Nothing to run. There are ${known}; all but the first need Redisson 4`)
if (jobs.length === 0) fail(`No such kind or case. There are:\n${SUITES.map(overview).join('\n')}`)

// A case that failed may leave a call to Java that nobody waits for any more.
process.on('unhandledRejection', (reason) => print(`Left over: ${String(reason)}`))

const results: Result[] = []
for (const setting of settings) results.push(...(await runSetting(setting)))

const [passed, failed, tooSlow] = (['passed', 'failed', 'too slow'] as const).map(
  (outcome) => results.filter((result) => result.outcome === outcome).length,
) as [number, number, number]
console.log(`${matrix()}\n`)
for (const { setting, job, outcome, note } of results) {
  if (outcome !== 'failed' && outcome !== 'too slow') continue
  const { id, title, kind } = job
  const what = outcome === 'failed' ? 'FAILED' : 'The machine was too slow to judge'
  console.log(
    `${what} ${id} – ${title}\n  ${kind.name}, Redisson ${titleOf(setting)}\n  ${note?.replaceAll('\n', '\n  ')}\n`,
  )
}
const slow =
  tooSlow === 0 ? '' : `; for ${tooSlow} the machine was too slow to judge: run them again while less else runs`
console.log(`${passed} passed, ${failed} failed${slow}`)
if (values.json) console.log(JSON.stringify({ passed, failed, tooSlow, total: passed + failed + tooSlow }))
// JVMs and servers that would not end, end with us.
process.exit(failed > 0 || passed === 0 ? 1 : tooSlow > 0 ? TOO_SLOW : 0)

async function runSetting(setting: Setting): Promise<Result[]> {
  const title = titleOf(setting)
  const done: Result[] = []
  const add = (result: Result): void => {
    done.push(result)
    const { outcome, note, job } = result
    if (outcome !== 'cannot') print(`${title} ${job.kind.name} ${job.id}: ${outcome}${note ? ` (${note})` : ''}`)
  }
  const about = jobs.filter((job) => job.isAbout(setting))
  if (about.length === 0) return done
  const runnable = about.filter((job) => {
    const why = job.notFor(setting)
    if (why !== undefined) add({ setting, job, outcome: 'cannot', note: why })
    return why === undefined
  })
  const startedAt = performance.now()
  const slowness = measureSlowness()
  try {
    if (values.unbuilt.split(',').includes(setting.version)) throw new Error('its Java side could not be built')
    for (const job of runnable.filter((job) => 'run' in job))
      add({ setting, job, ...(await outcomeOf(() => job.run(values.built, setting.version))) })
    const onSite = runnable.filter((job) => 'begin' in job)
    if (onSite.length === 0) return done
    const deadly = (process: keyof Mortals): SiteJob[] => onSite.filter((job) => job.dies === process)
    const mortals = { jvm: deadly('jvm').length, node: deadly('node').length, master: deadly('master').length }
    await using site = await Site.open(values.built, setting, mortals)
    print(`${title} is up after ${seconds(startedAt)}`)
    const run = async (job: SiteJob): Promise<void> => add({ setting, job, ...(await runJob(site, job)) })
    await warmUp(site)
    const queue = onSite.filter(({ alone, dies }) => !alone && !dies)
    const workers = Array.from({ length: SIDE_BY_SIDE }, async () => {
      for (let job = queue.shift(); job; job = queue.shift()) await run(job)
    })
    await Promise.all([...deadly('jvm'), ...deadly('node')].map(run).concat(workers))
    for (const job of onSite.filter(({ alone }) => alone)) await run(job)
    // Once more, with nothing of ours beside it.
    const slow = done.filter(({ outcome }) => outcome === 'too slow').map(({ job }) => job)
    for (const job of onSite.filter((one) => slow.includes(one) && !one.dies)) {
      done.splice(
        done.findIndex((result) => result.job === job),
        1,
      )
      await run(job)
    }
    await Promise.all(deadly('master').map(run)) // last: all others would feel it
    if (done.some(({ outcome }) => outcome === 'failed') && site.jvm.log) print(`Redisson ${title}:\n${site.jvm.log}`)
  } catch (error) {
    const { outcome, note } = failure(error, slowness())
    for (const job of runnable.filter((one) => !done.some((result) => result.job === one)))
      add({ setting, job, outcome, note: `could not run: ${note}` })
  } finally {
    slowness()
  }
  print(`${title} took ${seconds(startedAt)}`)
  return done
}

async function runJob(site: Site, { begin, dies }: SiteJob): Promise<Outcome> {
  const { context, run } = begin(site)
  try {
    return await outcomeOf(async () => {
      const note = await run()
      await expectNoKeys(context)
      return note
    })
  } finally {
    if (dies === 'jvm') site.doomedJvm.giveUp(context)
    if (dies === 'node') site.doomedNode.giveUp(context)
    if (dies === 'master') site.doomedMaster.giveUp(context)
  }
}

async function outcomeOf(run: () => Promise<string | undefined>): Promise<Outcome> {
  const slowness = measureSlowness()
  try {
    const running = run()
    await settlesWithin(running, CASE_LIMIT_MS)
    return { outcome: 'passed', note: await running }
  } catch (error) {
    return failure(error, slowness())
  } finally {
    slowness()
  }
}

/** @param slow  by how much timers were late meanwhile, if the machine was too slow for bounds in real time */
function failure(error: unknown, slow: string | undefined): Outcome {
  if (slow === undefined || !isLate(error)) return { outcome: 'failed', note: describe(error) }
  return { outcome: 'too slow', note: `${slow}: ${describe(error)}` }
}

/** Whether a bound in real time was missed: ours, or Redisson's for a reply of Redis. */
function isLate(error: unknown): boolean {
  return error instanceof TooLateError || (error instanceof JavaError && error.className.endsWith('TimeoutException'))
}

/** A JVM is slow at first: it loads and compiles what it runs. */
async function warmUp({ redissons, clients, backends }: Site): Promise<void> {
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
  await backends[0].admin.del('interop:warm-up')
}

/** For each suite and run one line for each case and one column for each kind; then what cannot be, and why. */
function matrix(): string {
  const reasons: string[] = []
  const tables = suites.flatMap((suite) => [
    ...settings.map((setting) => table(suite, setting, reasons)).filter((text) => text !== undefined),
    `${titles(suite)}\n`,
  ])
  return [...tables, ...reasons.map((reason, index) => `(${index + 1}) ${reason}`)].join('\n')
}

/** @param reasons  why something is impossible; the reasons of this job are added */
function table({ kinds, cases, jobs: own }: Suite, setting: Setting, reasons: string[]): string | undefined {
  const about = own.filter((job) => job.isAbout(setting))
  if (about.length === 0) return undefined
  const cell = (kind: string, id: string): string => {
    const job = about.find((one) => one.kind.name === kind && one.id === id)
    const result = results.find((one) => one.setting === setting && one.job === job)
    if (!result) return ''
    if (result.outcome !== 'cannot') return CELLS[result.outcome]
    const reason = result.note ?? ''
    if (!reasons.includes(reason)) reasons.push(reason)
    return `– (${reasons.indexOf(reason) + 1})`
  }
  const names = kinds.filter((kind) => about.some((job) => job.kind === kind)).map(({ name }) => name)
  const title = titleOf(setting)
  const first = Math.max(title.length, ...cases.map(({ id }) => id.length))
  const row = (head: string, cells: string[]): string =>
    [head.padEnd(first), ...cells.map((text, index) => text.padEnd(Math.max(names[index]?.length ?? 0, 6)))]
      .join('  ')
      .trimEnd()
  const rows = cases
    .filter(({ id }) => about.some((job) => job.id === id))
    .map(({ id }) =>
      row(
        id,
        names.map((name) => cell(name, id)),
      ),
    )
  return [row(title, names), ...rows, ''].join('\n')
}

function titles({ cases: all, jobs: own }: Suite): string {
  const cases = all.filter(({ id }) => results.some(({ job }) => job.id === id && own.some((one) => one === job)))
  const first = Math.max(...cases.map(({ id }) => id.length))
  return cases.map(({ id, title }) => `${id.padEnd(first)}  ${title}`).join('\n')
}

/** The part of a suite with the requested kinds and cases. */
function chosen({ kinds, cases, jobs: all }: Suite): Suite {
  const isWanted = (wanted: string, name: string) => wanted === '' || wanted.split(',').includes(name)
  const left = all.filter(({ kind, id }) => isWanted(values.kinds, kind.name) && isWanted(values.cases, id))
  return {
    kinds: kinds.filter((kind) => left.some((job) => job.kind === kind)),
    cases: cases.filter(({ id }) => left.some((job) => job.id === id)),
    jobs: left,
  }
}

function overview({ kinds, cases }: Suite): string {
  return `${kinds.map(({ name }) => name).join(', ')}: ${cases.map(({ id }) => id).join(', ')}`
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

/** Progress goes to stderr, results to stdout. */
function print(progress: string): void {
  console.error(progress)
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`
}
