// The packed package in projects such as users have: installed, compiled, and a lock taken in each.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { build } from 'esbuild'
import { CONSUMERS } from '../../test/consumers/table.mjs'
import { EXIT_CODES, readOptions, wrongOption } from '../help.mjs'
import { capture, env, fail, root, since } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'
import { startRedis } from '../setup/start-redis.mjs'
import { compileTests } from '../test/compile.mjs'

/** How many projects are installed and checked at once. */
const AT_ONCE = 2
const LIMIT_MS = 180_000
const HOME = join(root, 'test', 'consumers')
/** The helper with which every project takes its lock: it is installed beside the package. */
const HELPER = 'take-a-lock'

const HELP = `npm run verify -- consumers [options]

Installs the packed package into the projects of test/consumers/table.mjs, with their tools from the npm registry, compiles
them and takes a lock in each. Those with isCore take about two minutes, all of them about a quarter of an hour.

  --full                    all projects
  --only jest-29,esbuild    only these; an unknown one lists all
  --json                    the last line is the result as JSON
  --no-build                with dist/ as it is
  --keep                    leaves the projects where they are, and says where
  --lts                     on the newest LTS line of Node

${EXIT_CODES}`

const values = readOptions(HELP, {
  full: { type: 'boolean', default: false },
  only: { type: 'string' },
  json: { type: 'boolean', default: false },
  'no-build': { type: 'boolean', default: false },
  keep: { type: 'boolean', default: false },
})

const only = values.only?.split(',')
for (const name of only ?? []) {
  if (!CONSUMERS.some((one) => one.name === name))
    wrongOption(`No consumer ${name}: there are ${CONSUMERS.map(({ name }) => name).join(', ')}`)
}
const chosen = CONSUMERS.filter(({ name, isCore }) => (only ? only.includes(name) : values.full || isCore))

ensureRedis(['redis-server'])
if (!values['no-build']) compileTests() // and the package; Bun and Deno run some of the tests
const work = mkdtempSync(join(tmpdir(), 'holdfast-consumers-'))
const start = performance.now()
const results = []
const redis = await startRedis(work)
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
  // Without `prepack`, which rewrites the links of README.md in place: tests beside this one read it.
  const { ok, output } = capture('npm', ['pack', '--ignore-scripts', '--pack-destination', work])
  if (!ok) fail(output)
  return join(
    work,
    readdirSync(work).find((file) => file.endsWith('.tgz')),
  )
}

/** One result for each check of the project. */
async function tryConsumer({ name, files, page, sources = [], dependencies, checks }, tarball) {
  const began = performance.now()
  const home = join(work, name)
  const helper = join(work, `${name}-helper`)
  cpSync(join(HOME, files), home, { recursive: true })
  cpSync(join(HOME, HELPER), helper, { recursive: true })
  if (page) writePrograms(page, home)
  for (const source of sources) {
    const outfile = join(home, basename(source).replace(/ts$/, 'mjs'))
    const entryPoints = [join(root, source)]
    await build({ entryPoints, outfile, bundle: true, platform: 'node', format: 'esm', packages: 'external' })
  }
  const own = { holdfast: `file:${tarball}`, [HELPER]: `file:${helper}` }
  const manifest = { name, private: true, dependencies: { ...dependencies, ...own } }
  writeFileSync(join(home, 'package.json'), JSON.stringify(manifest))
  const installed = await command(name, 'npm install --no-audit --no-fund --no-package-lock --prefer-offline')
  console.error(`${name}: installed in ${since(began)}`)
  if (!installed.ok) return [{ consumer: name, check: 'npm install', ...installed }]
  const done = []
  for (const [check, line] of Object.entries(checks)) {
    const result = await command(name, line)
    console.error(`${name}, ${check}: ${result.ok ? 'ok' : `FAILED\n${result.output}`}`)
    done.push({ consumer: name, check, ...result })
  }
  return done
}

/** The programs of a page, as files of a project. */
function writePrograms(page, home) {
  const text = readFileSync(join(root, page), 'utf8')
  for (const [, path, code] of text.matchAll(/^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), code)
  }
}

/** Runs a line of the shell in a project, with the programs of its packages. Asynchronous, unlike `capture`: two at once. */
async function command(name, line) {
  const began = performance.now()
  const cwd = join(work, name)
  // Not the programs of this repository.
  const paths = env.PATH.split(delimiter).filter((path) => !path.startsWith(root))
  const PATH = [join(cwd, 'node_modules', '.bin'), ...paths].join(delimiter)
  const ownEnv = { ...env, PATH, NAME: name, ROOT: root, REDIS_URL: redis.url, NODE_OPTIONS: '', CI: '1' }
  // A process group, so that what it has started ends as well.
  const child = spawn('sh', ['-c', line], { cwd, env: ownEnv, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
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
  const seconds = Math.round((performance.now() - began) / 100) / 10
  return { ok: code === 0, seconds, ...(code === 0 ? {} : { output }) }
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
