import { lockOfKind } from '../../src/client.js'
import { type BaseLock, type Client, getMultiLock, getRedLock, type Lock } from '../../src/index.js'
import { KIND_IDS, KINDS as KINDS_OF_HOLDFAST, type KindId } from '../../src/locks/kinds/table.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import type { Thing } from './case-context.js'
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
  readonly polls?: { readonly node?: string; readonly java?: string }
  /** Why nobody can wake a waiter in Java after a restart of Redis, if so. */
  readonly deafAfterRestart?: string
  /** `unlock` in Java hides that another owner holds it. */
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

/** The values of a multi-lock of values. */
export const VALUES = ['a', 'größe 2']

const IN_A_QUEUE = 'the queue is lost with the data of Redis: no release can know of the waiter in Java'
const OF_PLAIN_LOCKS = 'it is made of plain locks, for which it is shown'
const SPINS = 'waiters of a spin lock poll; its release publishes nothing, on either side'

/** How kinds differ from the plain lock beside Java, beyond the traits in the table. */
const DIFFERENCES: Partial<Record<KindId, Partial<Kind>>> = {
  nonReentrant: { since: '4.4.0' },
  nonReentrantFair: { since: '4.4.0' },
  write: {
    async java(redisson, name) {
      const lock = await redisson.lock(['getReadWriteLock', 'writeLock'], text(name))
      lock.holderSuffix = ':write'
      return lock
    },
    rivals: ['write', 'read'],
  },
  read: {
    rivals: ['write'],
    alsoRenewed: (name, holder) => ({ key: `{${name}}:${holder}:rwlock_timeout:1` }),
  },
  fenced: { since: '3.19.0' },
  spin: { since: '3.15.0', polls: { node: SPINS, java: SPINS }, deafAfterRestart: SPINS },
  fasterMulti: {
    since: '3.38.0',
    async java(redisson, name) {
      const lock = await redisson.lock('getMultiLock', text(name), texts(VALUES))
      lock.ttlOf = await redisson.get('getMap', text(name)) // it does not report it itself
      return lock
    },
    keyOutlivesMs: 10_000,
    field: (holder) => `${fieldDigest(VALUES[0] as string)}:${holder}:lock_count`,
    alsoRenewed: (name, holder) => ({
      key: name,
      field: `${fieldDigest(VALUES[1] as string)}:${holder}:expire_time`,
    }),
    javaForcesBlindly: true,
  },
}

function kind(id: KindId): Kind {
  const { getter, side, isShared, isReentrant = true, isQueuedInRedis } = KINDS_OF_HOLDFAST[id]
  return {
    name: id,
    java: (redisson, name) => redisson.lock(side ? [getter, side] : [getter], text(name)),
    node: (client, name) =>
      id === 'fasterMulti' ? client.getFasterMultiLock(name, VALUES) : lockOfKind(client, id, name),
    ...(isReentrant ? {} : { notReentrant: 'nobody can take it again: that is what it is for' }),
    ...(isShared ? { shared: 'many read at once' } : {}),
    ...(isQueuedInRedis ? { deafAfterRestart: IN_A_QUEUE } : {}),
    ...DIFFERENCES[id],
  }
}

const { java, node } = kind('lock')

/** Java has no string lock. */
export const KINDS: readonly Kind[] = [
  ...KIND_IDS.filter((id) => id !== 'string').map(kind),
  {
    name: 'multi',
    java,
    node,
    made: { servers: 2, needed: 2, java: 'getMultiLock', node: getMultiLock },
    deafAfterRestart: OF_PLAIN_LOCKS,
  },
  {
    name: 'red',
    java,
    node,
    made: { servers: 3, needed: 2, java: 'getRedLock', node: getRedLock },
    polls: { node: 'Holdfast polls all servers of a red lock, every 20 to 120 ms' },
    deafAfterRestart: OF_PLAIN_LOCKS,
    javaHidesRefusal: true,
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
