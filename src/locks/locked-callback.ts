import { ConfigError, clientWarning } from '../errors.js'

/*
 * The functions that run with something held. What they return is awaited, and then the lock is released: what is read or
 * run later, bit by bit, would run without the lock.
 */

const GENERATORS = ['[object GeneratorFunction]', '[object AsyncGeneratorFunction]']

/** @throws {ConfigError} it cannot be run with something held */
export function checkBody<F>(fn: F | undefined, lockName: string, held = 'the lock'): F {
  if (typeof fn !== 'function') throw new ConfigError('fn', fn, `a function to run with ${held}`, { lockName })
  if (!GENERATORS.includes(Object.prototype.toString.call(fn))) return fn
  const allowed = 'a function that is no generator function: the body of that would run after the release'
  throw new ConfigError('fn', undefined, allowed, { lockName })
}

/** @throws {ConfigError} what a body returned is a generator or a stream */
export function refuseUnread(value: unknown, lockName: string): void {
  if (typeof value !== 'object' || value === null) return
  const isGenerator = Object.prototype.toString.call(value) === '[object Generator]'
  if (!isGenerator && !(Symbol.asyncIterator in value)) return
  const allowed =
    'a function that returns no generator, stream or other async iterable, which would be read after the release: ' +
    'read it inside, and return what was read'
  throw new ConfigError('fn', undefined, allowed, { lockName })
}

/** The caller hears of the body's error, and of this only so. */
export function releaseFailed(lockName: string, cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause)
  const message =
    `The function that ran with ${JSON.stringify(lockName)} failed, and so did the release (${why}): it is repeated in the ` +
    'background, and the lock ends with its lease at the latest'
  return clientWarning('RELEASE_FAILED', message, { cause })
}
