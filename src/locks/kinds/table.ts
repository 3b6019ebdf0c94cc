/** The traits of a kind of lock that do not depend on its scripts. */
export interface KindTraits {
  /** Its name in messages and test titles. Kinds are compared by id. */
  readonly title: string
  /** Whether several owners may hold it at once. Default false. */
  readonly isShared?: boolean
  /** Whether a call chain may acquire again what it holds. Default true. */
  readonly isReentrant?: boolean
  /** Whether a release may hand the lease to the next caller of the same client, without Redis. Default false. */
  readonly isHandedOff?: boolean
  /** Whether each waiter has its own place in a queue in Redis; else only the first waiter of a client asks. Default false. */
  readonly isQueuedInRedis?: boolean
}

interface KindRow<Getter extends string = string> extends KindTraits {
  /** The method that returns such a lock, of our client and of Redisson's. */
  readonly getter: Getter
  /** Which side of a read-write lock it is. */
  readonly side?: 'readLock' | 'writeLock'
  /** Its page: `docs/locks/<page>.md`. */
  readonly page: string
  /** Whether it is a lock on values in a group. Default false: a name is enough. */
  readonly hasValues?: boolean
}

const ROWS = {
  lock: { title: 'lock', getter: 'getLock', page: 'lock', isHandedOff: true },
  fair: { title: 'fair lock', getter: 'getFairLock', page: 'fair-lock', isQueuedInRedis: true },
  nonReentrant: {
    title: 'non-reentrant lock',
    getter: 'getNonReentrantLock',
    page: 'non-reentrant-lock',
    isReentrant: false,
    isHandedOff: true,
  },
  nonReentrantFair: {
    title: 'non-reentrant fair lock',
    getter: 'getNonReentrantFairLock',
    page: 'non-reentrant-lock',
    isReentrant: false,
    isQueuedInRedis: true,
  },
  write: {
    title: 'write lock',
    getter: 'getReadWriteLock',
    side: 'writeLock',
    page: 'read-write-lock',
    isHandedOff: true,
  },
  read: {
    title: 'read lock',
    getter: 'getReadWriteLock',
    side: 'readLock',
    page: 'read-write-lock',
    isShared: true,
  },
  fenced: { title: 'fenced lock', getter: 'getFencedLock', page: 'fenced-lock' },
  spin: { title: 'spin lock', getter: 'getSpinLock', page: 'spin-lock' },
  string: { title: 'string lock', getter: 'getStringLock', page: 'string-lock' },
  fasterMulti: {
    title: 'multi-lock of values',
    getter: 'getFasterMultiLock',
    page: 'faster-multi-lock',
    hasValues: true,
  },
} as const satisfies Record<string, KindRow>

export type KindId = keyof typeof ROWS

/** A kind of lock that needs nothing but a name. */
export type NamedKindId = {
  [Id in KindId]: (typeof ROWS)[Id] extends { hasValues: true } ? never : Id
}[KindId]

/** Every kind of lock on one name, by id. The client, Nest, the docs tests and the test suites work from it. */
export const KINDS: { readonly [Id in KindId]: KindRow<(typeof ROWS)[Id]['getter']> } = ROWS

export const KIND_IDS = Object.keys(KINDS) as readonly KindId[]
export const NAMED_KIND_IDS = KIND_IDS.filter((id): id is NamedKindId => !KINDS[id].hasValues)
