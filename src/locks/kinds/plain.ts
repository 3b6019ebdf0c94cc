// Plain locks, re-entrant or not.
import { toInteger, toWords } from '../../delivery/replies.js'
import {
  lockAcquire,
  lockAcquireQueued,
  lockAdopt,
  lockInspect,
  lockLeaveTurnQueue,
  lockReenter,
  lockRelease,
  lockReleaseOne,
  lockReleaseQueued,
  lockRenew,
  lockRenewCapped,
  lockShorten,
} from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import { INBOX_PREFIX, lockChannel, turnQueueKey, UNLOCK_MESSAGE } from '../../wire/keys.js'
import type { Named } from '../../wire/names.js'
import type {
  AcquireReply,
  AcquireRequest,
  Holder,
  Inspection,
  LockKind,
  Nesting,
  TurnQueueScripts,
} from './lock-kind.js'
import { KINDS, type KindId, type KindTraits } from './table.js'

/**
 * The re-entrant lock, Redisson's `RLock`: a hash at the lock's name with one field, holder → hold count, and a TTL. The
 * kinds that use the same hash override what differs.
 */
export class PlainKind implements LockKind {
  readonly id: KindId | 'permit'
  readonly title: string
  readonly isShared: boolean
  readonly isHandedOff: boolean
  readonly isQueuedInRedis: boolean
  readonly noun: string = 'Lock'
  readonly isDivisible: boolean = false
  readonly isOrdered: boolean = false
  readonly tracesHolds: boolean = true
  readonly turnQueue: TurnQueueScripts | undefined = undefined
  readonly adopt: LockKind['adopt'] = ({ key, holder, leaseTimeMs }, from) => lockAdopt(key, leaseTimeMs, from, holder)
  readonly #isReentrant: boolean

  constructor(id: KindId | 'permit' = 'lock', traits: KindTraits = KINDS[id as KindId]) {
    this.id = id
    this.title = traits.title
    this.isShared = traits.isShared ?? false
    this.isHandedOff = traits.isHandedOff ?? false
    this.isQueuedInRedis = traits.isQueuedInRedis ?? false
    this.#isReentrant = traits.isReentrant ?? true
  }

  get queue(): string {
    return this.isOrdered ? `ordered ${this.id}` : this.id
  }

  is(other: LockKind): boolean {
    return other.id === this.id
  }

  nestingIn(outer: LockKind): Nesting {
    return this.is(outer) && this.#isReentrant ? 'again' : 'deadlock'
  }

  excludes(other: LockKind): boolean {
    return this.is(other)
  }

  holder(owner: string): string {
    return owner
  }

  waiter(holder: string): string {
    return holder
  }

  channel(key: string, _holder: string): string | undefined {
    return lockChannel(key)
  }

  acquire({ key, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return lockAcquire(key, leaseTimeMs, holder)
  }

  parseReply(reply: unknown, _lock: Named): AcquireReply {
    const [heldFor, place] = Array.isArray(reply) ? reply : [reply]
    const heldForMs = toInteger(heldFor)
    return heldForMs === null ? { isGranted: true } : { heldForMs, place: PLACES[toInteger(place ?? 0) ?? 0] }
  }

  reenter(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return lockReenter(key, leaseTimeMs, holder, count)
  }

  releaseOne(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return lockReleaseOne(key, leaseTimeMs, holder, count)
  }

  release(key: string, holder: string): ScriptCall {
    return lockRelease(key, holder, lockChannel(key), UNLOCK_MESSAGE)
  }

  renew(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return lockRenew([key], [holder, leaseTimeMs])
  }

  renewCapped(key: string, holder: string, leaseTimeMs: number, longestMs: number): ScriptCall {
    return lockRenewCapped([key], [holder, leaseTimeMs, longestMs])
  }

  shorten(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return lockShorten(key, leaseTimeMs, holder)
  }

  inspect(key: string, _of?: string, _from?: string): ScriptCall {
    return lockInspect(key)
  }

  parseInspection(reply: unknown): Inspection {
    const [ttl, ...fields] = toWords(reply)
    return { remainingLeaseMs: remaining(Number(ttl)), holders: holdersOf(fields) }
  }
}

/** @param fields  holder, hold count, holder, hold count … */
export function holdersOf(fields: readonly string[]): Holder[] {
  const holders = []
  for (let index = 0; index + 1 < fields.length; index += 2) {
    holders.push({ holder: fields[index] as string, holdCount: Number(fields[index + 1]) })
  }
  return holders
}

/** As numbered by `lock/acquire-queued`. */
const PLACES = [undefined, 'first', 'behind'] as const

/** A PTTL as remaining time: -2 means free, -1 no expiry. */
export function remaining(pttl: number): number {
  return pttl === -1 ? Number.POSITIVE_INFINITY : Math.max(0, pttl)
}

/** How long an abandoned turn queue stays in Redis. Its clients poll every few seconds. */
const QUEUE_TTL_MS = 60_000

/** Releases that give the turn to the first client of the turn queue. */
export const RELEASES_WITH_TURN_QUEUE: TurnQueueScripts = {
  release: (key, holder, { ticket, staysQueued } = { ticket: '', staysQueued: true }) =>
    lockReleaseQueued(
      key,
      turnQueueKey(key),
      holder,
      lockChannel(key),
      UNLOCK_MESSAGE,
      INBOX_PREFIX,
      ticket,
      staysQueued ? QUEUE_TTL_MS : 0,
    ),
  leave: (key, ticket) => lockLeaveTurnQueue(key, turnQueueKey(key), ticket, INBOX_PREFIX),
}

const WITH_TURN_QUEUE: TurnQueueScripts = {
  ...RELEASES_WITH_TURN_QUEUE,
  acquire: ({ key, leaseTimeMs, holder }, { ticket, isPoll, staysQueued }) =>
    lockAcquireQueued(
      key,
      turnQueueKey(key),
      leaseTimeMs,
      holder,
      ticket,
      QUEUE_TTL_MS,
      INBOX_PREFIX,
      isPoll ? 1 : 0,
      staysQueued ? 1 : 0,
    ),
}

class ReentrantKind extends PlainKind {
  // Inside itself it re-enters; only another kind of lock with the same name can deadlock with it.
  override readonly tracesHolds = false
  override readonly turnQueue = WITH_TURN_QUEUE
}

export const REENTRANT: LockKind = new ReentrantKind()

class NonReentrantKind extends PlainKind {
  override readonly turnQueue = WITH_TURN_QUEUE
}

/**
 * A lock that its owner cannot take again, Redisson's `RedissonNonReentrantLock`: the same hash, so that others see a plain
 * lock with a hold count of 1.
 */
export const NON_REENTRANT: LockKind = new NonReentrantKind('nonReentrant')
