// The specifics of both sides of a read-write lock.
import { toWords } from '../../delivery/replies.js'
import {
  readLockAcquire,
  readLockInspect,
  readLockRelease,
  readLockRenew,
  readLockSetCount,
  writeLockAcquire,
  writeLockRelease,
} from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import {
  isWriter,
  readHoldPrefix,
  readWriteChannel,
  UNLOCK_MESSAGE,
  WRITE_SUFFIX,
  WRITE_UNLOCK_MESSAGE,
} from '../../wire/keys.js'
import type { AcquireRequest, Holder, Inspection, LockKind, Nesting } from './lock-kind.js'
import { holdersOf, PlainKind, remaining } from './plain.js'

/** The shared side, Redisson's `RedissonReadLock`: besides the hash, each hold has a key with a lease of its own. */
export class ReadKind extends PlainKind {
  readonly mode = 'read'
  override readonly adopt = undefined

  override nestingIn(outer: LockKind): Nesting {
    return outer.mode === 'write' ? 'join' : super.nestingIn(outer)
  }

  override excludes(other: LockKind): boolean {
    return other.mode === 'write'
  }

  override channel(key: string): string {
    return readWriteChannel(key)
  }

  override acquire({ key, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    const readHold = `${readHoldPrefix(key)}${holder}:rwlock_timeout:1`
    return readLockAcquire(key, readHold, leaseTimeMs, holder)
  }

  override reenter(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return readLockSetCount(key, leaseTimeMs, holder, count, readHoldPrefix(key))
  }

  override releaseOne(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return readLockSetCount(key, leaseTimeMs, holder, count, readHoldPrefix(key))
  }

  override renew(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return readLockRenew([key], [holder, leaseTimeMs, readHoldPrefix(key)])
  }

  override release(key: string, holder: string): ScriptCall {
    return readLockRelease(key, holder, readHoldPrefix(key), readWriteChannel(key), UNLOCK_MESSAGE)
  }

  override inspect(key: string, of?: string, from?: string): ScriptCall {
    return inspectBoth(key, of, from)
  }

  override parseInspection(reply: unknown): Inspection {
    return parseSide(reply, 'read')
  }
}

/** The exclusive side, Redisson's `RedissonWriteLock`: its field in the hash is `<holder>:write`. */
export class WriteKind extends PlainKind {
  readonly mode = 'write'
  readonly inside: LockKind = READ
  override readonly adopt = undefined

  override excludes(other: LockKind): boolean {
    return other.mode !== undefined
  }

  override holder(owner: string): string {
    return owner + WRITE_SUFFIX
  }

  override channel(key: string): string {
    return readWriteChannel(key)
  }

  override acquire({ key, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return writeLockAcquire(key, leaseTimeMs, holder, readHoldPrefix(key))
  }

  override release(key: string, holder: string): ScriptCall {
    const channel = readWriteChannel(key)
    return writeLockRelease(key, holder, readHoldPrefix(key), channel, WRITE_UNLOCK_MESSAGE)
  }

  override renewCapped(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return this.renew(key, holder, leaseTimeMs) // the writer's own reads may have longer leases
  }

  override inspect(key: string, of?: string, from?: string): ScriptCall {
    return inspectBoth(key, of, from)
  }

  override parseInspection(reply: unknown): Inspection {
    return parseSide(reply, 'write')
  }
}

/** The cursor of the first readers, and the one that follows the last. */
const START = '0'

function inspectBoth(key: string, of = '', from = of === '' ? START : ''): ScriptCall {
  return readLockInspect(key, readHoldPrefix(key), from, of)
}

/** Readers wait for writers, and writers for everybody. */
function parseSide(reply: unknown, own: 'read' | 'write'): Inspection {
  const [ttl, cursor = START, most, ...fields] = toWords(reply)
  const holders = holdersOf(fields)
  const next = cursor === START ? undefined : cursor
  const remainingLeaseMs = remaining(Number(ttl))
  const others = next === undefined ? 0 : Math.max(0, Number(most) - holders.length)
  const modeOf = ({ holder }: Holder) => (isWriter(holder) ? 'write' : 'read')
  const ours = holders.filter((one) => modeOf(one) === own)
  const all = holders.map((one) => ({ ...one, mode: modeOf(one) }) as const)
  const blockers = own === 'write' ? { holders: all, others } : { holders: all.filter(({ mode }) => mode === 'write') }
  return {
    holders: ours,
    remainingLeaseMs: ours.length === 0 ? 0 : remainingLeaseMs,
    next,
    others,
    blockers: { remainingLeaseMs, ...blockers },
  }
}

export const READ: LockKind = new ReadKind('read')
export const WRITE: LockKind = new WriteKind('write')
