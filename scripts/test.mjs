// npm test -- [--no-build] [part of a path …] [--test-name-pattern=… or any other option of `node --test`]
import { existsSync, readdirSync } from 'node:fs'
import { join, sep } from 'node:path'
import { compileTests } from './compile-tests.mjs'
import { fail, root, run } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'
import { FILE_LIMIT_MS } from './test-limit.mjs'

const TEST_LIMIT_MS = 120_000
const ALL_LIMIT_MS = 15 * 60_000

const args = process.argv.slice(2)
const options = args.filter((arg) => arg.startsWith('-') && arg !== '--no-build')
const filters = args.filter((arg) => !arg.startsWith('-'))
const build = join(root, 'build')

ensureRedis()
if (!args.includes('--no-build')) compileTests()
if (!existsSync(join(build, 'test'))) fail('No compiled tests in build/: run without --no-build')

const files = readdirSync(join(build, 'test'), { recursive: true })
  .filter((file) => file.endsWith('.test.js'))
  .map((file) => `test/${file.replaceAll(sep, '/')}`)
  .filter((file) => filters.length === 0 || filters.some((part) => file.replace(/js$/, 'ts').includes(part)))
  .sort()
if (files.length === 0) fail(`No test file${filters.length > 0 ? ` has ${filters.join(' or ')} in its path` : ''}`)

// On Node 20 --test-timeout limits a whole file, later each test.
const limit = Number.parseInt(process.versions.node, 10) < 22 ? FILE_LIMIT_MS : TEST_LIMIT_MS
console.log(`Test files: ${files.length}. Node ${process.version}`)
run(
  process.execPath,
  [
    '--enable-source-maps',
    `--import=${import.meta.resolve('./test-limit.mjs')}`,
    '--test',
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    `--test-reporter=${import.meta.resolve('./unfinished-reporter.mjs')}`,
    '--test-reporter-destination=stderr',
    '--test-concurrency=3',
    `--test-timeout=${limit}`,
    ...options,
    ...files.map((file) => `build/${file}`),
  ],
  { timeout: ALL_LIMIT_MS },
)
