// Breaks the core in one place at a time: do the tests notice?
import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, join, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Instrumenter } from '@stryker-mutator/instrumenter'
import { transform } from 'esbuild'
import { EXIT_CODES, readOptions } from '../help.mjs'
import { capture, env, fail, root, since } from '../run.mjs'
import { compileTests } from '../test/compile.mjs'

const PASS_PERCENT = 95
/** The core: the floors of docs/architecture.md from the client down. Adapters and configuration need real servers. */
const CORE = [
  /^(client|client-events|client-options|fencing|shutdown)\.ts$/,
  /^(locks|synchronizers|waiting|watchdog|delivery|wire|util)\/.*\.ts$/,
  /^lua\/variants\.ts$/,
]
/** Only make sentences for people. */
const PROSE = [/^locks\/reporting\/(who-holds|long-wait)\.ts$/, /^synchronizers\/no-permits\.ts$/]
/** Most are sentences as well; those that programs read have literal types, which the compiler checks. */
const EXCLUDED = ['StringLiteral']
/** Whether `<` became `<=`, or the like, in a comparison with the clock: it has fractions of a ms, so no two times are equal. */
const isBoundaryOfTime = (before, after) =>
  /\bnow\b/.test(before) && before.replace(/([<>])=?/, '$1') === after.replace(/([<>])=?/, '$1')
/** No fuzzing, whose random inputs would make the score random. */
const LANE = /^test\/(unit\/(?!fuzz-)|memory\/|harness\/simulation\/).*\.test\.js$/
/** The tests of one server: here on the Redis in memory. Tests that need a real one fail there, and are not run. */
const IN_MEMORY =
  /^test\/redis\/(at-least|count-down-latch|dropped-holds|extend|fenced-lock|faster-multi-lock|known-losses|leases|long-waits|lost-leases|multi-lock-members|ownership-scopes|permit-expirable-semaphore|spin-lock|with-lock)\.test\.js$/
/** Only the lives of the simulation: its other tests plant errors and test the simulation itself. */
const NAMES = { 'test/harness/simulation/simulation.test.js': 'keep every promise' }
const PROGRESS_MS = 10_000
/** How long a test file usually takes, at most. */
const MAX_USUAL_MS = 200_000
/** A test file that takes longer costs more than the compiler. */
const SLOW_MS = 3_000

const HELP = `npm run verify -- mutants [options]

Changes the core in one place at a time and runs the tests that reach this place. The changes, called mutants, come from
StrykerJS. It prints those that no test notices, and fails if those are more than ${100 - PASS_PERCENT} %. A hundred mutants take about ten
minutes on two cores, all of them hours.

  --sample 100                 only so many, at random
  --seed 1                     the same ones again; default: any
  --only locks/lease.ts:120    only in files, or at lines, with this in their place
  --workers 2                  default: one for each core
  --no-build                   with the tests as they were compiled last
  --json                       the last line is the result as JSON
  --lts                        on the newest LTS line of Node

${EXIT_CODES}`

const values = readOptions(HELP, {
  sample: { type: 'string' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  only: { type: 'string', default: '' },
  workers: { type: 'string', default: String(availableParallelism()) },
  'no-build': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
})
const start = performance.now()
const scratch = mkdtempSync(join(tmpdir(), 'holdfast-mutants-'))
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }))
const workers = Array.from({ length: Number(values.workers) }, (_, index) => copyOfBuild(`.mutants-${index + 1}`))

if (!values['no-build']) compileTests()
for (const copy of workers) copy.make()
const sources = new Map(coreFiles().map((file) => [file, readFileSync(join(root, 'src', file), 'utf8')]))
const mutants = await instrument(workers)
const sample = await choose(mutants.filter((mutant) => at(mutant).includes(values.only)))
const tests = await reach()
for (const copy of workers) copy.make()
console.error(`${sample.length} of ${mutants.length} mutants of ${sources.size} files, after ${since(start)}`)

const results = []
const progress = setInterval(() => console.error(state()), PROGRESS_MS)
await inParallel(sample, async (mutant, copy) => {
  const verdict = await judge(mutant, copy)
  results.push({ mutant, verdict })
  if (isMissed(verdict)) console.error(described(mutant, verdict))
})
clearInterval(progress)
for (const copy of workers) copy.remove()
report()

/** A copy of build/, at the same depth, since tests read files of the project. */
function copyOfBuild(name) {
  const place = join(root, name)
  const remove = () => rmSync(place, { recursive: true, force: true })
  process.on('exit', remove)
  const make = () => {
    remove()
    cpSync(join(root, 'build'), place, { recursive: true })
  }
  return { place, make, remove }
}

function coreFiles() {
  return readdirSync(join(root, 'src'), { recursive: true })
    .map((file) => file.replaceAll(sep, '/'))
    .filter((file) => CORE.some((pattern) => pattern.test(file)) && !PROSE.some((pattern) => pattern.test(file)))
    .sort()
}

/** Writes a core to the copies that counts which mutants would be reached. */
async function instrument(copies) {
  const logger = { debug() {}, info() {}, isDebugEnabled: () => false, warn: console.error }
  const files = [...sources].map(([name, content]) => ({ name, content, mutate: true }))
  const options = { plugins: [], ignorers: [], excludedMutations: EXCLUDED }
  const result = await new Instrumenter(logger).instrument(files, options)
  for (const { name, content } of result.files) for (const copy of copies) await compile(copy, name, content)
  return result.mutants
    .filter(({ status }) => status !== 'Ignored')
    .filter((mutant) => !isBoundaryOfTime(original(mutant), mutant.replacement))
}

async function compile({ place }, file, source) {
  const compilerOptions = { verbatimModuleSyntax: true }
  const { code } = await transform(source, { loader: 'ts', target: 'es2022', tsconfigRaw: { compilerOptions } })
  writeFileSync(join(place, 'src', file.replace(/ts$/, 'js')), code)
}

async function choose(from) {
  if (values.sample === undefined) return from
  const { SeededRandom } = await import(pathToFileURL(join(root, 'build/src/testing/seeded-random.js')).href)
  const random = new SeededRandom(Number(values.seed))
  const chosen = []
  while (chosen.length < Number(values.sample) && from.length > 0) {
    chosen.push(...from.splice(Math.floor(random.fraction() * from.length), 1))
  }
  return chosen
}

/** Runs every test file without a mutant: which would it reach, and how long does it take? The most specific first. */
async function reach() {
  const all = readdirSync(join(root, 'build', 'test'), { recursive: true })
  const named = all.map((file) => `test/${file.replaceAll(sep, '/')}`)
  const files = named.filter((file) => LANE.test(file) || IN_MEMORY.test(file))
  const tests = []
  await inParallel(files, async (file, copy) => {
    const startedAt = performance.now()
    const coverage = join(scratch, file.replaceAll('/', '-'))
    const options = [`--import=${import.meta.resolve('../test/mutant-coverage.mjs')}`]
    const run = await runTest(copy, file, MAX_USUAL_MS, options, { MUTANT_COVERAGE: coverage })
    if (!run.hasFinished || (run.failed.length > 0 && LANE.test(file))) fail(`${file} fails by itself\n${run.output}`)
    const hits = readdirSync(scratch).filter((name) => name.startsWith(`${basename(coverage)}-`))
    const reached = new Set(hits.flatMap((name) => Object.keys(JSON.parse(readFileSync(join(scratch, name), 'utf8')))))
    tests.push({ file, reached, known: run.failed, ms: performance.now() - startedAt })
  })
  return tests.sort((a, b) => a.ms * a.reached.size - b.ms * b.reached.size)
}

async function judge(mutant, copy) {
  const { id, fileName } = mutant
  const reaching = tests.filter(({ reached }) => reached.has(id))
  const fast = reaching.filter(({ ms }) => ms <= SLOW_MS)
  const slow = reaching.filter((test) => !fast.includes(test))
  await compile(copy, fileName, changed(mutant))
  try {
    const verdict = await noticedBy(fast, copy)
    if (verdict) return verdict
    if (!compiles(mutant, copy)) return 'does not compile'
    return (await noticedBy(slow, copy)) ?? (reaching.length > 0 ? 'survived' : 'not reached')
  } finally {
    await compile(copy, fileName, sources.get(fileName))
  }
}

/** @returns how they notice what was changed in the copy; undefined: not at all */
async function noticedBy(some, copy) {
  for (const { file, ms, known } of some) {
    const run = await runTest(copy, file, ms, [], { KNOWN_FAILURES: JSON.stringify(known) })
    if (!run.hasFinished) return run.isHung ? 'hung' : 'failed'
  }
  return undefined
}

/** `npm run check` notices what does not compile. Asked after most tests, because they are faster. */
function compiles(mutant, { place }) {
  const project = join(place, 'types')
  cpSync(join(root, 'src'), join(project, 'src'), { recursive: true })
  writeFileSync(join(project, 'src', mutant.fileName), changed(mutant))
  const compilerOptions = { noEmit: true, rootDir: 'src', noUnusedLocals: false, noUnusedParameters: false }
  const tsconfig = { extends: '../../tsconfig.json', compilerOptions, include: ['src'] }
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(tsconfig))
  return capture('tsc', ['-p', project]).ok
}

/** Takes a test for hung that lasts, or computes, for much longer than it usually lasts. */
function runTest({ place }, file, usualMs, options = [], variables = {}) {
  const reporter = `--test-reporter=${import.meta.resolve('../reporters/first-failure.mjs')}`
  const names = NAMES[file] ? [`--test-name-pattern=${NAMES[file]}`] : []
  return new Promise((resolve) => {
    const command = `ulimit -t ${Math.ceil((3 * usualMs) / 1_000) + 3}; exec "$0" "$@"`
    const settings = {
      cwd: root,
      env: { ...env, ...variables, TEST_IN_MEMORY: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    }
    const test = [process.execPath, ...options, reporter, ...names, join(place, file)]
    const child = spawn('sh', ['-c', command, ...test], settings)
    const timer = setTimeout(() => child.kill('SIGKILL'), 3 * usualMs + 20_000)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data))
    child.on('close', (_code, signal) => {
      clearTimeout(timer)
      const failed = [...output.matchAll(/^failed: (.*)$/gm)].map(([, name]) => name)
      resolve({ hasFinished: /^finished$/m.test(output), isHung: signal === 'SIGKILL', failed, output })
    })
  })
}

async function inParallel(items, work) {
  const left = [...items]
  const workOn = async (copy) => {
    for (let item = left.shift(); item; item = left.shift()) await work(item, copy)
  }
  await Promise.all(workers.map(workOn))
}

function isMissed(verdict) {
  return verdict === 'survived' || verdict === 'not reached'
}

function state() {
  const noticed = results.filter(({ verdict }) => !isMissed(verdict)).length
  return `${results.length} of ${sample.length}: ${((100 * noticed) / results.length).toFixed(1)} % noticed, ${since(start)}`
}

function report() {
  const missed = results.filter(({ verdict }) => isMissed(verdict))
  for (const { mutant, verdict } of missed) console.log(described(mutant, verdict))
  const counts = {}
  for (const { verdict } of results) counts[verdict] = (counts[verdict] ?? 0) + 1
  console.log(`${state()}; seed ${values.seed}; ${JSON.stringify(counts)}`)
  const score = (100 * (results.length - missed.length)) / results.length
  const survivors = missed.map(({ mutant, verdict }) => ({
    at: at(mutant),
    verdict,
    became: brief(mutant.replacement),
  }))
  const result = { seed: Number(values.seed), mutants: results.length, score, counts, survivors }
  if (values.json) console.log(JSON.stringify(result))
  process.exitCode = score >= PASS_PERCENT ? 0 : 1
}

function at({ fileName, location }) {
  return `src/${fileName}:${location.start.line + 1}`
}

function described(mutant, verdict) {
  return `${at(mutant)} ${verdict} (${mutant.mutatorName})\n  - ${brief(original(mutant))}\n  + ${brief(mutant.replacement)}`
}

function original(mutant) {
  return sources.get(mutant.fileName).slice(...ends(mutant))
}

function brief(code) {
  const line = code.replace(/\s+/g, ' ')
  return line.length > 160 ? `${line.slice(0, 157)}...` : line
}

function changed(mutant) {
  const source = sources.get(mutant.fileName)
  const [before, after] = ends(mutant)
  // Others replace an expression by one that binds as strongly.
  const isLoose = ['LogicalOperator', 'BooleanLiteral'].includes(mutant.mutatorName)
  return source.slice(0, before) + (isLoose ? `(${mutant.replacement})` : mutant.replacement) + source.slice(after)
}

function ends({ fileName, location }) {
  const lines = sources.get(fileName).split('\n')
  const offset = ({ line, column }) => lines.slice(0, line).reduce((sum, text) => sum + text.length + 1, column)
  return [offset(location.start), offset(location.end)]
}
