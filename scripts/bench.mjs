// npm run bench -- [--workloads w1,w3] [--libraries holdfast,redlock-5] [--rounds 3] [--json] …: see bench/src/main.ts
// Compares Holdfast with other locks. bench/ is a separate package, installed on first use.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, fail, root, run } from './run.mjs'
import { ensureRedis } from './setup/redis.mjs'

const bench = join(root, 'bench')

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
