// The mark beside a lock: which holder has to give it up.
import { toArray, toInteger } from '../../delivery/replies.js'
import { forcedMark, forcedWithdraw } from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import { forcedKey } from '../../wire/keys.js'
import type { Context } from '../context.js'
import type { LockKind } from '../kinds/lock-kind.js'

/** How long a mark stays, ms: a holder that was paused meanwhile still learns why it lost the lock. */
const MARK_TTL_MS = 600_000
/**
 * How long a mark can end a hold, ms. A holder that reads it later carries on, because by then the operator has given up; and
 * a mark that a crashed operator left behind ends nothing, whatever messages arrive about it.
 */
export const REACTION_MS = 2_000
/** The longest grace, ms. */
export const MAX_GRACE_MS = 60_000
/** Longest text in a mark. */
const MAX_TEXT = 1_024

/**
 * Names a holder that has to give up a lock. It is in Redis beside the lock, where only those may write who may break it, and
 * each holder has its own: readers share a lock.
 */
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
  /** Earliest and latest time at which it can have been set, on the clock; they differ by the time Redis took to reply. */
  readonly setBetween: readonly [earliest: number, latest: number]
}

/** The form in Redis of kinds that cannot be distinguished otherwise. */
function formOf(kind: LockKind): string {
  if (kind.id === 'string') return 'string'
  return kind.id === 'read' || kind.id === 'write' ? 'read-write' : 'hash'
}

/**
 * Marks a holder, if it holds the lock. A mark that another operator has set a moment ago stands: the holder may be reading it.
 * @param standsForMs  for how long an earlier mark stands; 0: it is replaced
 */
export function setMark(kind: LockKind, key: string, mark: ForcedMark, standsForMs = REACTION_MS): ScriptCall {
  const { holder } = mark
  const content = JSON.stringify(mark)
  return forcedMark(key, forcedKey(key, holder), formOf(kind), holder, content, MARK_TTL_MS, standsForMs)
}

/**
 * The reply to `setMark`.
 * @returns whether the holder holds the lock; and the mark of an earlier operator, if there was one, with its age, ms
 */
export function parseMarked(reply: unknown): { isHeld: boolean; earlier?: { mark: ForcedMark; ageMs: number } } {
  if (reply === null) return { isHeld: false }
  const [text, age] = toArray(reply)
  const mark = text === undefined ? undefined : parse(text)
  return mark ? { isHeld: true, earlier: { mark, ageMs: toInteger(age) ?? 0 } } : { isHeld: true }
}

/** Deletes this very mark. */
export function deleteMark(key: string, mark: ForcedMark): ScriptCall {
  return forcedWithdraw(forcedKey(key, mark.holder), JSON.stringify(mark))
}

/** A holder of a lock, by which its mark is found. */
export interface MarkedHolder {
  readonly key: string
  readonly holder: string
}

/** The message to the inbox of a client that one of its holders is marked. */
export function markNotice({ key, holder }: MarkedHolder): string {
  return JSON.stringify({ v: 1, forced: key, holder })
}

/** @returns whom a `markNotice` names; undefined: it is another message */
export function readNotice(text: string): MarkedHolder | undefined {
  if (!text.includes('"forced"')) return undefined // most are requests, and many may come
  try {
    const { v, forced: key, holder } = JSON.parse(text) as Record<string, unknown>
    if (v !== 1 || typeof key !== 'string' || typeof holder !== 'string') return undefined
    return { key, holder }
  } catch {
    return undefined
  }
}

/**
 * The mark of a holder.
 * @param timeoutMs  how long Redis may take to return it
 * @returns undefined if there is none or it is malformed
 * @throws as `Scripts.command`
 */
export async function readMark(
  { scripts, clock }: Context,
  { key: lockKey, holder }: MarkedHolder,
  timeoutMs: number,
): Promise<FoundMark | undefined> {
  const key = forcedKey(lockKey, holder)
  const sentAt = clock.now()
  const [text, pttl] = await Promise.all([
    scripts.command(['GET', key], key, timeoutMs),
    scripts.command(['PTTL', key], key, timeoutMs),
  ])
  const mark = parse(text)
  const ageMs = MARK_TTL_MS - (toInteger(pttl) ?? 0)
  return mark?.holder === holder ? { mark, setBetween: [sentAt - ageMs, clock.now() - ageMs] } : undefined
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
