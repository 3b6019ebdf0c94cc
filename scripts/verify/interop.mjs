// The same locks, semaphores and latches beside the real Redisson.
import { join } from 'node:path'
import { buildJava, javaCache } from '../build/java.mjs'
import { EXIT_CODES, readOptions, TOO_SLOW } from '../help.mjs'
import { run, since } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'

const VERSIONS = ['4.7.0', '3.23.5', '3.14.1']

const HELP = `npm run verify -- interop [options]

Holdfast and the Java Redisson on one Redis, a cluster, or behind Sentinels: each case with each kind of lock, semaphore or
latch. test/interop/README.md has the cases. It needs a JDK (8 or later) and Maven, fetches Redisson once from Maven Central,
and takes about four minutes on two cores.

  --versions ${VERSIONS.join()}   of Redisson, only these
  --topologies single,cluster,sentinel   only these
  --kinds lock,semaphore                 only these; an unknown one lists all
  --cases flash-sale                     only these; an unknown one lists all
  --json                                 the last line is the result as JSON
  --lts                                  on the newest LTS line of Node

${EXIT_CODES}${TOO_SLOW}`

const values = readOptions(HELP, {
  json: { type: 'boolean', default: false },
  versions: { type: 'string', default: VERSIONS.join() },
  topologies: { type: 'string' },
  kinds: { type: 'string' },
  cases: { type: 'string' },
})
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
  join(javaCache, 'build', 'test', 'interop', 'run.js'),
  ...['--built', javaCache, '--versions', values.versions, '--unbuilt', unbuilt.join(), ...options],
  ...(values.json ? ['--json'] : []),
])
