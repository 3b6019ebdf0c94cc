// Runs a function with the lock held: which error wins.
import { ConfigError, LeaseLostError, OutcomeUnknownError, toError } from '../errors.js'
import { type KnownOptions, ownOptions } from '../util/validate.js'
import { releaseFailed } from '../warnings.js'
import type { Context } from './context.js'
import type { Hold } from './hold.js'
import type { LockedCallback, WithLockOptions } from './options.js'
import { runWithHold } from './ownership.js'
import { runObserved } from './reporting/observation.js'

/** How a call gets its hold. Awaited where the hold is used: each function in between would cost promises of its own. */
export interface Pending<A, H extends Hold> {
  readonly asked: A | Promise<A>
  holdOf(asked: A): H | Promise<H>
}

/**
 * Run `fn` with the lock held, and release it. Which error wins:
 * 1. What `fn` or `onAcquire` threw. A release that fails too is only reported: a loss as `lost`, the rest as a `warning`.
 * 2. A loss of the lock, after `fn` succeeded: another owner may have been inside meanwhile.
 * 3. None, if only the reply to the release is missing: `fn` had the lock to its end, and the release continues in the
 *    background. That is a `warning`, and so is what `onRelease` throws.
 *
 * With `release: 'background'` nothing waits for the reply to the release, so that neither 2 nor 3 can come from it.
 */
export async function withLock<T, H extends Hold, A>(
  context: Context,
  lockName: string,
  pending: Pending<A, H>,
  { onAcquire, onRelease, release }: WithLockOptions<H>,
  fn: LockedCallback<T, H>,
): Promise<T> {
  const got = pending.holdOf(await pending.asked)
  const hold = got instanceof Promise ? await got : got
  let value: T
  hold.keepAtLeast()
  const startedAt = context.clock.now()
  const withRunTime = (error: unknown): unknown =>
    error instanceof LeaseLostError && error === hold.lostError ? error.thrown(context.clock.now() - startedAt) : error
  try {
    if (onAcquire) await runWithHold(hold, () => onAcquire(hold))
    value = await runObserved(hold, () => runWithHold(hold, () => fn(hold)))
    refuseUnread(value, lockName)
  } catch (error) {
    const releasing = unlockQuietly((cause) => releaseFailed(lockName, cause))
    if (release !== 'background') await releasing
    throw withRunTime(error)
  }
  // A loss that is already known is still thrown.
  if (release === 'background' && hold.isLive) {
    void unlockQuietly(toError)
    return value
  }
  try {
    await hold.unlock()
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError)) {
      await released()
      throw withRunTime(error)
    }
    context.emit('warning', error)
  }
  if (onRelease) await released()
  return value

  /** A loss was emitted as `lost`; anything else is a warning. */
  async function unlockQuietly(warningOf: (error: unknown) => Error): Promise<void> {
    await hold.unlock().catch((error: unknown) => {
      if (!(error instanceof LeaseLostError)) context.emit('warning', warningOf(error))
    })
    await released()
  }

  async function released(): Promise<void> {
    try {
      await onRelease?.(hold)
    } catch (error) {
      context.emit('warning', toError(error))
    }
  }
}

/**
 * The arguments of `withLock` and its relatives: the options, which may be left out, and the function.
 * @param held  what the function has while it runs
 * @throws {ConfigError} the function is missing or cannot work, or the options come after it
 */
export function optionsAndFunction<O extends object, F extends (...args: never[]) => unknown>(
  first: O | F,
  second: F | undefined,
  known: KnownOptions<O>,
  lockName: string,
  held?: string,
): [O, F] {
  if (typeof first === 'function' && second !== undefined) {
    throw new ConfigError('options', undefined, 'the options before the function: (options, fn)', { lockName })
  }
  const [options, callback] = typeof first === 'function' ? [{} as O, first] : [first, second]
  const fn = checkCallback(callback, lockName, held)
  return [ownOptions(options, known, lockName), fn]
}

/**
 * The names that `client.withLock` was given, each once.
 * @param rest  its other arguments
 * @throws {ConfigError} there is none, or an argument is out of place
 */
export function checkNames(names: unknown, rest: readonly unknown[]): readonly [string, ...string[]] {
  if (typeof rest[0] === 'string') throw new ConfigError('names', undefined, 'an array of names: ([name, name], fn)')
  if (typeof names !== 'string' && !Array.isArray(names)) {
    throw new ConfigError('names', names, 'a name or an array of names: (names, fn) or (names, options, fn)')
  }
  const [first, ...more] = new Set<string>(Array.isArray(names) ? names : [names])
  if (first === undefined) throw new ConfigError('names', undefined, 'at least one name')
  return [first, ...more]
}

const GENERATORS = ['[object GeneratorFunction]', '[object AsyncGeneratorFunction]']

/** @throws {ConfigError} it is not a function, or one whose body would run after the release */
export function checkCallback<F>(fn: F | undefined, lockName: string, held = 'the lock'): F {
  if (typeof fn !== 'function') throw new ConfigError('fn', fn, `a function to run with ${held}`, { lockName })
  if (!GENERATORS.includes(Object.prototype.toString.call(fn))) return fn
  const allowed = 'a function that is not a generator function, whose body would run after the release'
  throw new ConfigError('fn', undefined, allowed, { lockName })
}

/** @throws {ConfigError} a callback returned a generator or a stream: it would be read after the release */
export function refuseUnread(value: unknown, lockName: string): void {
  if (typeof value !== 'object' || value === null) return
  const isGenerator = Object.prototype.toString.call(value) === '[object Generator]'
  if (!isGenerator && !(Symbol.asyncIterator in value)) return
  const allowed =
    'a function that does not return a generator, stream or other async iterable, which would be read after the release: ' +
    'read it inside, and return the result'
  throw new ConfigError('fn', undefined, allowed, { lockName })
}
