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

/**
 * The re-entrant lock, Redisson's `RLock`: a hash at the lock's name with one field, holder → hold count, and a TTL. The
 * kinds that keep the same hash change what differs.
 */
export class PlainKind implements LockKind {
  readonly title: string = 'lock'
  readonly noun: string = 'Lock'
  readonly isDivisible: boolean = false
  readonly isShared: boolean = false
  readonly isQueuedInRedis: boolean = false
  readonly tracesHolds: boolean = true
  readonly isHandedOff: boolean = false
  readonly turnQueue: TurnQueueScripts | undefined = undefined
  readonly adopt: LockKind['adopt'] = ({ lockName, holder, leaseTimeMs }, from) =>
    lockAdopt(lockName, leaseTimeMs, from, holder)

  get queue(): string {
    return this.title
  }

  is(other: LockKind): boolean {
    return other.title === this.title
  }

  nestingIn(outer: LockKind): Nesting {
    return this.is(outer) ? 'again' : 'deadlock'
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
  release: (lockName, holder, { ticket, staysQueued } = { ticket: '', staysQueued: true }) =>
    lockReleaseInLine(
      lockName,
      waitersKey(lockName),
      holder,
      lockChannel(lockName),
      UNLOCK_MESSAGE,
      INBOX_PREFIX,
      ticket,
      staysQueued ? LINE_PATIENCE_MS : 0,
    ),
  forceRelease: (lockName) =>
    lockForceReleaseInLine(lockName, waitersKey(lockName), lockChannel(lockName), UNLOCK_MESSAGE, INBOX_PREFIX),
  leave: (lockName, ticket) => lockLeaveLine(lockName, waitersKey(lockName), ticket, INBOX_PREFIX),
}

const IN_LINE: TurnQueueScripts = {
  ...RELEASES_IN_LINE,
  acquire: ({ lockName, leaseTimeMs, holder }, { ticket, isPoll, staysQueued }) =>
    lockAcquireInLine(
      lockName,
      waitersKey(lockName),
      leaseTimeMs,
      holder,
      ticket,
      LINE_PATIENCE_MS,
      INBOX_PREFIX,
      isPoll ? 1 : 0,
      staysQueued ? 1 : 0,
    ),
}

class ReentrantKind extends PlainKind {
  // Within itself it re-enters; only another kind of lock on the same name can deadlock with it.
  override readonly tracesHolds = false
  override readonly isHandedOff = true
  override readonly turnQueue = IN_LINE
}

export const REENTRANT: LockKind = new ReentrantKind()

class NonReentrantKind extends PlainKind {
  override readonly title = 'non-reentrant lock'
  override readonly isHandedOff = true
  override readonly turnQueue = IN_LINE

  override nestingIn(): Nesting {
    return 'deadlock'
  }
}

/**
 * The lock that nobody can take again, Redisson's `RedissonNonReentrantLock`: the same hash, so that others see a plain
 * lock with the hold count 1.
 */
export const NON_REENTRANT: LockKind = new NonReentrantKind()
