/** The arguments, truncated, that a server appends to its error if it does not know AUTH or HELLO. */
const REPEATED_WORDS = /,? with args beginning with.*/s

/**
 * Removes secrets from an error before it leaves the library. ioredis adds the refused command to an error reply; for
 * HELLO and AUTH it contains the password, and after a password rotation ioredis rejects every call with that reply. So
 * this removes `command` from the error and from all nested errors, and passwords from their texts.
 * @param known  other secrets that a text may contain
 * @returns the same object, with its class and its other properties
 */
export function withoutSecrets<T>(error: T, ...known: readonly (string | undefined)[]): T {
  const errors = new Set<object>()
  gather(error, errors)
  const secrets = [...known, ...[...errors].map(passwordIn)].filter((secret) => secret !== undefined)
  for (const one of errors) clean(one, secrets)
  return typeof error === 'string' ? (cleanText(error, secrets) as T) : error
}

/**
 * Collects an error, its causes and nested errors, such as those of a cluster, of a host with several addresses, or of
 * a pipeline.
 */
function gather(value: unknown, errors: Set<object>): void {
  if (Array.isArray(value)) for (const one of value) gather(one, errors)
  if (!(value instanceof Error) || errors.has(value)) return
  errors.add(value)
  for (const property of Object.values(Object.getOwnPropertyDescriptors(value))) gather(property.value, errors)
}

/** The last argument of AUTH; in HELLO the second argument after the word AUTH. */
function passwordIn(error: { command?: unknown }): string | undefined {
  const { name, args } = (error.command ?? {}) as { name?: unknown; args?: unknown }
  if (!Array.isArray(args)) return undefined
  const words = args.flat().map(String)
  const verb = String(name).toLowerCase()
  if (verb === 'auth') return words.at(-1)
  const at = words.findIndex((word) => word.toLowerCase() === 'auth')
  return verb === 'hello' && at !== -1 ? words[at + 2] : undefined
}

function clean(error: { command?: unknown; message?: unknown; stack?: unknown }, secrets: readonly string[]): void {
  Reflect.deleteProperty(error, 'command')
  const { message, stack } = error
  if (typeof message === 'string') replace(error, 'message', message, cleanText(message, secrets))
  if (typeof stack !== 'string') return
  // Not in the stack frames: a short password may be part of a file name.
  const calls = /\n {4}at .*/s.exec(stack)?.[0] ?? ''
  replace(error, 'stack', stack, cleanText(stack.slice(0, stack.length - calls.length), secrets) + calls)
}

/** Writes a property only if it changed: an error may be frozen. */
function replace(error: object, key: string, before: string, after: string): void {
  if (before !== after) Reflect.defineProperty(error, key, { value: after })
}

function cleanText(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((secret) => secret !== '')
    .reduce((rest, secret) => rest.replaceAll(secret, '…'), text.replace(REPEATED_WORDS, ''))
}
