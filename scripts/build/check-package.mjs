// Is what we would publish whole, and nothing else? Needs dist (npm run build).
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { capture, fail, root } from '../run.mjs'
import { withExports } from './exports.mjs'
import { repositoryOf } from './readme-links.mjs'

/**
 * Half of what the first version with source maps had, and 300 KB for what operators use: fleet, jobs, command line, server
 * of the dashboard, telemetry. Without holdfast/testing and the dashboard's page.
 */
const MAX_UNPACKED_BYTES = 1_400_000
/** Maximum size of the dashboard's page, with its libraries. */
const MAX_PAGE_BYTES = 400_000
/** Maximum that holdfast/testing may add to a download: its modules, without those of the client. */
const MAX_TESTING_GZIPPED_BYTES = 45_000

const pkg = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const problems = []

if (!existsSync(join(root, 'dist'))) fail('There is no dist: npm run build')

if (JSON.stringify(withExports(pkg)) !== JSON.stringify(pkg))
  problems.push('exports of package.json are not those of `node scripts/build/exports.mjs`')

const targets = (value) => (typeof value === 'string' ? [value] : Object.values(value).flatMap(targets))
for (const target of [...targets(pkg.exports), ...targets(pkg.bin)])
  if (!existsSync(join(root, target))) problems.push(`package.json names ${target}, which does not exist`)

for (const program of targets(pkg.bin))
  if (existsSync(join(root, program)) && !readFileSync(join(root, program), 'utf8').startsWith('#!/usr/bin/env node'))
    problems.push(`${program} does not start with #!/usr/bin/env node`)

for (const { name } of readdirSync(join(root, 'src', 'adapters'), { withFileTypes: true }).filter((one) =>
  one.isDirectory(),
))
  if (!pkg.exports[`./${name}`]) problems.push(`package.json does not export adapter ./${name}`)

for (const kind of ['dependencies', 'optionalDependencies', 'bundleDependencies'])
  if (Object.keys(pkg[kind] ?? {}).length > 0) problems.push(`package.json has ${kind}: Holdfast brings none along`)
for (const script of ['preinstall', 'install', 'postinstall'])
  if (pkg.scripts[script]) problems.push(`package.json has a script "${script}" that would run on the user's machine`)

const pack = capture('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'])
if (!pack.ok) fail(pack.output)
const [{ files, unpackedSize }] = Object.values(JSON.parse(pack.stdout))
const packed = files.map((file) => file.path)
const testing = [...new Set(['dist', 'dist/cjs'].flatMap(onlyForTesting))]
const bytesOf = (some) => some.reduce((sum, { size }) => sum + size, 0)
const pageBytes = bytesOf(files.filter(({ path }) => path.startsWith('dist/dashboard/page/')))
if (pageBytes > MAX_PAGE_BYTES)
  problems.push(`the dashboard's page would have ${pageBytes} bytes unpacked, more than ${MAX_PAGE_BYTES}`)
const others = unpackedSize - bytesOf(testing) - pageBytes
if (others > MAX_UNPACKED_BYTES)
  problems.push(`the package would have ${others} bytes unpacked, more than ${MAX_UNPACKED_BYTES}`)
const gzipped = gzipSync(Buffer.concat(testing.map(({ path }) => readFileSync(join(root, path))))).length
if (gzipped > MAX_TESTING_GZIPPED_BYTES)
  problems.push(`holdfast/testing would have ${gzipped} bytes gzipped, more than ${MAX_TESTING_GZIPPED_BYTES}`)
for (const file of packed.filter(
  (path) =>
    !/^(dist\/.+|grafana\/holdfast\.json|prometheus\/alerts\.yaml|README(\.[\w-]+)?\.md|LICENSE|package\.json)$/.test(
      path,
    ),
))
  problems.push(`the package would contain ${file}`)
for (const file of ['README.md', 'LICENSE']) if (!packed.includes(file)) problems.push(`the package would lack ${file}`)

const address = repositoryOf(pkg)
if (pkg.homepage !== `${address}#readme`) problems.push(`homepage is not ${address}#readme`)
if (pkg.bugs !== `${address}/issues`) problems.push(`bugs is not ${address}/issues`)

// Holdfast never installs anything on the machine it runs on.
for (const file of packed.filter((path) => path.startsWith('dist/')))
  for (const word of ['apt-get', '/usr/sbin'])
    if (readFileSync(join(root, file), 'utf8').includes(word)) problems.push(`${file} contains ${word}`)

for (const [tool, ...args] of [
  ['publint', '--strict'],
  ['attw', '--pack', '.', '--exclude-entrypoints', './watchdog-thread', './edge', '--format', 'ascii', '--no-emoji'],
]) {
  const { ok, output } = capture(tool, args)
  if (!ok) problems.push(`${tool}:\n${output}`)
}

/** What holdfast/testing loads and the client does not. */
function onlyForTesting(folder) {
  const client = reach(`${folder}/index.js`)
  const loaded = [...reach(`${folder}/testing/index.js`)].filter((path) => !client.has(path))
  return files.filter(({ path }) => loaded.includes(path) || path.startsWith(`${folder}/testing/`))
}

/** The files of dist that a program loads with this one. */
function reach(path, found = new Set([path])) {
  const code = readFileSync(join(root, path), 'utf8')
  for (const [, name] of code.matchAll(/(?:from|import|require)\s*\(?\s*["'](\.[^"']+\.js)["']/g)) {
    const next = join(path, '..', name)
    if (found.has(next)) continue
    found.add(next)
    reach(next, found)
  }
  return found
}

if (problems.length > 0) fail(problems.join('\n'))
console.log(
  `${packed.length} files, ${unpackedSize} bytes, ${Object.keys(pkg.exports).length} exports: nothing missing, nothing else`,
)
