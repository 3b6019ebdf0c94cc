// Checks arguments.
import { Buffer } from 'node:buffer'
import { ConfigError } from '../errors.js'

/** 100 years: well within Redis's expiry arithmetic and JavaScript's integers, and longer than any lock. */
export const MAX_DURATION_MS = 100 * 365 * 24 * 60 * 60 * 1000

/** A shorter lease would be used up by the margin for clocks and one round trip. */
export const MIN_LEASE_MS = 10

/** Redis itself accepts 512 MB. */
const MAX_NAME_BYTES = 1024 * 1024

/**
 * The name of a lock or synchronizer: any non-empty text of at most 1 MiB in UTF-8. Lone surrogates are rejected, because
 * UTF-8 would map different names to one key.
 */
export function checkName(name: unknown, path = 'lock name'): string {
  if (typeof name !== 'string') throw new ConfigError(path, name, 'a string')
  if (name === '') throw new ConfigError(path, name, 'at least one character')
  if (!name.isWellFormed()) throw new ConfigError(path, name, 'well-formed text, without lone surrogates')
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) {
    throw new ConfigError(path, name, `at most ${MAX_NAME_BYTES} bytes in UTF-8`)
  }
  return name
}

/** A duration: a whole number of ms, at least `least`. */
export function checkDuration(path: string, value: unknown, least: number, lockName?: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least || value > MAX_DURATION_MS) {
    throw new ConfigError(path, value, `a whole number of ms from ${least} to ${MAX_DURATION_MS} (100 years)`, {
      lockName,
    })
  }
  return value
}

/** Like `checkDuration`, but undefined stays undefined. */
export function checkOptionalDuration(
  path: string,
  value: unknown,
  least: number,
  lockName?: string,
): number | undefined {
  return value === undefined ? undefined : checkDuration(path, value, least, lockName)
}

/** The lease of a hold; undefined: the watchdog renews it. */
export function checkLeaseTime(value: unknown, lockName: string): number | undefined {
  if (value !== -1) return checkOptionalDuration('leaseTimeMs', value, MIN_LEASE_MS, lockName)
  const allowed = 'a whole number of ms, or nothing: omit it for what -1 means in Redisson'
  throw new ConfigError('leaseTimeMs', value, allowed, { lockName })
}

/** The options that a call knows, as keys: a forgotten one is a type error. */
export type KnownOptions<T> = Readonly<Record<keyof T, unknown>>

/**
 * The caller's own options, without those of a prototype. Rejects unknown ones: a misspelt `leaseTime` must not silently
 * become a lock that is renewed forever.
 */
export function ownOptions<T extends object>(options: T, known: KnownOptions<T>, lockName?: string): T {
  if (typeof options !== 'object' || options === null) {
    const allowed = `an object with some of ${Object.keys(known).join(', ')}`
    throw new ConfigError('options', options, typeof options === 'function' ? `${allowed}; ${FUNCTION}` : allowed, {
      lockName,
    })
  }
  for (const key of Object.keys(options)) {
    if (Object.hasOwn(known, key)) continue
    const name = nameHere(key, known)
    const names = `one of the options ${Object.keys(known).join(', ')}`
    throw new ConfigError(key, undefined, name === undefined ? names : `${name} instead, ${names}`, { lockName })
  }
  return ownOf(options)
}

const FUNCTION = 'a function runs with the lock held in withLock(fn)'

/** Names of options in other libraries and in Redisson, and what they may be called here. */
const OTHER_NAMES: ReadonlyMap<string, readonly string[]> = new Map([
  ['timeout', ['commandTimeoutMs', 'waitTimeMs']],
  ['acquireTimeout', ['waitTimeMs']],
  ['wait', ['waitTimeMs']],
  ['ttl', ['leaseTimeMs', 'timeToLiveMs', 'lockWatchdogTimeoutMs']],
  ['timeToLive', ['leaseTimeMs']],
  ['lockTimeout', ['leaseTimeMs', 'lockWatchdogTimeoutMs']],
  ['leaseTime', ['lockWatchdogTimeoutMs']],
  ['duration', ['leaseTimeMs']],
  ['expires', ['leaseTimeMs']],
  ['redis', ['client']],
])

/** The option that was probably meant; most misspellings lack only the `Ms`. */
function nameHere(key: string, known: object): string | undefined {
  const isKnown = (name: string): boolean => Object.hasOwn(known, name)
  return isKnown(`${key}Ms`) ? `${key}Ms` : OTHER_NAMES.get(key)?.find(isKnown)
}

/**
 * A copy without a prototype, so that nothing added to `Object.prototype` counts as an option. Read single options from it
 * by destructuring: a copy made with `...` has a prototype again.
 */
export function ownOf<T extends object>(options: T): T {
  return Object.assign(Object.create(null), options)
}

export function checkOptionalBoolean(path: string, value: unknown, lockName?: string): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value
  throw new ConfigError(path, value, 'true or false', { lockName })
}

export function checkSignal(signal: unknown, lockName: string): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw new ConfigError('signal', signal, 'an AbortSignal', { lockName })
}

export function checkFunction(path: string, value: unknown, lockName: string): void {
  if (value !== undefined && typeof value !== 'function') throw new ConfigError(path, value, 'a function', { lockName })
}

export function checkLabel(label: unknown, lockName: string): string | undefined {
  if (label === undefined || typeof label === 'string') return label
  throw new ConfigError('label', label, 'a string', { lockName })
}

/** One of these texts, or undefined. */
export function checkOneOf(path: string, value: unknown, allowed: readonly string[], lockName: string): void {
  if (value === undefined || allowed.includes(value as string)) return
  throw new ConfigError(path, value, allowed.map((one) => `'${one}'`).join(' or '), { lockName })
}

/** The largest `int` of Java. */
const MAX_COUNT = 2 ** 31 - 1

/** A count: a whole number from `least` to `most`. */
export function checkCount(path: string, value: unknown, least: number, lockName?: string, most = MAX_COUNT): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most) return value
  throw new ConfigError(path, value, `a whole number from ${least} to ${most}`, { lockName })
}
