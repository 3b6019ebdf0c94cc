// Parses replies; which errors are retryable.
import { LockError } from '../errors.js'

/** A command without a reply: it may have run, may still run, or may never have been sent. */
export class NoReplyError extends Error {
  readonly code = 'NO_REPLY'
}

/**
 * An array reply.
 * @throws {NoReplyError} anything else
 */
export function toArray(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw notOurs(reply)
}

/**
 * An array reply, each element as text; nil elements are empty.
 * @throws {NoReplyError} anything else
 */
export function toWords(reply: unknown): string[] {
  return toArray(reply).map((word) => (word === null ? '' : String(word)))
}

/** Error replies that mean "not now": nothing ran. */
const NOT_NOW =
  /\b(LOADING|BUSY|READONLY|NOREPLICAS|MISCONF|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b|Too many Cluster redirections/
/** A key that only the script names is on another node of the cluster: it may have been moved there before the others. */
const ELSEWHERE = /access a non local key/
/** Nothing ran either, and what is missing is a right, a command, or a key of the right type. */
const LASTING =
  /\b(NOPERM|WRONGTYPE)\b|can't run this command|(unknown|unsupported) (sub)?command|command .*(not (allowed|available|supported)|disabled)|not an integer|would overflow|invalid expire|one reader can hold|bad lua script/i
/** Nor here, and somebody has to act before anything will: make room, log in, or open the right server. */
const NOT_UNTIL_CHANGED = /\b(OOM|NOAUTH|WRONGPASS|MOVED|ASK|CROSSSLOT|in same slot)\b/
/** The script itself failed; a retry would fail too. */
const OF_SCRIPT = /user_script|compiling script/

/** Whether it is an error reply of Redis, or of a proxy. */
function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && !(error instanceof LockError || error instanceof TypeError)
}

/**
 * Whether a caller should wait for a retry of the same call. All our scripts are idempotent. An error that nobody knows
 * is one of those that pass, as most do (`UNBLOCKED`, a proxy's `upstream failure`); who waits does so for a limited time.
 */
export function isRetryable(error: unknown): boolean {
  if (isOutage(error)) return true
  if (!isErrorReply(error)) return false
  const { message } = error
  if (ELSEWHERE.test(message)) return true
  return !(isLasting(error) || NOT_UNTIL_CHANGED.test(message) || OF_SCRIPT.test(message))
}

/** Whether there was no reply, or Redis replied that it cannot serve now: nothing is wrong with the call. */
export function isOutage(error: unknown): boolean {
  return error instanceof NoReplyError || (isErrorReply(error) && NOT_NOW.test(error.message))
}

/** Whether it is an error reply that no retry changes, however late it comes. */
export function isLasting(error: unknown): boolean {
  if (!isErrorReply(error) || error instanceof NoReplyError) return false
  const { message } = error
  return LASTING.test(message) && !NOT_NOW.test(message) && !/\bOOM\b/.test(message)
}

/** Whether a call that failed may have run. What Redis refuses has not; what a proxy could not pass on may have. */
export function mayHaveRun(error: unknown): boolean {
  if (!isErrorReply(error) || error instanceof NoReplyError) return error instanceof NoReplyError
  const { message } = error
  return !(NOT_NOW.test(message) || isLasting(error) || NOT_UNTIL_CHANGED.test(message))
}

/** Whether it is an error reply with one of these codes. */
export function isErrorOf(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && codes.some((code) => error.message.includes(code))
}

/** Whether keys of different slots were refused in one command, by Redis or in the words of a proxy. */
export function isCrossSlot(error: unknown): boolean {
  return isErrorOf(error, 'CROSSSLOT', 'in same slot')
}

/** How proxies begin that read scripts, and refuse some. */
export const BAD_SCRIPT = 'bad lua script'

const INTEGER = /^-?\d+$/

/**
 * An integer reply, in whatever form the client library returns it; null stays null.
 * @throws {NoReplyError} anything else, such as `QUEUED` in a transaction: then it is unknown whether the script ran
 */
export function toInteger(reply: unknown): number | null {
  if (reply === null) return null
  const text = String(reply)
  if (!INTEGER.test(text)) throw notOurs(reply)
  return Number(text)
}

/** For a reply that none of our scripts returns. */
export function notOurs(reply: unknown): NoReplyError {
  return new NoReplyError(`the Redis client returned ${String(reply)}, which is not a reply of the script`)
}

const MOVING = 'wait until that has ended, or end it with `redis-cli --cluster fix`'
/** Advice that Redis does not give: the cause of a reply, and the remedy. */
const ADVICE: readonly (readonly [reply: RegExp, advice: string])[] = [
  [/^TRYAGAIN\b/, `a slot of the cluster is being moved, and not all keys of this lock are on one node: ${MOVING}`],
  [
    ELSEWHERE,
    `this is a node of a cluster, and a key of this lock is on another one. If its slot is being moved, ${MOVING}. Otherwise ` +
      'connect with clusterServersConfig or a cluster client, so that the keys of one lock share a slot',
  ],
]

/** Adds advice to an error reply that leaves its reader at a loss. @returns the same object */
export function advised(error: unknown): unknown {
  const [, advice] = ADVICE.find(([reply]) => error instanceof Error && reply.test(error.message)) ?? []
  if (!(error instanceof Error) || advice === undefined || error.message.endsWith(advice)) return error
  const { message, stack = '' } = error
  // An error may be frozen.
  Reflect.defineProperty(error, 'message', { value: `${message}: ${advice}` })
  Reflect.defineProperty(error, 'stack', { value: stack.replace(message, () => `${message}: ${advice}`) })
  return error
}
