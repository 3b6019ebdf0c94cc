/** What a server that does not know AUTH or HELLO adds to its refusal: the words it was sent, cut off somewhere. */
const REPEATED_WORDS = /,? with args beginning with.*/s

/**
 * An error as it may leave the library. To an error reply ioredis adds the command that was refused, which for HELLO and
 * AUTH contains the password; after a password was rotated, it rejects every call with that reply. So this removes
 * `command` from the error and from all errors in it, and passwords from their texts. It returns the same object, so that
 * its class and its other properties stay.
 * @param known  other secrets that a text may repeat
 */
export function withoutSecrets<T>(error: T, ...known: readonly (string | undefined)[]): T {
  const errors = new Set<object>()
  gather(error, errors)
  const secrets = [...known, ...[...errors].flatMap(passwordsIn)].filter((secret) => secret !== undefined)
  for (const one of errors) clean(one, secrets)
  return typeof error === 'string' ? (cleanText(error, secrets) as T) : error
}

/** An error with its causes and its parts: a cluster, a host with several addresses, and a pipeline have many. */
function gather(value: unknown, errors: Set<object>): void {
  if (Array.isArray(value)) for (const one of value) gather(one, errors)
  if (!(value instanceof Error) || errors.has(value)) return
  errors.add(value)
  for (const property of Object.values(Object.getOwnPropertyDescriptors(value))) gather(property.value, errors)
}

/** The last argument of AUTH; in HELLO the second one after the word AUTH. */
function passwordsIn(error: { command?: unknown }): string[] {
  const { name, args } = (error.command ?? {}) as { name?: unknown; args?: unknown }
  if (!Array.isArray(args)) return []
  const words = args.flat().map(String)
  if (/^auth$/i.test(String(name))) return words.slice(-1)
  const at = words.findIndex((word) => /^auth$/i.test(word))
  return /^hello$/i.test(String(name)) && at !== -1 ? words.slice(at + 2, at + 3) : []
}

function clean(error: { command?: unknown; message?: unknown; stack?: unknown }, secrets: readonly string[]): void {
  Reflect.deleteProperty(error, 'command')
  const { message, stack } = error
  if (typeof message === 'string') replace(error, 'message', message, cleanText(message, secrets))
  if (typeof stack !== 'string') return
  // Only the text at its beginning: a short password may be part of a file name.
  const calls = /\n {4}at .*/s.exec(stack)?.[0] ?? ''
  replace(error, 'stack', stack, cleanText(stack.slice(0, stack.length - calls.length), secrets) + calls)
}

/** Writes only what has changed: an error may be frozen. */
function replace(error: object, key: string, before: string, after: string): void {
  if (before !== after) Reflect.defineProperty(error, key, { value: after })
}

function cleanText(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((secret) => secret !== '')
    .reduce((rest, secret) => rest.replaceAll(secret, '…'), text.replace(REPEATED_WORDS, ''))
}
