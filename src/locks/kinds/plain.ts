import { toInteger, toWords } from '../../delivery/replies.js'
import {
  lockAcquire,
  lockAcquireInLine,
  lockAdopt,
  lockCutLease,
  lockForceRelease,
  lockForceReleaseInLine,
  lockInspect,
  lockLeaveLine,
  lockReenter,
  lockRelease,
  lockReleaseInLine,
  lockRenew,
  lockStepDown,
} from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import { INBOX_PREFIX, lockChannel, UNLOCK_MESSAGE, waitersKey } from '../../wire/keys.js'
import type { AcquireReply, AcquireRequest, Inspection, LockKind, Nesting, TurnQueueScripts } from './lock-kind.js'
import { KINDS, type KindId, type KindTraits } from './table.js'

/**
 * The re-entrant lock, Redisson's `RLock`: a hash at the lock's name with one field, holder → hold count, and a TTL. The
 * kinds that keep the same hash change what differs.
 */
export class PlainKind implements LockKind {
  readonly id: KindId | 'permit' = 'lock'
  readonly noun: string = 'Lock'
  readonly isDivisible: boolean = false
  readonly tracesHolds: boolean = true
  readonly turnQueue: TurnQueueScripts | undefined = undefined
  readonly adopt: LockKind['adopt'] = ({ lockName, holder, leaseTimeMs }, from) =>
    lockAdopt(lockName, leaseTimeMs, from, holder)

  get traits(): KindTraits {
    return KINDS[this.id as KindId]
  }

  get title(): string {
    return this.traits.title
  }

  get isShared(): boolean {
    return this.traits.isShared ?? false
  }

  get isHandedOff(): boolean {
    return this.traits.isHandedOff ?? false
  }

  get isQueuedInRedis(): boolean {
    return this.traits.isQueuedInRedis ?? false
  }

  get queue(): string {
    return this.id
  }

  is(other: LockKind): boolean {
    return other.id === this.id
  }

  nestingIn(outer: LockKind): Nesting {
    return this.is(outer) && this.traits.isReentrant !== false ? 'again' : 'deadlock'
  }

  excludes(other: LockKind): boolean {
    return this.is(other)
  }

  holder(owner: string): string {
    return owner
  }

  channel(lockName: string, _holder: string): string | undefined {
    return lockChannel(lockName)
  }

  acquire({ lockName, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return lockAcquire(lockName, leaseTimeMs, holder)
  }

  parseReply(reply: unknown, _lockName: string): AcquireReply {
    const [heldFor, place] = Array.isArray(reply) ? reply : [reply]
    const heldForMs = toInteger(heldFor)
    return heldForMs === null ? { isGranted: true } : { heldForMs, place: PLACES[toInteger(place ?? 0) ?? 0] }
  }

  reenter(lockName: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return lockReenter(lockName, leaseTimeMs, holder, count)
  }

  releaseOne(lockName: string, holder: string, leaseTimeMs: number, count: number): ScriptCall {
    return lockStepDown(lockName, leaseTimeMs, holder, count)
  }

  release(lockName: string, holder: string): ScriptCall {
    return lockRelease(lockName, holder, lockChannel(lockName), UNLOCK_MESSAGE)
  }

  forceRelease(lockName: string): ScriptCall {
    return lockForceRelease(lockName, lockChannel(lockName), UNLOCK_MESSAGE)
  }

  renew(lockName: string, holder: string, leaseTimeMs: number): ScriptCall {
    return lockRenew([lockName], [holder, leaseTimeMs])
  }

  cutLease(lockName: string, holder: string, leaseTimeMs: number, longestMs: number): ScriptCall {
    return lockCutLease([lockName], [holder, leaseTimeMs, longestMs])
  }

  inspect(lockName: string): ScriptCall {
    return lockInspect(lockName)
  }

  parseInspection(reply: unknown): Inspection {
    const [ttl, ...fields] = toWords(reply)
    const holders = []
    for (let index = 0; index + 1 < fields.length; index += 2) {
      holders.push({ holder: fields[index] as string, holdCount: Number(fields[index + 1]) })
    }
    return { remainingLeaseMs: remaining(Number(ttl)), holders }
  }
}

/** As `lock/acquire-in-line` numbers them. */
const PLACES = [undefined, 'first', 'behind'] as const

/** What PTTL means for people: -2 is free, -1 never ends. */
export function remaining(pttl: number): number {
  return pttl === -1 ? Number.POSITIVE_INFINITY : Math.max(0, pttl)
}

/** Who waits asks every few seconds. */
const LINE_PATIENCE_MS = 60_000

/** Releases that give the turn to the first in line. */
export const RELEASES_IN_LINE: TurnQueueScripts = {
  release: (lockName, holder, { ticket, waits } = { ticket: '', waits: true }) =>
    lockReleaseInLine(
      lockName,
      waitersKey(lockName),
      holder,
      lockChannel(lockName),
      UNLOCK_MESSAGE,
      INBOX_PREFIX,
      ticket,
      waits ? LINE_PATIENCE_MS : 0,
    ),
  forceRelease: (lockName) =>
    lockForceReleaseInLine(lockName, waitersKey(lockName), lockChannel(lockName), UNLOCK_MESSAGE, INBOX_PREFIX),
  leave: (lockName, ticket) => lockLeaveLine(lockName, waitersKey(lockName), ticket, INBOX_PREFIX),
}

const IN_LINE: TurnQueueScripts = {
  ...RELEASES_IN_LINE,
  acquire: ({ lockName, leaseTimeMs, holder }, { ticket, isLook, waits }) =>
    lockAcquireInLine(
      lockName,
      waitersKey(lockName),
      leaseTimeMs,
      holder,
      ticket,
      LINE_PATIENCE_MS,
      INBOX_PREFIX,
      isLook ? 1 : 0,
      waits ? 1 : 0,
    ),
}

class ReentrantKind extends PlainKind {
  // Within itself it re-enters; only another kind of lock on the same name can deadlock with it.
  override readonly tracesHolds = false
  override readonly turnQueue = IN_LINE
}

export const REENTRANT: LockKind = new ReentrantKind()

class NonReentrantKind extends PlainKind {
  override readonly id = 'nonReentrant'
  override readonly turnQueue = IN_LINE
}

/**
 * The lock that nobody can take again, Redisson's `RedissonNonReentrantLock`: the same hash, so that others see a plain
 * lock with the hold count 1.
 */
export const NON_REENTRANT: LockKind = new NonReentrantKind()
