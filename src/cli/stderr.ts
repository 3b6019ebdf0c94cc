import { writeSync } from 'node:fs'
import { messageOf } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'

/**
 * Prints a line on stderr. Bypasses `process.stderr`, which would make a pipe non-blocking for the child process too,
 * since it inherits it, and would end this process when the reader is gone.
 */
export function say(text: string): void {
  try {
    writeSync(2, `holdfast: ${visible(text)}\n`)
  } catch {
    // The reader is gone, which must not cost the lock.
  }
}

/** What a terminal executes instead of showing (ESC, C1, DEL, carriage return), and what changes the text direction. */
const CONTROL_CHARACTERS = /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/gu

/**
 * Makes untrusted text safe to print: the holder of a lock, its name, a server's reply. Control characters become escapes
 * such as `\u001b`, so JSON stays JSON with the same meaning.
 */
export function visible(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Removes everything from URLs in a text, such as a quoted command line, except the scheme, and the host after an @. */
export function withoutUrls(text: string): string {
  return text.replace(/([a-z+]+:\/\/)([^'"\s]*)/gi, (_, scheme: string, rest: string) => {
    const [place] = /@[\w.-]+(:\d{1,5})?$/.exec(rest) ?? []
    return `${scheme}…${place ?? ''}`
  })
}

/** Why Redis could not be used, without the password that a server may echo from AUTH. */
export function reasonOf(error: unknown): string {
  return messageOf(withoutSecrets(error))
}
