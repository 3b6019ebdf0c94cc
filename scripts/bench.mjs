// npm run bench: compares Holdfast with other locks. bench/ is a separate package, installed on first use.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EXIT_CODES, showHelp } from './help.mjs'
import { capture, fail, root, run } from './run.mjs'
import { ensureRedis } from './setup/redis.mjs'

const bench = join(root, 'bench')

showHelp(`npm run bench -- [options]

Compares Holdfast with other locks on a Redis of its own. Everything takes about an hour, a workload with a library a few
seconds in each round. Java libraries need a JDK and Maven; without these they are left out. Run it on an idle machine.

  --workloads w1,w3     only these; an unknown one lists all
  --libraries a,b       only these, those that poll also tuned; an unknown one lists all
  --rounds 3            each runs every library in every workload
  --seconds 2           length of a measurement
  --json                print one line of JSON instead of tables
  --html report.html    write the whole report with charts to one file
  --markdown            write the tables into bench/results, and the overview into docs/benchmarks.md
  --growth              also measure how cost grows with waiters, processes and held locks; with --workloads none, only that
  --sizing              measure only what locks, waiters and clients cost

${EXIT_CODES.replace('passed', 'measured')}`)

ensureRedis()
if (!isInstalled()) {
  console.error('Installing the other libraries into bench/ …')
  const { ok, output } = capture('npm', ['ci', '--no-audit', '--no-fund'], { cwd: bench })
  if (!ok) fail(output)
}
buildJava()
for (const args of [
  [process.execPath, 'scripts/build.mjs'],
  ['tsc', '-p', 'bench/tsconfig.json'],
]) {
  const { ok, output } = capture(args[0], args.slice(1)) // keep stdout for the results
  if (!ok) fail(output)
}
run(process.execPath, ['--enable-source-maps', join(bench, 'build', 'main.js'), ...process.argv.slice(2)])

/** npm keeps its own copy of the lockfile that it installed. */
function isInstalled() {
  const hidden = join(bench, 'node_modules', '.package-lock.json')
  if (!existsSync(hidden)) return false
  const wanted = JSON.parse(readFileSync(join(bench, 'package-lock.json'), 'utf8')).packages
  const there = JSON.parse(readFileSync(hidden, 'utf8')).packages
  return Object.entries(wanted).every(
    ([path, { version, optional }]) => path === '' || optional || there[path]?.version === version,
  )
}

/** The Java libraries. Without a JDK and Maven they are left out, as the report says. */
function buildJava() {
  const java = join(bench, 'java')
  const home = join(root, '.cache', 'bench', 'java')
  const stamp = join(home, 'sources.sha1')
  const sources = sourcesHash(java)
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === sources) return
  rmSync(home, { recursive: true, force: true })
  if (!['javac', 'mvn'].every((program) => capture(program, ['-version']).ok)) return
  console.error('Building the Java libraries …')
  const args = ['-q', '-B', '-f', join(java, 'pom.xml'), `-Doutput=${home}`, 'compile', 'dependency:copy-dependencies']
  if (capture('mvn', ['-o', ...args]).ok || reported(capture('mvn', args))) writeFileSync(stamp, sources)
}

function reported({ ok, output }) {
  if (!ok) console.error(`${output}\n\nMaven failed (output above): the Java libraries are left out`)
  return ok
}

function sourcesHash(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => /\.(xml|java)$/.test(file))
  const hash = createHash('sha1')
  for (const file of files.sort()) hash.update(`${file}\n${readFileSync(join(folder, file), 'utf8')}`)
  return hash.digest('hex')
}
