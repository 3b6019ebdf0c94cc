import type { Client, Lock } from '../../src/index.js'
import { type JavaLock, locks, type Redisson, text, texts } from './redisson.js'

/** How Redisson makes an object of each kind, and since when. The arguments: clients of one or two servers, and a name. */
interface JavaKind {
  /** The first version of Redisson that has it; absent: all that we test have it. */
  readonly since?: string
  readonly lock: (redissons: readonly [Redisson, Redisson], name: string) => Promise<JavaLock>
}

const getter = (...getters: string[]): JavaKind['lock'] => {
  return ([redisson], name) => redisson.lock(getters, text(name))
}

/** Those that are an RLock. The others come from `redisson.get('getSemaphore', text(name))` and the like. */
export const JAVA_KINDS = {
  lock: { lock: getter('getLock') },
  fair: { lock: getter('getFairLock') },
  read: { lock: getter('getReadWriteLock', 'readLock') },
  write: { lock: getter('getReadWriteLock', 'writeLock') },
  spin: { since: '3.15.0', lock: getter('getSpinLock') },
  fenced: { since: '3.19.0', lock: getter('getFencedLock') },
  nonReentrant: { since: '4.4.0', lock: getter('getNonReentrantLock') },
  nonReentrantFair: { since: '4.4.0', lock: getter('getNonReentrantFairLock') },
  /** Plain locks of one name on two servers. */
  multi: {
    async lock(redissons, name) {
      const members = await Promise.all(redissons.map((redisson) => redisson.lock('getLock', text(name))))
      return await redissons[0].lock('getMultiLock', locks(members.map((member) => member.kept)))
    },
  },
  /** The values `a` and `b` of one group. */
  fasterMulti: {
    since: '3.38.0',
    lock: ([redisson], name) => redisson.lock('getMultiLock', text(name), texts(['a', 'b'])),
  },
} satisfies Record<string, JavaKind>

/** An exclusive lock that both sides have: what the cases are run with. */
export interface Kind extends JavaKind {
  readonly name: string
  /** The same lock in Node; the clients are of the same servers. */
  readonly nodeLock: (clients: readonly [Client, Client], name: string) => Lock
  /** The field of the hash that holder stands in; absent: the holder itself. */
  readonly field?: (holder: string) => string
  /** Why the holder cannot take it again, if so. */
  readonly notReentrant?: string
  /** Why an unlock wakes nobody, if so. */
  readonly silent?: string
}

export const KINDS: readonly Kind[] = [
  { name: 'lock', ...JAVA_KINDS.lock, nodeLock: ([client], name) => client.getLock(name) },
]

/** Why this version of Redisson cannot be tested with this kind, if so. */
export function lacks(version: string, { since }: JavaKind): string | undefined {
  return since !== undefined && compare(version, since) < 0 ? `Redisson has it since ${since}` : undefined
}

function compare(a: string, b: string): number {
  const parts = a.split('.').map(Number)
  for (const [index, part] of b.split('.').map(Number).entries()) {
    const difference = (parts[index] ?? 0) - part
    if (difference !== 0) return difference
  }
  return 0
}
