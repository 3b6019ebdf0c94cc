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

/** Error replies that mean "not now": nothing ran, and a retry may succeed. */
const NOT_NOW = /\b(LOADING|BUSY|READONLY|NOREPLICAS|MISCONF|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/

/** Whether a retry of the same call may succeed. All our scripts are idempotent. */
export function isRetryable(error: unknown): boolean {
  return error instanceof NoReplyError || (error instanceof Error && NOT_NOW.test(error.message))
}

/** Whether it is an error reply with one of these codes. */
export function isErrorOf(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && codes.some((code) => error.message.includes(code))
}

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
