// Locks that are granted in order: by a queue in Redis, and offers to the first in it.
import { toInteger } from '../../delivery/replies.js'
import { queueAcquire, queueRelease } from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import {
  INBOX_PREFIX,
  lockChannel,
  orderedClients,
  orderedQueue,
  readHoldPrefix,
  readWriteChannel,
  UNLOCK_MESSAGE,
  WRITE_UNLOCK_MESSAGE,
} from '../../wire/keys.js'
import type { Named } from '../../wire/names.js'
import { type AcquireReply, type AcquireRequest, type LockKind, refuseFull } from './lock-kind.js'
import { PlainKind } from './plain.js'
import { ReadKind, WriteKind } from './read-write.js'
import { KINDS } from './table.js'

/** A plain lock has no read holds. */
const NO_PREFIX = ''
const TRAITS = { isQueuedInRedis: true, isHandedOff: false }

/** As numbered by `queue/acquire`. */
const PLACES = [undefined, 'first', 'behind'] as const

/** The plain lock. To others, and in Redis, it is an ordinary one. */
class OrderedKind extends PlainKind {
  override readonly isOrdered = true
  override readonly tracesHolds = false
  readonly #maxWaiters: number

  constructor(maxWaiters: number) {
    super('lock', { ...KINDS.lock, ...TRAITS })
    this.#maxWaiters = maxWaiters
  }

  override get queue(): string {
    return 'ordered'
  }

  override acquire(request: AcquireRequest): ScriptCall {
    return acquire(request, NO_PREFIX, this.#maxWaiters)
  }

  override parseReply(reply: unknown, lock: Named): AcquireReply {
    return parseReply(reply, lock)
  }

  leave(key: string, holder: string): ScriptCall {
    return this.release(key, holder)
  }

  override release(key: string, holder: string): ScriptCall {
    return queueRelease(...keysOf(key), holder, NO_PREFIX, INBOX_PREFIX, lockChannel(key), UNLOCK_MESSAGE)
  }
}

/** The shared side. To others, and in Redis, it is an ordinary read lock. */
class OrderedReadKind extends ReadKind {
  override readonly isOrdered = true
  readonly #maxWaiters: number

  constructor(maxWaiters: number) {
    super('read', { ...KINDS.read, ...TRAITS })
    this.#maxWaiters = maxWaiters
  }

  override get queue(): string {
    return 'ordered read'
  }

  override acquire(request: AcquireRequest): ScriptCall {
    return acquire(request, readHoldPrefix(request.key), this.#maxWaiters)
  }

  override parseReply(reply: unknown, lock: Named): AcquireReply {
    return parseReply(reply, lock)
  }

  leave(key: string, holder: string): ScriptCall {
    return this.release(key, holder)
  }

  override release(key: string, holder: string): ScriptCall {
    return release(key, holder, UNLOCK_MESSAGE)
  }
}

/** The exclusive side. */
class OrderedWriteKind extends WriteKind {
  override readonly isOrdered = true
  override readonly inside: LockKind
  readonly #maxWaiters: number

  constructor(maxWaiters: number, inside: LockKind) {
    super('write', { ...KINDS.write, ...TRAITS })
    this.#maxWaiters = maxWaiters
    this.inside = inside
  }

  override get queue(): string {
    return 'ordered write'
  }

  override acquire(request: AcquireRequest): ScriptCall {
    return acquire(request, readHoldPrefix(request.key), this.#maxWaiters)
  }

  override parseReply(reply: unknown, lock: Named): AcquireReply {
    return parseReply(reply, lock)
  }

  leave(key: string, holder: string): ScriptCall {
    return this.release(key, holder)
  }

  override release(key: string, holder: string): ScriptCall {
    return release(key, holder, WRITE_UNLOCK_MESSAGE)
  }
}

/** @param maxWaiters  a call that finds as many waiting is refused at once */
export function orderedKind(maxWaiters = -1): LockKind {
  return new OrderedKind(maxWaiters)
}

/** @param maxWaiters  a call that finds as many waiting is refused at once */
export function orderedKinds(maxWaiters = -1): { readonly read: LockKind; readonly write: LockKind } {
  const read = new OrderedReadKind(maxWaiters)
  return { read, write: new OrderedWriteKind(maxWaiters, read) }
}

function keysOf(key: string): [lock: string, queue: string, clients: string] {
  return [key, orderedQueue(key), orderedClients(key)]
}

function acquire(request: AcquireRequest, prefix: string, maxWaiters: number): ScriptCall {
  const { key, holder, leaseTimeMs, waitTimeMs, priority = 0, place = '' } = request
  const isQueueing = waitTimeMs === 0 ? 0 : 1
  const keys = keysOf(key)
  return queueAcquire(...keys, leaseTimeMs, holder, prefix, INBOX_PREFIX, priority, place, maxWaiters, isQueueing)
}

function release(key: string, holder: string, message: string): ScriptCall {
  return queueRelease(...keysOf(key), holder, readHoldPrefix(key), INBOX_PREFIX, readWriteChannel(key), message)
}

function parseReply(reply: unknown, lock: Named): AcquireReply {
  refuseFull(reply, lock.name)
  const [left, rank, place] = Array.isArray(reply) ? reply : [reply]
  const heldForMs = toInteger(left)
  if (heldForMs === null) return { isGranted: true }
  return { heldForMs, rank: String(rank ?? ''), place: PLACES[toInteger(place ?? 0) ?? 0] }
}
