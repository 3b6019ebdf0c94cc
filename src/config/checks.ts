// Checks single values.
import { ConfigError } from '../errors.js'

/** Checks a value of a configuration and converts it: files may contain numbers as text. */
export type Check<T> = (value: unknown, path: string) => T

/** A Java object: `!<class> {…}` in YAML, `{"class": …}` in JSON. */
export interface JavaObject {
  readonly class: string
  readonly [property: string]: unknown
}

const MAX_INT = 2 ** 31 - 1

/** A number for Java alone, which may mean "none" there. */
export const javaInt: Check<number> = int(-1)

/** Without those that YAML 1.1, which Java reads, takes for another number: 010 is 8 there, and 1:30 is 90. */
const DECIMAL = /^(0|[-+]?[1-9]\d{0,9})$/
const OTHER_IN_JAVA = /^[-+]?(0[\d_]+|0b[01_]+|0o[0-7_]+|0x[\da-f_]+|\d[\d_]*_[\d_]*|[\d_]+(:[0-5]?\d)+)$/i

export function int(least: number, most = MAX_INT): Check<number> {
  return (value, path) => {
    const number = typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value
    if (typeof number === 'number' && Number.isSafeInteger(number) && number >= least && number <= most) return number
    const isOther = typeof value === 'string' && OTHER_IN_JAVA.test(value)
    const why = isOther
      ? ', in plain decimal digits: Java, which shares the file, reads this as another one or not at all'
      : ''
    throw new ConfigError(path, value, `a whole number from ${least} to ${most}${why}`)
  }
}

/** A value as a word; '' for an object, which may not even have a text. */
export function wordOf(value: unknown): string {
  return typeof value === 'object' ? '' : String(value)
}

/** The words of YAML 1.1, which Java reads. */
export const flag: Check<boolean> = (value, path) => {
  if (/^(true|yes|on)$/i.test(wordOf(value))) return true
  if (/^(false|no|off)$/i.test(wordOf(value))) return false
  throw new ConfigError(path, value, 'true or false')
}

export const text: Check<string> = (value, path) => {
  if (typeof value === 'string' && value !== '') return value
  throw new ConfigError(path, value, 'text')
}

/** Empty text is none, as for Java. */
export const optionalText: Check<string | undefined> = (value, path) => (value === '' ? undefined : text(value, path))

/** Text that no message shows. */
export const secret: Check<string> = (value, path) => {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  throw new ConfigError(path, undefined, 'text')
}

export function oneOf<T extends string>(...words: readonly [T, ...T[]]): Check<T> {
  return (value, path) => {
    if (words.includes(value as T)) return value as T
    throw new ConfigError(path, value, words.join(' or '))
  }
}

export function listOf<T>(check: Check<T>, least: number): Check<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) throw new ConfigError(path, undefined, 'a list')
    if (value.length < least) throw new ConfigError(path, undefined, 'a list of at least one')
    return value.map((one, index) => check(one, `${path}[${index}]`))
  }
}

export const object: Check<Readonly<Record<string, unknown>>> = (value, path) => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new ConfigError(path, typeof value === 'string' ? undefined : value, 'a mapping of keys to values')
}

/** Any value: only Java knows its meaning. */
export const anything: Check<unknown> = (value) => value

/** Whether it is an object of this Java class, in any package. */
export function isJava(value: unknown, simpleName: string): value is JavaObject {
  const { class: name } = (typeof value === 'object' && value !== null ? value : {}) as Partial<JavaObject>
  return typeof name === 'string' && name.slice(name.lastIndexOf('.') + 1) === simpleName
}

/** The class of a Java object; undefined: it is something else. */
export function javaClass(value: unknown): string | undefined {
  const { class: name } = (typeof value === 'object' && value !== null ? value : {}) as Partial<JavaObject>
  return typeof name === 'string' ? name : undefined
}

/**
 * A value that can only be given in code: a function, or an object with methods. Redisson's default class means none.
 * @param defaultClass  the simple name of that Java class
 */
export function inCode<T>(
  isRight: (value: unknown) => boolean,
  allowed: string,
  defaultClass: string,
): Check<T | null> {
  return (value, path) => {
    if (isJava(value, defaultClass)) return null
    if (isRight(value)) return value as T
    throw new ConfigError(path, javaClass(value), allowed)
  }
}

/** A duration in ISO 8601, as `java.time.Duration` reads and writes it. Converted to ms. */
export const isoDuration: Check<number> = (value, path) => {
  const match = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/i.exec(wordOf(value))
  const [, days, hours, minutes, seconds] = match ?? []
  const parts = [days, hours, minutes, seconds]
  if (parts.every((part) => part === undefined)) throw new ConfigError(path, value, 'a duration such as PT1S or PT0.1S')
  const [d = 0, h = 0, m = 0, s = 0] = parts.map((part) => Number(part ?? 0))
  return Math.round((((d * 24 + h) * 60 + m) * 60 + s) * 1000)
}
