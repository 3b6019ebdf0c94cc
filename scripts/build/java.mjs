// The Java side of tests beside the real Redisson: the program of test/interop/java, for one version of Redisson.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, fail, root, since } from '../run.mjs'

const java = join(root, 'test', 'interop', 'java')
/** Where it builds to: one folder for each version. */
export const javaCache = join(root, '.cache', 'interop')

/**
 * Classes and jars of one version, into .cache/interop/<version>. Nothing to do if they are of these very sources.
 * Returns whether they are there.
 */
export function buildJava(version) {
  if (!/^\d+(\.\d+)+$/.test(version)) fail(`Not a version of Redisson: ${version}`)
  const home = join(javaCache, version)
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
  const goals = ['compile', 'dependency:copy-dependencies', ...(version.startsWith('3.') ? [] : ['-Pjackson'])]
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
