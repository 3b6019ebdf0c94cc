import { ConfigError } from '../errors.js'

/** How a lock is named by what a method was called with. */
export type NameOf = (args: readonly unknown[]) => string

const KEYS = Symbol('holdfast lock keys')
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/
/** Doubled braces stand for themselves. */
const TOKENS = /\{\{|\}\}|\{([^{}]*)\}|[{}]/g
const VALUE = 'a text that is not empty, a finite number, a bigint or a boolean'

/**
 * Give a parameter of a `@Locked` method a name for the template: `@LockKey('id') id: string` is `{id}` in it. The names
 * in the code are gone when it runs.
 */
export function LockKey(name: string): ParameterDecorator {
  if (typeof name !== 'string' || !IDENTIFIER.test(name)) {
    throw new ConfigError('@LockKey', name, 'a name like orderId')
  }
  return (target, method, index) => {
    if (method === undefined) throw new ConfigError(`@LockKey("${name}")`, undefined, 'a parameter of a method')
    const known = lockKeysOf(target, method)
    if (known.has(name)) throw new ConfigError(`@LockKey("${name}")`, undefined, 'one parameter for each name')
    Reflect.defineMetadata(KEYS, new Map([...known, [name, index]]), target, method)
  }
}

/** The indices of the parameters that `@LockKey` named. */
export function lockKeysOf(target: object, method: string | symbol): ReadonlyMap<string, number> {
  return (Reflect.getOwnMetadata(KEYS, target, method) as ReadonlyMap<string, number> | undefined) ?? new Map()
}

/**
 * Read a template: `order:{0}` is the first argument, `order:{0.id}` its property, `order:{id}` the one named by `@LockKey`.
 * @param where  what errors call it
 * @throws {ConfigError} it cannot be read
 */
export function parseTemplate(template: string, keys: ReadonlyMap<string, number>, where: string): NameOf {
  const pieces: NameOf[] = []
  const literally = (text: string) => pieces.push(() => text)
  let end = 0
  for (const { 0: token, 1: placeholder, index } of template.matchAll(TOKENS)) {
    literally(template.slice(end, index))
    end = index + token.length
    if (placeholder !== undefined) pieces.push(parsePlaceholder(placeholder, keys, where))
    else if (token.length === 2) literally(token.slice(1))
    else throw new ConfigError(where, undefined, `{ and } in pairs, and {{ or }} for a brace that is meant itself`)
  }
  literally(template.slice(end))
  return (args) => pieces.map((piece) => piece(args)).join('')
}

function parsePlaceholder(placeholder: string, keys: ReadonlyMap<string, number>, where: string): NameOf {
  const [first = '', ...path] = placeholder.split('.')
  const index = /^\d+$/.test(first) ? Number(first) : keys.get(first)
  if (index === undefined || path.includes('')) {
    const names = [...keys.keys()].map((name) => `{${name}}`)
    const allowed = ['{0}', '{0.id}', ...names].join(', ')
    throw new ConfigError(where, `{${placeholder}}`, `${allowed}, or @LockKey at the parameter to name it`)
  }
  return (args) => {
    let value = args[index]
    for (const property of path) value = (value as Record<string, unknown> | null | undefined)?.[property]
    if (isPrintable(value)) return String(value)
    const found = value === undefined ? ', not undefined' : ''
    throw new ConfigError(where, value, `{${placeholder}} to be ${VALUE}${found}`)
  }
}

/** Anything else would be the same name for different things: `order:undefined`, `order:[object Object]`, `order:`. */
function isPrintable(value: unknown): value is string | number | bigint | boolean {
  if (typeof value === 'string') return value !== ''
  return typeof value === 'bigint' || typeof value === 'boolean' || Number.isFinite(value)
}
