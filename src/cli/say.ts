import { writeSync } from 'node:fs'

/**
 * A line on stderr. Written past `process.stderr`: that would make a pipe non-blocking for the guarded command, too, which
 * inherits it, and would end us when nobody reads it any more.
 */
export function say(text: string): void {
  try {
    writeSync(2, `holdfast: ${text}\n`)
  } catch {
    // Nobody listens; that must not cost anybody the lock.
  }
}

/** Why Redis could not be used. A server that does not know HELLO or AUTH repeats their arguments: they are left out. */
export function reasonOf(error: unknown): string {
  return messageOf(error).replace(/,? with args beginning with.*/s, '')
}

/** An error as one line for people. A connection tried at several addresses fails with many errors and no message. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(messageOf).join(', ')
  return error instanceof Error ? error.message || error.name : String(error)
}
