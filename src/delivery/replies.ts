/** A command that Redis did not answer: it may have run, may still run, or may never have been sent. */
export class NoReplyError extends Error {}

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

/** Error replies that mean "not now": nothing ran, and trying again later may succeed. */
const NOT_NOW = /\b(LOADING|BUSY|READONLY|NOREPLICAS|MISCONF|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/

/** Whether trying the same call again later may succeed. All our scripts may run twice. */
export function isRetryable(error: unknown): boolean {
  return error instanceof NoReplyError || (error instanceof Error && NOT_NOW.test(error.message))
}

/** Whether it is an error reply with one of these codes. */
export function isErrorOf(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && codes.some((code) => error.message.includes(code))
}

/**
 * An integer reply, in whatever form the client library gives it; null stays null.
 * @throws {NoReplyError} anything else, such as `QUEUED` in a transaction: then it is not known what became of the script
 */
export function toInteger(reply: unknown): number | null {
  if (reply === null) return null
  const integer = typeof reply === 'object' ? Number(String(reply)) : reply === undefined ? Number.NaN : Number(reply)
  if (!Number.isInteger(integer)) {
    throw notOurs(reply)
  }
  return integer
}

export function notOurs(reply: unknown): NoReplyError {
  return new NoReplyError(`the Redis client answered ${String(reply)}, which is no reply of the script`)
}
