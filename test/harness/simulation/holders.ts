import { fromBytes, toBytes } from '../../../src/testing/bytes.js'
import type { MemoryRedis } from '../../../src/testing/memory-redis.js'
import { fieldDigest } from '../../../src/wire/highway-hash.js'
import { permitLeases, readHoldPrefix } from '../../../src/wire/keys.js'

/** Of a multi-lock of values. */
export const VALUES = ['u', 'v', 'w']
export const GROUP = 'group'
const PERMITS = 'permits'

const LOCK = /^(a|b|c|\{a\})$/
const PERMIT_LEASES = permitLeases(PERMITS)
const DIGESTS = new Map(VALUES.map((value) => [value, toBytes(fieldDigest(value))]))
const VALUE_OF = new Map([...DIGESTS].map(([value, digest]) => [digest, value]))

/** What somebody has in Redis. */
export interface Held {
  /** A lock, a value, or all permits. */
  readonly resource: string
  /** As in the lock, or the id of the permit. */
  readonly holder: string
  /** Epoch ms. */
  readonly endsAt: number
}

/** All that is held, by resource and holder. */
export function heldIn(redis: MemoryRedis): Map<string, Held> {
  const { keyspace } = redis
  keyspace.tick()
  const found = new Map<string, Held>()
  const add = (resource: string, holder: string, endsAt = Number.POSITIVE_INFINITY): void => {
    // In its last millisecond a key still lives.
    if (endsAt >= keyspace.now) found.set(`${resource} ${holder}`, { resource, holder, endsAt })
  }
  // What only has an entry has ended then.
  const addEntry = (resource: string, holder: string, endsAt: number): void => {
    if (endsAt > keyspace.now) add(resource, holder, endsAt)
  }
  for (const name of keyspace.names()) {
    const content = keyspace.content(name)
    if (!content) continue
    if (LOCK.test(name)) {
      if (content.type === 'string') add(name, fromBytes(content.value), content.expiresAt)
      if (content.type !== 'hash') continue
      const isReadWrite = content.value.has('mode')
      for (const [field, count] of content.value) {
        if (field === 'mode') continue
        const isReader = isReadWrite && !field.endsWith(':write')
        add(name, fromBytes(field), isReader ? readEndsAt(redis, name, field, Number(count)) : content.expiresAt)
      }
    } else if (name === GROUP && content.type === 'hash') {
      for (const [digest, value] of VALUE_OF) {
        const holder = content.value.get(digest)
        if (holder !== undefined) addEntry(value, holder, valueEndsAt(content.value, digest, holder))
      }
    } else if (name === PERMIT_LEASES && content.type === 'zset') {
      for (const [bytes, endsAt] of content.value) addEntry(PERMITS, hex(bytes), endsAt)
    }
  }
  return found
}

/** Who holds a value, if its lease is not over. */
export function holderOfValue(redis: MemoryRedis, value: string): string | undefined {
  redis.keyspace.tick()
  const group = redis.keyspace.read(GROUP, 'hash')
  const digest = DIGESTS.get(value) as string
  const holder = group?.get(digest)
  return group && holder !== undefined && valueEndsAt(group, digest, holder) > redis.keyspace.now ? holder : undefined
}

/** Until when a permit is held, epoch ms; 0: it is not. */
export function permitEndsAt(redis: MemoryRedis, id: string): number {
  redis.keyspace.tick()
  const endsAt = redis.keyspace.read(PERMIT_LEASES, 'zset')?.get(Buffer.from(id, 'hex').toString('latin1')) ?? 0
  return endsAt > redis.keyspace.now ? endsAt : 0
}

/** Each of its holds has a key. */
function readEndsAt({ keyspace }: MemoryRedis, name: string, reader: string, count: number): number {
  const prefix = `${readHoldPrefix(name)}${reader}:rwlock_timeout:`
  const ends = Array.from({ length: count }, (_, index) => keyspace.content(prefix + (index + 1))?.expiresAt ?? 0)
  return Math.max(0, ...ends)
}

function valueEndsAt(group: ReadonlyMap<string, string>, digest: string, holder: string): number {
  return Number(group.get(`${digest}:${holder}:expire_time`) ?? 0)
}

function hex(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('hex')
}
