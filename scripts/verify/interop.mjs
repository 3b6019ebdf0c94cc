// npm run verify -- interop [--json] [--versions 4.7.0,3.23.5] [--topologies single,cluster,sentinel] [--kinds lock] [--cases flash-sale]
// Holdfast beside the Java Redisson, on one Redis, a cluster, or behind Sentinels. Builds the Java side once for each version, into .cache/interop.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildJava, javaCache } from '../build/java.mjs'
import { run, since } from '../run.mjs'
import { ensureRedis } from '../setup/redis.mjs'

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
