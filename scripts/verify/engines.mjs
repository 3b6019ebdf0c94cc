// The tests that look at Redis itself, on each server that people run.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join, sep } from 'node:path'
import { createInterface } from 'node:readline'
import { EXIT_CODES, readOptions, wrongOption } from '../help.mjs'
import { capture, env, fail, root, since } from '../run.mjs'
import { ENGINES, fetchEngine, folderOf } from '../setup/engines.mjs'
import { ensureRedis } from '../setup/redis.mjs'
import { compileTests } from '../test/compile.mjs'
import { FILE_LIMIT_MS } from '../test/file.mjs'
import { runTestFiles } from '../test/stalls.mjs'

/**
 * The subjects, and the compiled tests that cover them. Two subjects run at once, in this order: those of many servers,
 * which take longest, not beside each other.
 */
const SUBJECTS = [
  { subject: 'sentinel', file: /topologies\/contract-sentinel\.test\.js$/ },
  { subject: 'errors', file: /redis\/redis-errors\.test\.js$/, isQuick: true },
  { subject: 'wire', file: /redis\/wire[^/]*\.test\.js$/, isQuick: true },
  { subject: 'rights', file: /docs\/rights\.test\.js$/ },
  { subject: 'waitaof', file: /redis\/waitaof[^/]*\.test\.js$/ },
  { subject: 'doctor', file: /cli\/doctor-engine\.test\.js$/ },
  { subject: 'cluster', file: /topologies\/(contract-cluster|cluster-database)\.test\.js$/ },
  { subject: 'contracts', file: /redis\/contract[^/]*\.test\.js$/ },
]
const LIMIT_MS = 10 * 60_000

const NAMES = ENGINES.map(({ name }) => name)
const HELP = `npm run verify -- engines [options]

Runs the tests that look at Redis itself on other versions of Redis and Valkey, which it fetches into .cache (Debian or
Ubuntu, x86-64): ${NAMES.join(', ')}. A version takes about
five minutes, with --quick one.

  --engine ${NAMES.slice(-2).join()}   only these
  --quick                        only what goes over the wire, and error replies
  --json                         the last line is the result as JSON
  --no-build                     with the tests as they were compiled last
  --lts                          on the newest LTS line of Node

${EXIT_CODES}`

const values = readOptions(HELP, {
  engine: { type: 'string', default: NAMES.join() },
  quick: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  'no-build': { type: 'boolean', default: false },
})
const engines = values.engine.split(',').map((name) => {
  const known = ENGINES.find((engine) => engine.name === name)
  return known ?? wrongOption(`No engine ${name}: there are ${NAMES.join(', ')}`)
})

ensureRedis()
if (!values['no-build']) compileTests()
const subjects = SUBJECTS.filter(({ isQuick }) => isQuick || !values.quick).map((one) => ({
  ...one,
  files: filesOf(one),
}))

const results = []
for (const engine of engines) results.push(await tryEngine(engine))
const ok = results.every(({ failures }) => failures.length === 0)
console.log(values.json ? JSON.stringify({ ok, engines: results }) : tableOf(results))
process.exitCode = ok ? 0 : 1

function filesOf({ subject, file }) {
  const build = join(root, 'build', 'test')
  const names = existsSync(build) ? readdirSync(build, { recursive: true, encoding: 'utf8' }) : []
  const found = names.map((name) => `build/test/${name.replaceAll(sep, '/')}`).filter((name) => file.test(name))
  return found.length > 0 ? found : fail(`No compiled tests of ${subject} in build/: run without --no-build`)
}

/** Fetches an engine and runs the tests on it. Whatever goes wrong is among the failures. */
async function tryEngine(engine) {
  const start = performance.now()
  const counts = Object.fromEntries(subjects.map(({ subject }) => [subject, { passed: 0, failed: 0, skipped: 0 }]))
  const result = { engine: engine.name, version: null, seconds: 0, subjects: counts, failures: [] }
  try {
    result.version = fetchEngine(engine)
    console.error(`${engine.name}: ${result.version} is there after ${since(start)}`)
    await runTests(engine, result)
  } catch (error) {
    result.failures.push({ subject: 'engine', test: engine.name, why: error.message })
    console.error(`${engine.name}: FAILED ${error.message}`)
  }
  result.seconds = Math.round((performance.now() - start) / 1_000)
  return result
}

async function runTests(engine, result) {
  const path = engine.isInstalled ? env.PATH : [folderOf(engine), env.PATH].join(delimiter)
  const engineEnv = { ...env, PATH: path }
  const { stdout } = capture('redis-server', ['--version'], { env: engineEnv })
  if (!engine.says.test(stdout ?? '')) throw new Error(`the tests would find another server: ${stdout}`)
  // Each in a run of its own: the tests of test/contract belong to several.
  const left = [...subjects]
  const work = async () => {
    for (let next = left.shift(); next; next = left.shift()) await runSubject(next, engineEnv, result)
  }
  await Promise.all([work(), work()])
}

async function runSubject({ subject, files }, engineEnv, result) {
  const start = performance.now()
  let outcome
  await runTestFiles(files, async (chosen, more) => {
    outcome = await runOnce(chosen, { ...engineEnv, ...more })
    for (const { test, why } of outcome.failures)
      console.error(`  ${result.engine} ${subject}: FAILED ${test}\n    ${why?.replaceAll('\n', '\n    ')}`)
    return outcome.failures.length === 0
  })
  const { counts, failures } = outcome
  result.subjects[subject] = counts
  result.failures.push(...failures.map((failure) => ({ subject, ...failure })))
  console.error(`  ${result.engine} ${subject}: ${counts.passed} passed, ${counts.failed} failed, ${since(start)}`)
}

async function runOnce(files, fileEnv) {
  const options = [
    '--enable-source-maps',
    `--import=${import.meta.resolve('../test/file.mjs')}`,
    '--test',
    `--test-reporter=${import.meta.resolve('../reporters/engines.mjs')}`,
    '--test-concurrency=2',
    `--test-timeout=${FILE_LIMIT_MS}`,
  ]
  const child = spawn(process.execPath, [...options, ...files], {
    cwd: root,
    env: fileEnv,
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: LIMIT_MS,
  })
  const closed = once(child, 'close')
  const counts = { passed: 0, failed: 0, skipped: 0 }
  const failures = []
  const failed = (test, why) => {
    counts.failed++
    failures.push({ test, why })
  }
  for await (const line of createInterface({ input: child.stdout })) {
    const { name, outcome, why } = JSON.parse(line)
    if (outcome === 'failed') failed(name, why)
    else counts[outcome]++
  }
  const [code, signal] = await closed
  if (code !== 0 && counts.failed === 0) failed('node --test', `ended with ${signal ?? code}`)
  if (counts.passed === 0) failed('node --test', 'no test passed')
  return { counts, failures }
}

/** A line for each engine, a column for each subject. */
function tableOf(all) {
  const cell = ({ passed, failed, skipped }) =>
    `${failed > 0 ? `${failed} FAILED, ` : ''}${passed} ok${skipped > 0 ? `, ${skipped} skipped` : ''}`
  const rows = [
    ['engine', 'version', ...subjects.map(({ subject }) => subject), 'time'],
    ...all.map(({ engine, version, subjects, seconds }) => [
      engine,
      version ?? 'NOT THERE',
      ...Object.values(subjects).map(cell),
      `${seconds} s`,
    ]),
  ]
  const widths = rows[0].map((_, at) => Math.max(...rows.map((row) => row[at].length)))
  return rows
    .map((row) =>
      row
        .map((text, at) => text.padEnd(widths[at]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
