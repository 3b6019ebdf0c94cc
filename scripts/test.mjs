// npm test -- [options] [part of a path …]: see --help.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join, sep } from 'node:path'
import { EXIT_CODES, showHelp } from './help.mjs'
import { capture, env, fail, root } from './run.mjs'
import { ensureChromium } from './setup/chromium.mjs'
import { ensureRedis } from './setup/redis.mjs'
import { compileTests } from './test/compile.mjs'
import { FILE_LIMIT_MS } from './test/file.mjs'
import { runTestFiles } from './test/stalls.mjs'

/** The fast lane: at most 60 s on two cores. redis/contract.test.ts has every kind of lock once. */
const FAST = [
  /^test\/(unit|harness|memory|package)\//,
  /^test\/docs\/(configuration|guarantees|names|pages)\.test/,
  /^test\/support\/(late-copies|lateness|servers\/tcp-proxy)\.test/,
  /^test\/redis\/(contract|differential)\.test/,
]
/** They use the sources, and not the package as it is published. */
const SOURCES_ONLY = /^test\/(unit|memory|harness|property)\//
const OURS = ['--full', '--except-fast', '--stress', '--no-build']
const TEST_LIMIT_MS = 120_000

showHelp(`npm test -- [options] [part of a path …]

Runs the tests that have one of these parts in their path, or the fast lane, which takes about a minute; the tests start
their own servers. npm run test:full is --full, which takes about 12 minutes on two cores, and npm run test:lts runs them on
the newest LTS line of Node.

  --full           every test
  --except-fast    with --full: without the fast lane
  --stress         beside four busy processes, for which no test may fail (needs stress-ng)
  --no-build       with the tests as they were compiled last

Any other option is for node --test: --test-name-pattern=renewal.

${EXIT_CODES}`)

const args = process.argv.slice(2)
const has = Object.fromEntries(OURS.map((name) => [name, args.includes(name)]))
const options = args.filter((arg) => arg.startsWith('-') && !OURS.includes(arg))
const filters = args.filter((arg) => !arg.startsWith('-'))
/** How much longer everything may take. */
const patience = has['--stress'] ? 4 : 1
/** Nightly, a single test may run for hours. */
const longMs = Number(process.env.TEST_FILE_LIMIT_MS ?? 0)
const fileLimitMs = patience * FILE_LIMIT_MS
const limitMs = Math.max(patience * 30 * 60_000, longMs)
const build = join(root, 'build')

ensureRedis()
if (has['--stress']) startStress()

const all = readdirSync(join(root, 'test'), { recursive: true })
  .filter((file) => file.endsWith('.test.ts') && !file.startsWith('consumers'))
  .map((file) => `test/${file.replaceAll(sep, '/').replace(/ts$/, 'js')}`)
  .sort()
for (const part of filters) if (!all.some(isNamed(part))) fail(`No test file has ${part} in its path`)
for (const pattern of FAST)
  if (!all.some((file) => pattern.test(file))) fail(`No test file of the fast lane is ${pattern}`)
const files = all.filter(filters.length > 0 ? (file) => filters.some((part) => isNamed(part)(file)) : isInLane)

if (!has['--no-build']) compileTests({ needsDist: !files.every((file) => SOURCES_ONLY.test(file)) })
if (!existsSync(join(build, 'test'))) fail('No compiled tests in build/: run without --no-build')

if (files.some((file) => file.startsWith('test/dashboard/page-'))) env.CHROMIUM = ensureChromium()

// On Node 20 --test-timeout limits a whole file, later each test.
const testLimitMs =
  Number.parseInt(process.versions.node, 10) < 22 ? fileLimitMs : Math.max(patience * TEST_LIMIT_MS, longMs)
console.log(`Test files: ${files.length}. Node ${process.version}`)
process.exitCode = (await runTestFiles(
  files.map((file) => `build/${file}`),
  runOnce,
))
  ? 0
  : 1

async function runOnce(chosen, more) {
  const child = spawn(
    process.execPath,
    [
      '--enable-source-maps',
      `--import=${import.meta.resolve('./test/file.mjs')}`,
      '--test',
      '--test-reporter=spec',
      '--test-reporter-destination=stdout',
      `--test-reporter=${import.meta.resolve('./reporters/unfinished.mjs')}`,
      '--test-reporter-destination=stderr',
      '--test-concurrency=4', // most wait for leases
      `--test-timeout=${testLimitMs}`,
      ...options,
      ...chosen,
    ],
    {
      cwd: root,
      env: { ...env, ...more, TEST_FILE_LIMIT_MS: String(fileLimitMs) },
      stdio: 'inherit',
      timeout: limitMs,
    },
  )
  const [code, signal] = await once(child, 'close')
  if (signal) console.error(`node --test was ended by ${signal} after ${limitMs / 1000} s`)
  return code === 0
}

function isNamed(part) {
  return (file) => file.replace(/js$/, 'ts').includes(part)
}

function isInLane(file) {
  const isFast = FAST.some((pattern) => pattern.test(file))
  return has['--full'] ? !(isFast && has['--except-fast']) : isFast
}

/** Four processes compute for as long as the tests run: no test may fail because the machine is slow. */
function startStress() {
  const advice = '--stress needs stress-ng: apt-get install stress-ng, or brew install stress-ng'
  if (!capture('stress-ng', ['--version']).ok) fail(advice)
  const stress = spawn('stress-ng', ['--cpu', '4', '--timeout', `${limitMs / 1000}s`], { env, stdio: 'ignore' })
  stress.unref()
  process.on('exit', () => stress.kill())
}
