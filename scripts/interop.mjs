// npm run interop -- [--json] [--versions 4.7.0,3.23.5] [--topologies single,cluster,sentinel] [--kinds lock] [--cases flash-sale]
// Holdfast beside the Java Redisson, on one Redis, a cluster, or behind Sentinels. Builds the Java side once for each version, into .cache/interop.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, fail, root, run, since } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

const VERSIONS = ['4.7.0', '3.23.5', '3.14.1']

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    versions: { type: 'string', default: VERSIONS.join() },
    topologies: { type: 'string' },
    kinds: { type: 'string' },
    cases: { type: 'string' },
  },
})
const java = join(root, 'test', 'interop', 'java')
const cache = join(root, '.cache', 'interop')

ensureRedis()
const unbuilt = values.versions.split(',').filter((version) => !buildJava(version)) // their cases fail

const start = performance.now()
run('tsc', ['-p', 'test/interop/tsconfig.json']) // beside build/, which a test run may be using
console.error(`Compiled the tests in ${since(start)}`)

const options = ['topologies', 'kinds', 'cases'].flatMap((name) =>
  values[name] === undefined ? [] : [`--${name}`, values[name]],
)
run(process.execPath, [
  '--enable-source-maps',
  join(cache, 'build', 'test', 'interop', 'run.js'),
  ...['--built', cache, '--versions', values.versions, '--unbuilt', unbuilt.join(), ...options],
  ...(values.json ? ['--json'] : []),
])

/**
 * Classes and jars of one version, into .cache/interop/<version>. Nothing to do if they are of these very sources.
 * Answers whether they are there.
 */
function buildJava(version) {
  if (!/^\d+(\.\d+)+$/.test(version)) fail(`Not a version of Redisson: ${version}`)
  const home = join(cache, version)
  const stamp = join(home, 'sources.sha1')
  const sources = sourcesHash()
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === sources) return true

  const missing = ['javac', 'mvn'].filter((program) => !capture(program, ['-version']).ok)
  if (missing.length > 0)
    fail(`Not found: ${missing.join(' and ')}. The interop tests need a JDK (8 or later) and Maven, e.g. on Debian, Ubuntu:
  sudo apt-get install openjdk-17-jdk-headless maven`)

  const began = performance.now()
  console.error(`Building the Java side for Redisson ${version} …`)
  rmSync(home, { recursive: true, force: true })
  const goals = ['compile', 'dependency:copy-dependencies']
  const args = ['-q', '-B', '-f', join(java, 'pom.xml'), `-Dredisson.version=${version}`, `-Doutput=${home}`, ...goals]
  if (!capture('mvn', ['-o', ...args]).ok) {
    console.error('  fetching from Maven Central what is not in the local repository')
    const { ok, output } = capture('mvn', args)
    if (!ok) {
      console.error(`${output}\n\nMaven (its words are above) did not build the Java side for Redisson ${version}`)
      return false
    }
  }
  writeFileSync(stamp, sources)
  console.error(`  built in ${since(began)}`)
  return true
}

function sourcesHash() {
  const files = readdirSync(java, { recursive: true, encoding: 'utf8' }).filter((file) => /\.(xml|java)$/.test(file))
  const hash = createHash('sha1')
  for (const file of files.sort()) hash.update(`${file}\n${readFileSync(join(java, file), 'utf8')}`)
  return hash.digest('hex')
}
