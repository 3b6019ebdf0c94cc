// Locks that are granted in order: by a queue in Redis, and offers to the first in it.
import { toInteger } from '../../delivery/replies.js'
import { queueAcquire, queueRelease } from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import type { Refusal } from '../../waiting/wait-queue.js'
import {
  INBOX_PREFIX,
  lockChannel,
  queueKeys,
  readHoldPrefix,
  readWriteChannel,
  UNLOCK_MESSAGE,
  WRITE_UNLOCK_MESSAGE,
  watchChannel,
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

/** What differs between ordered locks in Redis. */
interface InRedis {
  readonly prefix: (key: string) => string
  readonly channel: (key: string) => string
  readonly message: string
}

const PLAIN: InRedis = { prefix: () => NO_PREFIX, channel: lockChannel, message: UNLOCK_MESSAGE }
const READ: InRedis = { prefix: readHoldPrefix, channel: readWriteChannel, message: UNLOCK_MESSAGE }
const WRITE: InRedis = { ...READ, message: WRITE_UNLOCK_MESSAGE }

/**
 * Makes a kind one whose waiters are served in order. To others, and in Redis, its holds are ordinary ones.
 * @param maxWaiters  a call that finds as many waiting is refused at once; -1: any number
 */
function inOrder<K extends PlainKind>(kind: K, { prefix, channel, message }: InRedis, maxWaiters: number): K {
  const release = (key: string, holder: string): ScriptCall => {
    const to = channel(key)
    return queueRelease(key, ...queueKeys(key), holder, prefix(key), INBOX_PREFIX, to, message, watchChannel(to))
  }
  return Object.assign(kind, {
    isOrdered: true,
    acquire: (request: AcquireRequest) => acquire(request, prefix(request.key), maxWaiters),
    parseReply,
    release,
    leave: release,
  })
}

/** The plain lock. @param maxWaiters  as of `inOrder` */
export function orderedKind(maxWaiters = -1): LockKind {
  const kind = inOrder(new PlainKind('lock', { ...KINDS.lock, ...TRAITS }), PLAIN, maxWaiters)
  return Object.assign(kind, { tracesHolds: false }) // as REENTRANT
}

/** Both sides of a read-write lock. @param maxWaiters  as of `inOrder` */
export function orderedKinds(maxWaiters = -1): { readonly read: LockKind; readonly write: LockKind } {
  const read = inOrder(new ReadKind('read', { ...KINDS.read, ...TRAITS }), READ, maxWaiters)
  const write = inOrder(new WriteKind('write', { ...KINDS.write, ...TRAITS }), WRITE, maxWaiters)
  return { read, write: Object.assign(write, { inside: read }) }
}

function acquire(request: AcquireRequest, prefix: string, maxWaiters: number): ScriptCall {
  const { key, holder, leaseTimeMs, waitTimeMs, priority = 0, place = '' } = request
  const isQueueing = waitTimeMs === 0 ? 0 : 1
  const keys = [key, ...queueKeys(key)] as const
  return queueAcquire(...keys, leaseTimeMs, holder, prefix, INBOX_PREFIX, priority, place, maxWaiters, isQueueing)
}

function parseReply(reply: unknown, lock: Named): AcquireReply {
  refuseFull(reply, lock.name)
  return toInteger(Array.isArray(reply) ? reply[0] : reply) === null ? { isGranted: true } : parseRefusal(reply)
}

/** What a queue replies to a waiter: when to ask again at the latest, ms; its place; whether it is the first. */
export function parseRefusal(reply: unknown): Refusal {
  const [left, rank, place] = Array.isArray(reply) ? reply : [reply]
  return { heldForMs: toInteger(left) ?? -1, rank: String(rank ?? ''), place: PLACES[toInteger(place ?? 0) ?? 0] }
}
