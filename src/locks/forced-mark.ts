import { toInteger } from '../delivery/replies.js'
import { forcedMark, forcedWithdraw } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import { forcedKey } from '../wire/keys.js'
import type { Context } from './context.js'
import type { LockKind } from './kinds/lock-kind.js'

/** How long a mark stays, ms: a holder that was paused meanwhile still learns why it lost the lock. */
const MARK_TTL_MS = 600_000
/**
 * How long a mark can end a hold, ms. A holder that reads it later carries on, because by then the operator has given up; and
 * a mark that a crashed operator left behind ends nothing, whoever sends messages about it.
 */
export const REACTION_MS = 2_000
/** The longest grace, ms. */
export const MAX_GRACE_MS = 60_000
/** Longest text in a mark. */
const MAX_TEXT = 1_024

/** Names the holder that has to give up a lock. It is in Redis beside the lock, where only those may write who may break it. */
export interface ForcedMark {
  /** Tells two marks with the same content apart. */
  readonly id: string
  readonly holder: string
  readonly by: string
  readonly reason?: string | undefined
  /** How long the work under the lock may take to stop, from when the holder reads the mark, ms. */
  readonly graceMs: number
}

export interface FoundMark {
  readonly mark: ForcedMark
  /** When it was set, on the clock; or somewhat earlier or later, by at most what Redis took to reply. */
  readonly setBetween: readonly [earliest: number, latest: number]
}

/** What differs in Redis between kinds that cannot be told apart otherwise. */
function formOf(kind: LockKind): string {
  if (kind.id === 'string') return 'string'
  return kind.id === 'read' || kind.id === 'write' ? 'read-write' : 'hash'
}

/** Replies 1 if that holder holds the lock: then the mark is set. */
export function setMark(kind: LockKind, lockName: string, mark: ForcedMark): ScriptCall {
  return forcedMark(lockName, forcedKey(lockName), formOf(kind), mark.holder, JSON.stringify(mark), MARK_TTL_MS)
}

/** Deletes this very mark. */
export function withdrawMark(lockName: string, mark: ForcedMark): ScriptCall {
  return forcedWithdraw(forcedKey(lockName), JSON.stringify(mark))
}

/** The message to the inbox of a client that a holder of this lock, maybe one of its own, is marked. */
export function markNotice(lockName: string): string {
  return JSON.stringify({ v: 1, forced: lockName })
}

/** @returns the lock of a `markNotice`; undefined: it is another message */
export function lockOfNotice(text: string): string | undefined {
  if (!text.includes('"forced"')) return undefined // most are requests, and many may come
  try {
    const { v, forced } = JSON.parse(text) as Record<string, unknown>
    return v === 1 && typeof forced === 'string' ? forced : undefined
  } catch {
    return undefined
  }
}

/**
 * The mark of a lock.
 * @param timeoutMs  how long Redis may take to return it
 * @returns undefined: there is none, or it makes no sense
 * @throws as `Scripts.ask`
 */
export async function readMark(
  { scripts, clock }: Context,
  lockName: string,
  timeoutMs: number,
): Promise<FoundMark | undefined> {
  const key = forcedKey(lockName)
  const sentAt = clock.now()
  const [text, pttl] = await Promise.all([
    scripts.ask(['GET', key], key, timeoutMs),
    scripts.ask(['PTTL', key], key, timeoutMs),
  ])
  const mark = parse(text)
  const ageMs = MARK_TTL_MS - (toInteger(pttl) ?? 0)
  return mark && { mark, setBetween: [sentAt - ageMs, clock.now() - ageMs] }
}

function parse(text: unknown): ForcedMark | undefined {
  if (typeof text !== 'string') return undefined
  try {
    const { id, holder, by, reason, graceMs } = JSON.parse(text) as Record<string, unknown>
    if (typeof id !== 'string' || typeof holder !== 'string' || typeof by !== 'string') return undefined
    if (typeof graceMs !== 'number' || !(graceMs >= 0)) return undefined
    return {
      id,
      holder,
      by: by.slice(0, MAX_TEXT),
      reason: typeof reason === 'string' ? reason.slice(0, MAX_TEXT) : undefined,
      graceMs: Math.min(graceMs, MAX_GRACE_MS),
    }
  } catch {
    return undefined
  }
}
