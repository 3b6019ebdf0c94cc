import assert from 'node:assert/strict'
import { lockOfKind } from '../../src/client.js'
import { type BaseLock, type Client, getMultiLock, type Lock } from '../../src/index.js'
import { KIND_IDS, KINDS, type KindId } from '../../src/locks/kinds/table.js'
import type { Driver } from './drivers.js'
import type { AnyFixture } from './fixture.js'
import type { Admin } from './places.js'
import { SCRIPT_NAMES } from './script-names.js'
import type { Match } from './servers/tcp-proxy.js'
import { somebodyPolls } from './subscribers.js'
import { waitUntil } from './wait-until.js'

/** A kind of lock, and what the tests of every kind need to know about it. */
export interface Kind {
  /** Its title in the table of kinds, for test titles. */
  readonly name: string
  lock(client: Client, name: string): BaseLock
  /** The lock itself, or the members of a multi-lock. */
  parts(client: Client, name: string): readonly Lock[]
  /** A lock that excludes it and is excluded by it: one of its own kind; for a read lock the write lock. */
  rival(client: Client, name: string): BaseLock
  /** Keys that exist exactly while it is held. */
  keys(name: string): readonly string[]
  /** The hold counts in Redis; undefined: only the process keeps them. */
  readonly counts: ((admin: Admin, name: string) => Promise<readonly number[]>) | undefined
  /** Several owners may hold it at once. */
  readonly isShared: boolean
  /** A call chain may acquire again what it holds; otherwise that is a `SelfDeadlockError`. */
  readonly isReentrant: boolean
  /** Made of other locks: it has no hold to re-enter by `within`, and nothing of its own in Redis. */
  readonly isJoint: boolean
  /** A hold can be transferred: another client can adopt it. */
  readonly isAdoptable: boolean
  /** The next caller of the same client gets it by hand-off, without a command. */
  readonly isHandedOff: boolean
  /** A release publishes a message; otherwise waiters poll. */
  readonly isAnnounced: boolean
  /** Waiters poll in addition to any message. */
  readonly isPolled: boolean
  /** By how much its keys outlive a lease that nobody renews or releases, ms. */
  readonly outlivesMs: number
  /** Keys that may stay in Redis. */
  readonly keysThatStay: RegExp | undefined
}

/** How kinds differ from the plain lock beyond the traits in the table. */
const DIFFERENCES: Partial<Record<KindId, Partial<Kind>>> = {
  write: { isAdoptable: false },
  read: { rival: (client, name) => client.getReadWriteLock(name).writeLock(), isAdoptable: false },
  fenced: { keysThatStay: /^redisson_lock_token:/ },
  spin: { isAnnounced: false, isPolled: true },
  string: { counts: undefined, isPolled: true },
  fasterMulti: {
    counts: (admin, name) => countsIn(admin, name, /:lock_count$/),
    isAdoptable: false,
    outlivesMs: 10_000,
  },
}

function kind(id: KindId): Kind {
  const { title, isShared = false, isReentrant = true, isHandedOff = false } = KINDS[id]
  const lock = (client: Client, name: string): Lock =>
    id === 'fasterMulti' ? client.getFasterMultiLock(name, ['one', 'two']) : lockOfKind(client, id, name)
  return {
    name: title,
    lock,
    parts: (client, name) => [lock(client, name)],
    rival: lock,
    keys: (name) => [name],
    counts: (admin, name) => countsIn(admin, name),
    isShared,
    isReentrant,
    isJoint: false,
    isAdoptable: true,
    isHandedOff,
    isAnnounced: true,
    isPolled: false,
    outlivesMs: 0,
    keysThatStay: undefined,
    ...DIFFERENCES[id],
  }
}

/** @param key  the name of a member */
function multiLock(
  name: string,
  key: (name: string, member: 1 | 2) => string,
  lock: (client: Client, name: string) => Lock,
): Kind {
  const members = (client: Client, name: string): [Lock, Lock] => [
    client.getLock(key(name, 1)),
    lock(client, key(name, 2)),
  ]
  return {
    ...kind('lock'),
    name,
    lock: (client, name) => getMultiLock(...members(client, name)),
    parts: members,
    rival: (client, name) => getMultiLock(...members(client, name)),
    keys: (name) => [key(name, 1), key(name, 2)],
    counts: async (admin, name) => [...(await countsIn(admin, key(name, 1))), ...(await countsIn(admin, key(name, 2)))],
    isJoint: true,
    isAdoptable: false,
    isHandedOff: false,
  }
}

/** A side of an ordered read-write lock. */
function ordered(side: 'readLock' | 'writeLock'): Kind {
  const lockOf = (client: Client, name: string) => client.getReadWriteLock(name, { order: 'fifo' })
  const lock = (client: Client, name: string): Lock => lockOf(client, name)[side]()
  return {
    ...kind(side === 'readLock' ? 'read' : 'write'),
    name: side === 'readLock' ? 'read lock in order' : 'write lock in order',
    lock,
    parts: (client, name) => [lock(client, name)],
    rival: (client, name) => lockOf(client, name).writeLock(),
    isHandedOff: false,
  }
}

const orderedLock = (client: Client, name: string): Lock => client.getLock(name, { order: 'fifo' })

export const kinds: readonly Kind[] = [
  ...KIND_IDS.map(kind),
  {
    ...kind('lock'),
    name: 'lock in order',
    lock: orderedLock,
    parts: (client, name) => [orderedLock(client, name)],
    rival: orderedLock,
    isHandedOff: false,
  },
  ordered('writeLock'),
  ordered('readLock'),
  multiLock(
    'multi-lock',
    (name, member) => `${name}:${member}`,
    (client, name) => client.getFairLock(name),
  ),
  // In a cluster of one slot: they are taken in one command.
  multiLock(
    'multi-lock of plain locks',
    (name, member) => `{${name}}:${member}`,
    (client, name) => client.getLock(name),
  ),
]

/** The plain lock through every driver, each of the others through one of them. */
export function kindsThrough(drivers: readonly Driver[]): { kind: Kind; driver: Driver }[] {
  return kinds.flatMap((kind, index) => {
    const through = index === 0 ? drivers : [drivers[index % drivers.length] as Driver]
    return through.map((driver) => ({ kind, driver }))
  })
}

/** For the processes of the tests, which receive a title. */
export function kindNamed(name: string): Kind {
  const found = kinds.find((kind) => kind.name === name)
  assert(found, `there is no kind of lock called ${name}`)
  return found
}

async function countsIn(admin: Admin, key: string, field = /^(?!mode$)/): Promise<readonly number[]> {
  const fields = Object.entries(await admin.hgetall(key))
  return fields.filter(([name]) => field.test(name)).map(([, count]) => Number(count))
}

const OPERATIONS = {
  acquire: /\/acquire(-queued|-all)?$/,
  reenter: /\/(reenter|set-count|extend)$/,
  releaseOne: /\/(release-one|set-count|extend)$/,
  release: /\/release(-queued)?$/,
  renew: /\/renew$/,
}

/**
 * The requests of one operation on a lock `a` of any kind or on a part of it, for the faults of a proxy. Redis must know the
 * scripts by then: what is sent as text is not among them.
 */
export function requestTo(operation: keyof typeof OPERATIONS): Match {
  return (request) => {
    const [, sha1 = '', key = ''] = /^EVALSHA (\S+) \d+ (\S+) /.exec(request) ?? []
    return /^(a|\{a\})(:\d)?$/.test(key) && OPERATIONS[operation].test(SCRIPT_NAMES.get(sha1) ?? '')
  }
}

/** What the tests of every kind read and do repeatedly. The lock is `a` where no name is given. */
export class KindFixture {
  readonly #kind: Kind
  readonly #fixture: AnyFixture

  constructor(kind: Kind, fixture: AnyFixture) {
    this.#kind = kind
    this.#fixture = fixture
  }

  lock(client: Client, name = 'a'): BaseLock {
    return this.#kind.lock(client, name)
  }

  rival(client: Client, name = 'a'): BaseLock {
    return this.#kind.rival(client, name)
  }

  parts(client: Client, name = 'a'): readonly Lock[] {
    return this.#kind.parts(client, name)
  }

  /** Whether nothing in Redis says that it is held. */
  async isFree(name = 'a'): Promise<boolean> {
    return (await this.#fixture.server.admin.exists(...this.#kind.keys(name))) === 0
  }

  /** All keys but those that may stay and records of clients: none, when nobody holds anything and nobody waits. */
  async keys(): Promise<string[]> {
    const keys = await this.#fixture.server.admin.keys('*')
    return keys.filter((key) => !this.#kind.keysThatStay?.test(key) && !key.startsWith('holdfast_client:'))
  }

  /** Resolves when there are these keys and no more: places in a queue are given up in the background. */
  async onlyKeys(expected: readonly string[]): Promise<void> {
    const wanted = [...expected].sort().join()
    await waitUntil(async () => (await this.keys()).sort().join() === wanted, {
      message: 'no place in a queue is left',
    })
  }

  /** What an operator does, or a Redis that loses data. */
  async deleteKeys(): Promise<void> {
    await this.#fixture.server.admin.del(...(await this.keys()))
  }

  /** Checks the hold count in Redis, where there is one: of each part, and of the holder. */
  async expectCount(count: number): Promise<void> {
    if (!this.#kind.counts) return
    const counts = await this.#kind.counts(this.#fixture.server.admin, 'a')
    assert(counts.length > 0, 'it is held')
    for (const found of counts) assert.equal(found, count)
  }

  /** Resolves when a lock has a waiter: one is subscribed, or has made several attempts. */
  async somebodyWaits(): Promise<void> {
    const { admin } = this.#fixture.server
    const { isWaiting } = this.#fixture
    if (isWaiting) {
      await waitUntil(isWaiting, { message: 'a request waits' })
      return
    }
    if (this.#kind.isAnnounced) {
      await waitUntil(async () => (await admin.pubsub('CHANNELS')).length > 0, {
        message: 'a channel has a subscriber',
      })
      return
    }
    await somebodyPolls(this.#fixture)
  }

  /** Resolves when nobody does any more. */
  async nobodyWaits(): Promise<void> {
    const { admin } = this.#fixture.server
    await waitUntil(async () => (await admin.pubsub('CHANNELS')).length === 0, {
      message: 'no channel has a subscriber',
    })
  }
}
