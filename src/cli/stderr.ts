// Messages on stderr.
import { writeSync } from 'node:fs'
import { messageOf } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'
import { visible } from '../util/visible.js'
import { timeOf } from './local-time.js'

/** A line as it is; with the local time; or as JSON: `{ time, level, message }`, what is the same in all, and its details. */
export type LogFormat = 'text' | 'timed' | 'json'

let log: { format: LogFormat; about: object } = { format: 'text', about: {} }

/** From now on lines are printed like this. @param about  what all of them have in JSON, such as the lock */
export function logAs(format: LogFormat, about: object = {}): void {
  log = { format, about }
}

/**
 * Prints a line on stderr. Bypasses `process.stderr`, which would make a pipe non-blocking for the child process too,
 * since it inherits it, and would end this process when the reader is gone.
 * @param details  for JSON only
 */
export function say(text: string, details: object = {}): void {
  try {
    writeSync(2, `${lineOf(text, details)}\n`)
  } catch {
    // The reader is gone, which must not cost the lock.
  }
}

function lineOf(text: string, details: object): string {
  const now = Date.now()
  if (log.format !== 'json') return `holdfast: ${log.format === 'timed' ? `${timeOf(now, now)} ` : ''}${visible(text)}`
  const [, warning] = /^warning: (.*)$/s.exec(text) ?? []
  const level = warning === undefined ? 'info' : 'warning'
  const time = new Date(now).toISOString()
  return visible(JSON.stringify({ time, level, message: warning ?? text, ...log.about, ...details }))
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
