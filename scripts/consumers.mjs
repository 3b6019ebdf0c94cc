// npm run consumers -- [--full] [--only jest-29,esbuild] [--json] [--no-build] [--keep]
// Installs the packed package into projects such as users have (test/consumers), compiles them and takes a lock in each.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, env, fail, root, run, since } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

/** How many projects are installed and checked at once. */
const AT_ONCE = 2
const LIMIT_MS = 90_000
const HOME = join(root, 'test', 'consumers')
/** What every project takes its lock with: it is installed beside the package. */
const HELPER = 'take-a-lock'

const { values } = parseArgs({
  options: {
    full: { type: 'boolean', default: false },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
    'no-build': { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
})

const consumers = readdirSync(HOME)
  .filter((name) => name !== HELPER)
  .map((name) => ({ name, ...JSON.parse(readFileSync(join(HOME, name, 'package.json'), 'utf8')) }))
const only = values.only?.split(',')
for (const name of only ?? []) {
  if (!consumers.some((one) => one.name === name))
    fail(`No consumer ${name}: there are ${consumers.map(({ name }) => name).join(', ')}`)
}
const chosen = consumers.filter(({ name, consumer }) => (only ? only.includes(name) : values.full || consumer.isCore))

ensureRedis(['redis-server'])
if (!values['no-build']) run(process.execPath, ['scripts/build.mjs'], { stdio: ['ignore', 2, 2] })
const work = mkdtempSync(join(tmpdir(), 'holdfast-consumers-'))
const start = performance.now()
const results = []
const redis = await startRedis()
try {
  const tarball = pack()
  const left = [...chosen]
  const next = async () => {
    for (let one = left.shift(); one; one = left.shift()) results.push(...(await tryConsumer(one, tarball)))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, next))
} finally {
  redis.child.kill()
  if (values.keep) console.error(`The projects are in ${work}`)
  else rmSync(work, { recursive: true, force: true })
}
const ok = results.every((result) => result.ok)
if (values.json) console.log(JSON.stringify({ ok, seconds: Math.round((performance.now() - start) / 1_000), results }))
else printTable()
process.exitCode = ok ? 0 : 1

/** The package as npm would publish it. */
function pack() {
  const { ok, stdout, output } = capture('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', work])
  if (!ok) fail(output)
  const [{ filename }] = Object.values(JSON.parse(stdout))
  return join(work, filename)
}

async function startRedis() {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', work]
  const child = spawn('redis-server', args, { stdio: 'ignore' })
  process.on('exit', () => child.kill())
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  return { child, url: `redis://127.0.0.1:${port}` }
}

/** One result for each script `check:…` of the project. */
async function tryConsumer({ name, ...manifest }, tarball) {
  const began = performance.now()
  const home = join(work, name)
  cpSync(join(HOME, name), home, { recursive: true })
  cpSync(join(HOME, HELPER), join(work, `${name}-helper`), { recursive: true })
  const dependencies = {
    ...manifest.dependencies,
    holdfast: `file:${tarball}`,
    [HELPER]: `file:${join(work, `${name}-helper`)}`,
  }
  writeFileSync(join(home, 'package.json'), JSON.stringify({ ...manifest, name, dependencies }))
  const checks = Object.keys(manifest.scripts).filter((script) => script.startsWith('check:'))
  const installed = await npm(home, ['install', '--no-audit', '--no-fund', '--no-package-lock', '--prefer-offline'])
  const seconds = secondsSince(began)
  console.error(`${name}: installed in ${since(began)}`)
  if (!installed.ok) return [{ consumer: name, check: 'npm install', ok: false, seconds, output: installed.output }]
  const own = []
  for (const script of checks) {
    const checkBegan = performance.now()
    const { ok, output } = await npm(home, ['run', '--silent', script])
    const check = script.replace('check:', '')
    console.error(`${name}, ${check}: ${ok ? 'ok' : `FAILED\n${output}`}`)
    own.push({ consumer: name, check, ok, seconds: secondsSince(checkBegan), ...(ok ? {} : { output }) })
  }
  return own
}

/** Asynchronous, unlike `capture`: two projects at once. */
async function npm(cwd, args) {
  // Not the programs of this repository.
  const PATH = env.PATH.split(delimiter)
    .filter((path) => !path.startsWith(root))
    .join(delimiter)
  const ownEnv = { ...env, PATH, REDIS_URL: redis.url, NODE_OPTIONS: '', CI: '1' }
  // A process group, so that what npm has started ends as well.
  const child = spawn('npm', args, { cwd, env: ownEnv, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  const timer = setTimeout(() => {
    output += `\nended after ${LIMIT_MS / 1_000} s`
    process.kill(-child.pid, 'SIGKILL')
  }, LIMIT_MS)
  const [code] = await once(child, 'close')
  clearTimeout(timer)
  return { ok: code === 0, output }
}

function secondsSince(began) {
  return Math.round((performance.now() - began) / 100) / 10
}

function printTable() {
  const rows = [
    ['consumer', 'check', 'result', 'time'],
    ...results.map(({ consumer, check, ok, seconds }) => [consumer, check, ok ? 'ok' : 'FAILED', `${seconds} s`]),
  ]
  const widths = rows[0].map((_, at) => Math.max(...rows.map((row) => row[at].length)))
  for (const row of rows)
    console.log(
      row
        .map((text, at) => text.padEnd(widths[at]))
        .join('  ')
        .trimEnd(),
    )
  console.log(`${results.filter(({ ok }) => ok).length} of ${results.length} ok in ${since(start)}`)
}
