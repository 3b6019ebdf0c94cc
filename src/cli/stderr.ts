// Messages on stderr.
import { writeSync } from 'node:fs'
import { messageOf } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'
import { visible } from '../util/visible.js'

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
