/** The part of Lua 5.1 that the translated scripts use: its values, how they turn into each other, its library. */

/** A value of Lua: nil is undefined, text is a string of bytes (each character one byte). */
export type Value = undefined | boolean | number | string | Table | LuaFunction
export type LuaFunction = (...args: never[]) => Value[]

/** The commands that a script calls. */
export interface Redis {
  /** @throws {LuaError} the command failed */
  call(command: string, ...args: Value[]): Value
  pcall(command: string, ...args: Value[]): Value
  /** `redis.pcall('publish', …)`, in a cluster both ways. */
  publish(channel: Value, message: Value): Value[]
}

/** An error of a script: its value is a table with `err`, as Redis makes it. */
export class LuaError extends Error {
  readonly value: Value

  constructor(value: Value) {
    super(value instanceof Table ? String(value.get('err')) : 'error in a script')
    this.value = value
  }
}

export class Table {
  /** The values at 1, 2, 3 … without a gap. */
  readonly list: Value[]
  readonly #others = new Map<Value, Value>()

  constructor(items: readonly Value[] = []) {
    const gap = items.indexOf(undefined)
    this.list = gap === -1 ? [...items] : items.slice(0, gap)
    if (gap !== -1) items.forEach((item, index) => void (index > gap && this.set(index + 1, item)))
  }

  get(key: Value): Value {
    return (typeof key === 'number' ? this.list[key - 1] : undefined) ?? this.#others.get(key)
  }

  set(key: Value, value: Value): void {
    const { list } = this
    const isNext = key === list.length + 1
    if (typeof key === 'number' && key >= 1 && key <= list.length && key % 1 === 0) {
      if (value !== undefined) list[key - 1] = value
      else
        for (const [index, item] of list.splice(key - 1).entries()) if (index > 0) this.#others.set(key + index, item)
    } else if (!isNext) {
      if (value === undefined) this.#others.delete(key)
      else this.#others.set(key, value)
    } else if (value !== undefined) {
      list.push(value)
      this.#closeGap()
    }
  }

  /** @throws {Error} Lua leaves open how long a list with gaps is */
  get length(): number {
    for (const key of this.#others.keys()) {
      if (typeof key === 'number' && key > this.list.length) throw new Error('the length of a list with gaps')
    }
    return this.list.length
  }

  #closeGap(): void {
    for (let key = this.list.length + 1; this.#others.has(key); key++) {
      this.list.push(this.#others.get(key))
      this.#others.delete(key)
    }
  }
}

export function table(items: readonly Value[]): Table {
  return new Table(items)
}

export function index(of: Value, key: Value): Value {
  if (of instanceof Table) return of.get(key)
  if (typeof of === 'string') return undefined // it has methods, and no fields
  return fail(`attempt to index a ${type(of)} value`)
}

export function set(of: Value, key: Value, value: Value): void {
  if (of instanceof Table) of.set(key, value)
  else fail(`attempt to index a ${type(of)} value`)
}

export function length(of: Value): number {
  if (of instanceof Table || typeof of === 'string') return of.length
  return fail(`attempt to get length of a ${type(of)} value`)
}

export function truth(value: Value): boolean {
  return value !== undefined && value !== false
}

export function type(value: Value): string {
  if (value === undefined) return 'nil'
  return value instanceof Table ? 'table' : typeof value
}

/** An operand of arithmetic. */
export function number(value: Value): number {
  return spelled(value) ?? fail(`attempt to perform arithmetic on a ${type(value)} value`)
}

/** @param base  of whole numbers; default: a number of any form */
export function tonumber(value: Value, base?: Value): number | undefined {
  if (base === undefined) return spelled(value)
  const text = String(value)
  return base === 16 && /^[0-9A-Fa-f]+$/.test(text)
    ? Number.parseInt(text, 16)
    : fail(`tonumber(${text}, ${String(base)})`)
}

/** Exact, and spelled as we do. */
const WHOLE = /^\d{1,15}$/
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const HEXADECIMAL = /^[+-]?0x[0-9a-f]+$/i
const INFINITY = /^[+-]?inf(inity)?$/i
const NOT_A_NUMBER = /^[+-]?nan(\(\w*\))?$/i

/** The number that a value is or spells, as `strtod` reads it. */
function spelled(value: Value): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return undefined
  if (WHOLE.test(value)) return Number(value)
  const text = (value.split('\0', 1)[0] as string).replace(/^[ \t-\r]+|[ \t-\r]+$/g, '')
  if (DECIMAL.test(text)) return Number(text)
  const sign = text.startsWith('-') ? -1 : 1
  if (HEXADECIMAL.test(text)) return sign * Number(text.replace(/^[+-]/, ''))
  if (INFINITY.test(text)) return sign * Number.POSITIVE_INFINITY
  return NOT_A_NUMBER.test(text) ? Number.NaN : undefined
}

/** `%.17g` and the like. */
export function general(value: number, digits: number): string {
  if (value % 1 === 0 && value !== 0 && Math.abs(value) < 1e14) return String(value)
  if (Number.isNaN(value)) return '-nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  if (value === 0) return Object.is(value, -0) ? '-0' : '0'
  const [mantissa = '', exponent = ''] = value.toExponential(digits - 1).split('e')
  const power = Number(exponent)
  const withoutZeros = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)
  if (power >= -4 && power < digits) return withoutZeros(value.toFixed(digits - 1 - power))
  return `${withoutZeros(mantissa)}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
}

function text(value: Value): string | undefined {
  if (typeof value === 'number') return general(value, 14)
  return typeof value === 'string' ? value : undefined
}

export function concat(left: Value, right: Value): string {
  const [before, after] = [text(left), text(right)]
  if (before !== undefined && after !== undefined) return before + after
  return fail(`attempt to concatenate a ${type(before === undefined ? left : right)} value`)
}

export function modulo(value: number, by: number): number {
  return value - Math.floor(value / by) * by
}

function compare(left: Value, right: Value, isSo: (left: number | string, right: number | string) => boolean): boolean {
  const areNumbers = typeof left === 'number' && typeof right === 'number'
  if (areNumbers || (typeof left === 'string' && typeof right === 'string')) return isSo(left, right)
  const types = [type(left), type(right)]
  return fail(
    types[0] === types[1] ? `attempt to compare two ${types[0]} values` : `attempt to compare ${types.join(' with ')}`,
  )
}

export const lt = (left: Value, right: Value): boolean => compare(left, right, (one, other) => one < other)
export const le = (left: Value, right: Value): boolean => compare(left, right, (one, other) => one <= other)
export const gt = (left: Value, right: Value): boolean => lt(right, left)
export const ge = (left: Value, right: Value): boolean => le(right, left)

function argument(value: Value, name: string): number {
  return spelled(value) ?? fail(`bad argument to '${name}' (number expected, got ${type(value)})`)
}

export const abs = (value: Value): number => Math.abs(argument(value, 'abs'))
export const floor = (value: Value): number => Math.floor(argument(value, 'floor'))
export const max = (...values: Value[]): number => Math.max(...values.map((value) => argument(value, 'max')))
export const min = (...values: Value[]): number => Math.min(...values.map((value) => argument(value, 'min')))

function bytes(value: Value, name: string): string {
  return text(value) ?? fail(`bad argument to '${name}' (string expected, got ${type(value)})`)
}

export const char = (...codes: Value[]): string => String.fromCharCode(...codes.map((code) => argument(code, 'char')))

export const byte = (value: Value): number | undefined => bytes(value, 'byte').codePointAt(0)

export function sub(value: Value, from: Value, to: Value = -1): string {
  const whole = bytes(value, 'sub')
  const place = (at: number): number => (at < 0 ? Math.max(0, whole.length + at + 1) : at)
  return whole.slice(Math.max(1, place(argument(from, 'sub'))) - 1, place(argument(to, 'sub')))
}

export const find = (value: Value, pattern: RegExp): number | undefined => found(bytes(value, 'find').search(pattern))
export const findPlain = (value: Value, words: string): number | undefined => found(bytes(value, 'find').indexOf(words))
const found = (at: number): number | undefined => (at === -1 ? undefined : at + 1)

/** The captures, or all that was found if the pattern has none. */
export function match(value: Value, pattern: RegExp): Value[] {
  const groups = pattern.exec(bytes(value, 'match'))
  if (!groups) return [undefined]
  return groups.length > 1 ? groups.slice(1) : [groups[0]]
}

export function gmatch(value: Value, pattern: RegExp): string[] {
  return bytes(value, 'gmatch').match(pattern) ?? []
}

export function gsub(value: Value, pattern: RegExp, replace: (word: string) => Value[]): string {
  return bytes(value, 'gsub').replace(pattern, (word) => text(replace(word)[0]) ?? word)
}

/** `%d`, which takes what is left of a fraction off. */
export function integer(value: number): string {
  return Math.abs(value) < 2 ** 63 ? String(BigInt(Math.trunc(value))) : String(-(2n ** 63n))
}

/** `%02x` of a byte. */
export const hex = (value: number): string => value.toString(16).padStart(2, '0')

/** `%.0f`, `%.1f`: of two that are equally near the even one, unlike JavaScript. */
export function fixed(value: number, digits: number): string {
  if (!Number.isFinite(value)) return general(value, 17)
  const scaled = Math.abs(value) * 10 ** digits
  const isTie = scaled % 1 === 0.5 && (value * 4) % 1 === 0
  const rounded = isTie && Math.floor(scaled) % 2 === 0 ? Math.sign(value) * (Math.floor(scaled) / 10 ** digits) : value
  return Math.abs(rounded) < 1e21 ? rounded.toFixed(digits) : BigInt(rounded).toString() + (digits > 0 ? '.0' : '')
}

export function insert(into: Value, ...words: [value: Value] | [at: Value, value: Value]): void {
  if (!(into instanceof Table)) fail(`bad argument to 'insert' (table expected, got ${type(into)})`)
  if (words.length === 1) into.set(into.length + 1, words[0])
  else if (words[0] === 1 && words[1] !== undefined) into.list.unshift(words[1])
  else throw new Error('table.insert at another place than the first')
}

/** The last one. */
export function remove(from: Value): Value {
  if (!(from instanceof Table)) return fail(`bad argument to 'remove' (table expected, got ${type(from)})`)
  const last = from.get(from.length)
  from.set(from.length, undefined)
  return last
}

export function ipairs(of: Value): [number, Value][] {
  if (!(of instanceof Table)) return fail(`bad argument to 'ipairs' (table expected, got ${type(of)})`)
  return of.list.map((value, at) => [at + 1, value])
}

export function unpack(of: Value, from: Value = 1, to: Value = length(of)): Value[] {
  const values: Value[] = []
  for (let at = argument(from, 'unpack'); at <= argument(to, 'unpack'); at++) values.push(index(of, at))
  return values
}

export function pcall(call: (...args: Value[]) => Value[], ...args: Value[]): Value[] {
  try {
    return [true, ...call(...args)]
  } catch (failure) {
    if (failure instanceof LuaError) return [false, failure.value]
    throw failure
  }
}

/** A table that is an error reply. */
export function errorReply(message: Value): Table {
  const reply = new Table()
  reply.set('err', bytes(message, 'error_reply').replace(/^-/, ''))
  return reply
}

/** @param _level  of the call that the message would name: ours name none */
export function error(message: Value, _level?: Value): never {
  throw new LuaError(errorReply(`ERR ${bytes(message, 'error')}`))
}

/** An error of Lua itself. */
function fail(message: string): never {
  return error(`user_script: ${message}`)
}
