import { writeSync } from 'node:fs'
import { messageOf } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'

/**
 * A line on stderr. Written past `process.stderr`: that would make a pipe non-blocking for the guarded command, too, which
 * inherits it, and would end us when nobody reads it any more.
 */
export function say(text: string): void {
  try {
    writeSync(2, `holdfast: ${visible(text)}\n`)
  } catch {
    // Nobody listens; that must not cost anybody the lock.
  }
}

/** What a terminal obeys instead of showing it (ESC, C1, DEL, carriage return), and what turns the direction of text. */
const COMMANDS = /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/gu

/**
 * A text as it may be printed, whoever wrote what is in it: the holder of a lock, its name, a server's reply. What a
 * terminal would obey is shown as `\u001b`, so that JSON stays JSON and means the same.
 */
export function visible(text: string): string {
  return text.replace(COMMANDS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** A text that quotes the command line: of URLs nothing is left but what is after their passwords. */
export function withoutUrls(text: string): string {
  return text.replace(/([a-z+]+:\/\/)([^'"\s]*)/gi, (_, scheme: string, rest: string) => {
    const [place] = /@[\w.-]+(:\d{1,5})?$/.exec(rest) ?? []
    return `${scheme}…${place ?? ''}`
  })
}

/** Why Redis could not be used, without what a server may repeat of AUTH. */
export function reasonOf(error: unknown): string {
  return messageOf(withoutSecrets(error))
}
