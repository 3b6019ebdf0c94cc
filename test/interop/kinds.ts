import { type BaseLock, type Client, getMultiLock, getRedLock, type Lock } from '../../src/index.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import type { Thing } from './place.js'
import { type JavaLock, locks, type Redisson, text, texts } from './redisson.js'

/** What there is one of for each Redis server that a lock is on. */
export type Each<T> = readonly [T, ...T[]]

/** A lock that both sides have: what the cases are run with. */
export interface Kind extends Thing {
  /** The lock in Java; of a joint lock, one of its members. */
  readonly java: (redisson: Redisson, name: string) => Promise<JavaLock>
  /** The same in Node. */
  readonly node: (client: Client, name: string) => Lock
  /** It is made of locks of one name on several servers. */
  readonly made?: Made

  /** The kinds that it keeps out; absent: itself. */
  readonly rivals?: readonly string[]
  /** The field of the hash with a hold count; absent: the holder itself. */
  readonly field?: (holder: string) => string
  /** What must be renewed besides the key of the lock: a key with a TTL, or a field with an epoch. */
  readonly alsoRenewed?: (name: string, holder: string) => { key: string; field?: string }

  /** Why the holder cannot take it again, if so. */
  readonly notReentrant?: string
  /** Why many may hold it at once, if so. */
  readonly shared?: string
  /** Why a waiter on that side is not woken by an unlock, if so. */
  readonly asksAgain?: { readonly node?: string; readonly java?: string }
  /** Why nobody can wake a waiter in Java after a restart of Redis, if so. */
  readonly deafAfterRestart?: string
  /** `unlock` in Java hides that somebody else holds it. */
  readonly javaHidesRefusal?: true
  /** The result of `forceUnlock` in Java means nothing, or it throws after it did its work. */
  readonly javaForcesBlindly?: true
}

interface Made {
  readonly servers: number
  /** How many of them make up the whole. */
  readonly needed: number
  readonly java: 'getMultiLock' | 'getRedLock'
  readonly node: (...locks: Lock[]) => BaseLock
}

const getter = (...getters: string[]): Kind['java'] => {
  return (redisson, name) => redisson.lock(getters, text(name))
}

const PLAIN: Pick<Kind, 'java' | 'node'> = {
  java: getter('getLock'),
  node: (client, name) => client.getLock(name),
}

const NOT_REENTRANT = 'nobody can take it again: that is what it is for'
const IN_A_QUEUE = 'the queue is lost with the data of Redis: no release can know of the waiter in Java'
const OF_PLAIN_LOCKS = 'it is made of plain locks, for which it is shown'
const SPINS = 'a spin lock is waited for by asking again; its release is announced to nobody, on either side'

/** The values of a multi-lock of values. */
const VALUES = ['a', 'größe 2']

export const KINDS: readonly Kind[] = [
  { name: 'lock', ...PLAIN },
  {
    name: 'fair',
    java: getter('getFairLock'),
    node: (client, name) => client.getFairLock(name),
    deafAfterRestart: IN_A_QUEUE,
  },
  {
    name: 'nonReentrant',
    since: '4.4.0',
    java: getter('getNonReentrantLock'),
    node: (client, name) => client.getNonReentrantLock(name),
    notReentrant: NOT_REENTRANT,
  },
  {
    name: 'nonReentrantFair',
    since: '4.4.0',
    java: getter('getNonReentrantFairLock'),
    node: (client, name) => client.getNonReentrantFairLock(name),
    notReentrant: NOT_REENTRANT,
    deafAfterRestart: IN_A_QUEUE,
  },
  {
    name: 'read',
    java: getter('getReadWriteLock', 'readLock'),
    node: (client, name) => client.getReadWriteLock(name).readLock(),
    rivals: ['write'],
    alsoRenewed: (name, holder) => ({ key: `{${name}}:${holder}:rwlock_timeout:1` }),
    shared: 'many read at once',
  },
  {
    name: 'write',
    async java(redisson, name) {
      const lock = await redisson.lock(['getReadWriteLock', 'writeLock'], text(name))
      lock.holderSuffix = ':write'
      return lock
    },
    node: (client, name) => client.getReadWriteLock(name).writeLock(),
    rivals: ['write', 'read'],
  },
  {
    name: 'fenced',
    since: '3.19.0',
    java: getter('getFencedLock'),
    // Its private parts belong to a special kind of hold that is not visible from outside.
    node: (client, name) => client.getFencedLock(name) as unknown as Lock,
  },
  {
    name: 'spin',
    since: '3.15.0',
    java: getter('getSpinLock'),
    node: (client, name) => client.getSpinLock(name),
    asksAgain: { node: SPINS, java: SPINS },
    deafAfterRestart: SPINS,
  },
  {
    name: 'multi',
    ...PLAIN,
    made: { servers: 2, needed: 2, java: 'getMultiLock', node: getMultiLock },
    deafAfterRestart: OF_PLAIN_LOCKS,
  },
  {
    name: 'red',
    ...PLAIN,
    made: { servers: 3, needed: 2, java: 'getRedLock', node: getRedLock },
    asksAgain: { node: 'Holdfast waits for a red lock by asking all servers again, every 20 to 120 ms' },
    deafAfterRestart: OF_PLAIN_LOCKS,
    javaHidesRefusal: true,
  },
  {
    name: 'fasterMulti',
    since: '3.38.0',
    async java(redisson, name) {
      const lock = await redisson.lock('getMultiLock', text(name), texts(VALUES))
      lock.ttlOf = await redisson.get('getMap', text(name)) // it does not report it itself
      return lock
    },
    node: (client, name) => client.getFasterMultiLock(name, VALUES),
    field: (holder) => `${fieldDigest(VALUES[0] as string)}:${holder}:lock_count`,
    alsoRenewed: (name, holder) => ({
      key: name,
      field: `${fieldDigest(VALUES[1] as string)}:${holder}:expire_time`,
    }),
    javaForcesBlindly: true,
  },
]

export function kindOf(name: string): Kind {
  const kind = KINDS.find((one) => one.name === name)
  if (!kind) throw new Error(`No such kind: ${name}. There are: ${KINDS.map((one) => one.name).join(', ')}`)
  return kind
}

/** The lock in Java, with as many of the clients as it needs. */
export async function javaLock({ java, made }: Kind, redissons: Each<Redisson>, name: string): Promise<JavaLock> {
  const [redisson] = redissons
  if (!made) return await java(redisson, name)
  const parts = await Promise.all(redissons.slice(0, made.servers).map((one) => java(one, name)))
  const whole = await redisson.lock(made.java, locks(parts.map(({ kept }) => kept)))
  whole.parts = parts
  whole.needed = made.needed
  return whole
}

/** Why this version of Redisson cannot be tested with this kind, if so. */
export function lacks(version: string, { since, whyNotBefore }: Thing): string | undefined {
  if (since === undefined || !isBefore(version, since)) return undefined
  return whyNotBefore ?? `Redisson has it since ${since}`
}

export function isBefore(version: string, other: string): boolean {
  const parts = version.split('.').map(Number)
  for (const [index, part] of other.split('.').map(Number).entries()) {
    const difference = (parts[index] ?? 0) - part
    if (difference !== 0) return difference < 0
  }
  return false
}
