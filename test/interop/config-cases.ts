// Configuration files and defaults beside Redisson's own.
import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkClientOptions } from '../../src/client-options.js'
import { describe } from '../../src/config/deployment.js'
import { KEYS, type RedissonConfig } from '../../src/config/schema.js'
import { ENV, eachFile, isAccepted, type Row, readByHoldfast, readTable, TABLE } from '../support/config-inputs.js'
import { isBefore } from './kinds.js'
import { JavaError, Jvm } from './redisson.js'
import type { PlainJob, Suite } from './suites.js'

/** Its verdicts are in the table. */
const NEWEST = '4.7.0'
/** `CONFIG_TABLE=write npm run verify -- interop --kinds config` writes the table. */
const isWriting = process.env['CONFIG_TABLE'] === 'write'
const FILES = 'test/fixtures/config'
/** Had other defaults in Redisson 3. */
const CHANGED = /\b(retryAttempts|useScriptCache|addressResolverGroupFactory):/

type Values = Readonly<Record<string, string>>

const kind = { name: 'config' }
const jobs: readonly PlainJob[] = [
  {
    ...{
      kind,
      id: 'inputs',
      title: 'Redisson takes and refuses small files as the table says, and reads these values',
    },
    isAbout: ({ version, topology }) => topology.name === 'single' && version === NEWEST,
    notFor: () => undefined,
    async run(built, version) {
      await using jvm = await Jvm.start(built, version, ENV)
      const defaults = await defaultsOf(jvm)
      const table = readTable()
      const found = await eachFile(table, async (file, name, row) => [name, await rowOf(jvm, file, row, defaults)])
      const rows = Object.fromEntries(found) as Record<string, Row>
      if (isWriting) writeFileSync(TABLE, `${JSON.stringify(rows, null, 2)}\n`)
      else assert.deepEqual(rows, table)
      const refused = Object.values(rows).filter(({ java }) => !isAccepted(java)).length
      return `${found.length} files, ${refused} refused by Java`
    },
  },
  {
    ...{ kind, id: 'files', title: `Redisson 4 takes its files that are accepted unchanged (${FILES}/*-4*)` },
    isAbout: ({ version, topology }) => topology.name === 'single' && version === NEWEST,
    notFor: () => undefined,
    async run(built, version) {
      await using jvm = await Jvm.start(built, version, { ...ENV, REDIS_PASSWORD: 'hunter2' })
      const refused: string[] = []
      const files = readdirSync(FILES).filter((file) => file.includes('-4'))
      for (const file of files) {
        const { verdict } = await readByJava(jvm, join(FILES, file))
        if (!isAccepted(verdict)) refused.push(`${file}: ${verdict}`)
      }
      assert.deepEqual(refused, [])
      return `${files.length} files`
    },
  },
  {
    ...{ kind, id: 'defaults', title: 'the defaults of Holdfast are those of Redisson' },
    isAbout: ({ topology }) => topology.name === 'single',
    notFor: () => undefined,
    async run(built, version) {
      await using jvm = await Jvm.start(built, version)
      const theirs = await defaultsOf(jvm)
      const differences = ourDefaults().flatMap(([path, ours]) => {
        const java = theirs[path]
        // A codec that is null becomes the default when a client is created.
        const isSame =
          java === undefined || java.toLowerCase() === ours.toLowerCase() || (path === 'codec' && java === 'null')
        return isSame ? [] : [`${path}: ${java}`]
      })
      const isKnown = (difference: string) => isBefore(version, NEWEST) && CHANGED.test(difference)
      assert.deepEqual(
        differences.filter((difference) => !isKnown(difference)),
        [],
      )
      return differences.length === 0 ? undefined : `differ there: ${differences.join(', ')}`
    },
  },
]

export const CONFIG_SUITE: Suite = { kinds: [kind], cases: jobs, jobs }

async function rowOf(jvm: Jvm, file: string, { text, because }: Row, defaults: Values): Promise<Row> {
  const { verdict, reads, section } = await readByHoldfast(file)
  const java = await readByJava(jvm, file)
  const javaReads = section === undefined ? {} : differencesIn(reads, java.reads, defaults, section)
  return {
    ...{ text, holdfast: verdict },
    ...(Object.keys(reads).length > 0 && { reads }),
    java: java.verdict,
    ...(Object.keys(javaReads).length > 0 && { javaReads }),
    ...(because !== undefined && { because }),
  }
}

/** What Java reads where Holdfast reads something else, or nothing although it is not the default. */
function differencesIn(ours: Values, theirs: Values, defaults: Values, section: string): Values {
  const isOurs = (path: string): boolean => {
    const [first = '', key] = path.split('.')
    const keys = KEYS[key === undefined ? '' : first] ?? {}
    return (key === undefined || first === section) && keys[key ?? first]?.isUsed === true
  }
  const different = Object.entries(theirs).filter(
    ([path, value]) => isOurs(path) && value !== (ours[path] ?? defaults[path]),
  )
  return Object.fromEntries(different)
}

async function readByJava(jvm: Jvm, file: string): Promise<{ verdict: string; reads: Values }> {
  try {
    const { create, ...reads } = valuesIn(await jvm.send('main', 'readConfig', [file]))
    return create === undefined
      ? { verdict: 'accepted', reads }
      : { verdict: `not created: ${brief(create)}`, reads: {} }
  } catch (error) {
    if (!(error instanceof JavaError)) throw error
    return { verdict: `not read: ${brief(error.message)}`, reads: {} }
  }
}

/** Without the places in the file that SnakeYAML quotes below its sentences. */
function brief(message: string): string {
  const sentences = message.split('\n').filter((line) => !/^(\s|$)|Cannot create property=/.test(line))
  return sentences
    .join(' ')
    .replace(/@[0-9a-f]+/g, '')
    .slice(0, 200)
}

async function defaultsOf(jvm: Jvm): Promise<Values> {
  return valuesIn(await jvm.send('main', 'defaults', []))
}

function valuesIn(lines: unknown): Values {
  return Object.fromEntries((lines as string[]).map((line) => line.split(/=(.*)/s, 2) as [string, string]))
}

/** The defaults of keys without effect, and of those with one. */
function ourDefaults(): [path: string, value: string][] {
  const unused = Object.entries(KEYS).flatMap(([section, keys]) =>
    Object.entries(keys).flatMap(([key, { standard }]): [string, string][] =>
      standard === undefined ? [] : [[section === '' ? key : `${section}.${key}`, standard]],
    ),
  )
  return [...unused, ...usedDefaults()]
}

const SERVERS = {
  masterSlaveServersConfig: { masterAddress: 'redis://a:1' },
  singleServerConfig: { address: 'redis://a:1' },
  sentinelServersConfig: { sentinelAddresses: ['redis://a:1'], masterName: 'a' },
  clusterServersConfig: { nodeAddresses: ['redis://a:1'] },
  replicatedServersConfig: { nodeAddresses: ['redis://a:1'] },
}

function usedDefaults(): [path: string, value: string][] {
  return Object.entries(SERVERS).flatMap(([section, server]): [string, string][] => {
    const { connectTimeoutMs, retryAttempts, database, pingIntervalMs, scanIntervalMs, isNoDelay, ...rest } = describe({
      [section]: server,
    } as RedissonConfig)
    const options = checkClientOptions(rest.options)
    const values = {
      timeout: options.commandTimeoutMs,
      lockWatchdogTimeout: options.lockWatchdogTimeoutMs,
      lockWatchdogBatchSize: options.lockWatchdogBatchSize,
      fairLockWaitTimeout: options.fairLockWaitTimeoutMs,
      slavesSyncTimeout: options.slavesSyncTimeoutMs,
      connectTimeout: connectTimeoutMs,
      retryAttempts,
      database,
      pingConnectionInterval: pingIntervalMs,
      scanInterval: scanIntervalMs,
      tcpNoDelay: isNoDelay,
      sentinelsDiscovery: rest.sentinel.isDiscovering,
      checkSlotsCoverage: rest.checksSlotsCoverage,
      tcpKeepAlive: rest.keepAliveMs !== undefined,
      lazyInitialization: rest.isLazy,
    }
    return Object.entries(values).map(([key, value]) => [
      KEYS['']?.[key] === undefined ? `${section}.${key}` : key,
      String(value),
    ])
  })
}
