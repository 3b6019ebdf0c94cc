// The scripts of the twin beside Redisson's. To repeat a failure: TWIN_SEED=17.
import { join } from 'node:path'
import * as SYNCHRONIZERS from '../support/redisson-twin/synchronizer-scripts.js'
import * as LOCKS from '../support/redisson-twin/twin-scripts.js'
import { textsOf } from './class-file.js'
import { isBefore } from './kinds.js'
import type { PlainJob, Suite } from './suites.js'
import { compare, type Pair } from './twin-replay.js'

/** The twin does what this version does, and later ones if possible. */
const MIRRORED = '4.7.0'
const SEED = Number(process.env['TWIN_SEED'] ?? 1)

const SCRIPTS = { ...LOCKS, ...SYNCHRONIZERS }
type ScriptName = keyof typeof SCRIPTS

/** A script of Redisson's that a script of the twin's does the same as. */
interface Original {
  /** Its class in org.redisson, and words that it alone of the scripts there has, or lacks if they follow a minus. */
  readonly script: string
  /** What KEYS and ARGV are, each a word of `valuesFor` or, if that has none, itself. */
  readonly slots: string
  /** The same of the twin's script. Those with the same first key make the states for each other. */
  readonly twin: string
  /** If it is not the one of that name. */
  readonly twinScript?: ScriptName
  /** What it replies where the twin's replies this; absent: the same. */
  readonly reply?: Pair['replyOf']
}

const ORIGINALS: Readonly<Record<ScriptName | 'FAIR_TRY', Original>> = {
  ACQUIRE: { script: "RedissonLock 'pttl'", slots: 'lock | lease holder', twin: 'lock channel | holder lease' },
  RELEASE: {
    script: "RedissonLock 'px'",
    slots: 'lock channel latch | message lease holder publish latchMs',
    twin: 'lock channel latch | holder lease message latchMs',
  },
  RENEW: {
    script: "renewal/LockTask 'pexpire'",
    slots: 'lock | lease holder',
    twin: 'lock | holder lease',
    reply: (reply) => [reply], // Redisson renews many locks in one call, the twin one
  },
  FORCE: {
    script: "RedissonLock 'del' -'px'",
    slots: 'lock channel | message publish',
    twin: 'lock channel | message',
  },
  FENCED_ACQUIRE: {
    script: 'RedissonFencedLock {-1',
    slots: 'lock tokens | lease holder',
    twin: 'lock tokens | holder lease',
  },
  FAIR_ACQUIRE: {
    script: "RedissonFairLock 'rpush'",
    slots: 'fair queue deadlines | lease holder wait now',
    twin: 'fair queue deadlines | holder lease wait now 1',
  },
  FAIR_TRY: {
    script: "RedissonFairLock 'hset' -'rpush'",
    slots: 'fair queue deadlines | lease holder now wait',
    twin: 'fair queue deadlines | holder lease wait now 0',
    twinScript: 'FAIR_ACQUIRE',
  },
  FAIR_RELEASE: {
    script: "RedissonFairLock 'px'",
    slots: 'fair queue deadlines channel latch | message lease holder now publish latchMs',
    twin: 'fair queue deadlines latch | holder lease channel: message now latchMs',
  },
  FAIR_LEAVE: {
    script: "RedissonFairLock 'lrem'",
    slots: 'queue deadlines | holder wait',
    twin: 'fair queue deadlines | holder wait',
  },
  READ_ACQUIRE: {
    script: "RedissonReadLock 'hset'",
    slots: 'rw hold | lease holder writer',
    twin: 'rw | holder lease {rw}:',
  },
  READ_RELEASE: {
    script: "RedissonReadLock 'px'",
    slots: 'rw channel hold {rw} latch | message holder publish latchMs',
    twin: 'rw latch | holder {rw}: channel message latchMs',
  },
  WRITE_ACQUIRE: { script: "RedissonWriteLock 'pttl'", slots: 'rw | lease writer', twin: 'rw | writer lease' },
  WRITE_RELEASE: {
    script: "RedissonWriteLock 'px'",
    slots: 'rw channel latch | message lease writer publish latchMs',
    twin: 'rw latch | writer lease channel message latchMs',
  },
  GROUP_ACQUIRE: {
    script: 'RedissonFasterMultiLock maxExpireTime',
    slots: 'group | lease now holder fields',
    twin: 'group | lease holder now fields',
  },
  GROUP_RELEASE: {
    script: "RedissonFasterMultiLock 'px'",
    slots: 'group channel latch | holder message lease publish latchMs now fields',
    twin: 'group latch | holder lease now channel message latchMs fields',
  },
  SEMAPHORE_ACQUIRE: {
    script: "RedissonSemaphore 'decrby'",
    slots: 'semaphore | permits',
    twin: 'semaphore | permits',
  },
  SEMAPHORE_RELEASE: {
    script: "RedissonSemaphore 'incrby' -'exists'",
    slots: 'semaphore channel | permits publish',
    twin: 'semaphore channel | permits',
  },
  SET_PERMITS: {
    script: "RedissonSemaphore 'set' ;return -'px'",
    slots: 'semaphore channel | permits publish',
    twin: 'semaphore channel | permits',
  },
  PERMIT_ACQUIRE: {
    script: "RedissonPermitExpirableSemaphore 'OK'",
    slots: 'semaphore leases channel | permits expiry now never publish ids',
    twin: 'semaphore leases channel | now permits expiry never ids',
  },
  PERMIT_RELEASE: {
    script: "RedissonPermitExpirableSemaphore 'zscore' 'zrem' -'zrangebyscore'",
    slots: 'semaphore channel leases | id 1 now publish',
    twin: 'semaphore leases channel | id now',
  },
  SET_COUNT: {
    script: "RedissonCountDownLatch 'set'",
    slots: 'count channel | message permits publish',
    twin: 'count channel | permits message',
  },
  COUNT_DOWN: {
    script: "RedissonCountDownLatch 'decr'",
    slots: 'count channel | message publish',
    twin: 'count channel | message',
  },
}
type Name = keyof typeof ORIGINALS
const NAMES = Object.keys(ORIGINALS) as Name[]

/** One case for each. */
export const TWIN_SUITE: Suite = twinSuite()

function twinSuite(): Suite {
  const kind = { name: 'twin' }
  const jobs = NAMES.map(
    (name): PlainJob => ({
      kind,
      id: name.toLowerCase().replaceAll('_', '-'),
      title: `the twin's script ${name} replies, stores and publishes what ${classOf(name)} does`,
      isAbout: ({ version, topology }) => topology.name === 'single' && !isBefore(version, MIRRORED),
      notFor: () => undefined,
      async run(built, version) {
        const jar = join(built, version, 'lib', `redisson-${version}.jar`)
        const makers = NAMES.filter((other) => lockOf(other) === lockOf(name)).map((other) => pairOf(other, jar))
        return await compare(pairOf(name, jar), makers, SEED)
      },
    }),
  )
  return { kinds: [kind], cases: jobs, jobs }
}

function classOf(name: Name): string {
  return (ORIGINALS[name].script.split(' ')[0] as string).replace(/.*\//, '')
}

function lockOf(name: Name): string | undefined {
  return ORIGINALS[name].twin.split(' ')[0]
}

function pairOf(name: Name, jar: string): Pair {
  const { script, slots, twin, twinScript = name as ScriptName, reply = (same) => same } = ORIGINALS[name]
  return {
    twin: { lua: SCRIPTS[twinScript], slots: twin },
    redisson: { lua: luaOf(script, jar), slots },
    replyOf: reply,
  }
}

function luaOf(script: string, jar: string): string {
  const [className, ...words] = script.split(' ')
  const isMeant = (text: string): boolean =>
    text.includes('redis.call(') &&
    words.every((word) => (word.startsWith('-') ? !text.includes(word.slice(1)) : text.includes(word)))
  const found = textsOf(jar, `org/redisson/${className}`).filter(isMeant)
  if (found.length === 1) return found[0] as string
  throw new Error(`${jar} has ${found.length} scripts, not one, that are ${script}`)
}
