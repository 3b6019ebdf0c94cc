// Lock names from arguments.
import { ConfigError } from '../errors.js'

/** Makes the name of a lock from the arguments of a call. */
export type NameOf = (args: readonly unknown[]) => string

const KEYS = Symbol('holdfast lock keys')
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/
/** Doubled braces are literal. */
const TOKENS = /\{\{|\}\}|\{([^{}]*)\}|[{}]/g
const VALUE = 'a non-empty string, a finite number, a bigint or a boolean'

/**
 * Name a parameter of a `@Locked` method for the template: `@LockKey('id') id: string` is `{id}` in it. The names in the
 * source do not exist at run time.
 * @example `@Locked('lock:order:{id}') async charge(@LockKey('id') id: string) {}`
 */
export function LockKey(name: string): ParameterDecorator {
  if (typeof name !== 'string' || !IDENTIFIER.test(name)) {
    throw new ConfigError('@LockKey', name, 'a name like orderId')
  }
  return (target, method, index) => {
    if (method === undefined) throw new ConfigError(`@LockKey("${name}")`, undefined, 'a parameter of a method')
    const known = lockKeysOf(target, method)
    if (known.has(name)) throw new ConfigError(`@LockKey("${name}")`, undefined, 'a name that no other parameter has')
    Reflect.defineMetadata(KEYS, new Map([...known, [name, index]]), target, method)
  }
}

/** The indices of the parameters named by `@LockKey`. */
export function lockKeysOf(target: object, method: string | symbol): ReadonlyMap<string, number> {
  return (Reflect.getOwnMetadata(KEYS, target, method) as ReadonlyMap<string, number> | undefined) ?? new Map()
}

/**
 * Parse a template: `order:{0}` is the first argument, `order:{0.id}` its property, `order:{id}` the one named by `@LockKey`.
 * @param where  the place in error messages
 * @throws {ConfigError} it cannot be parsed
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
    else throw new ConfigError(where, undefined, '{ and } in pairs, and {{ or }} for a literal brace')
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
    throw new ConfigError(where, `{${placeholder}}`, `${allowed}, or @LockKey on the parameter to name it`)
  }
  return (args) => {
    let value = args[index]
    for (const property of path) value = (value as Record<string, unknown> | null | undefined)?.[property]
    if (isPrintable(value)) return String(value)
    const found = value === undefined ? ', not undefined' : ''
    throw badName(new ConfigError(where, value, `{${placeholder}} to be ${VALUE}${found}`))
  }
}

/**
 * Of arguments, which a request may have brought, as `?id=1&id=2` brings an array: over HTTP, Nest replies 400 to such an error,
 * without its message, and logs no stack.
 */
export function badName(error: ConfigError): ConfigError {
  return Object.assign(error, { status: 400, statusCode: 400, expose: false })
}

/** Anything else would give different things the same name: `order:undefined`, `order:[object Object]`, `order:`. */
function isPrintable(value: unknown): value is string | number | bigint | boolean {
  if (typeof value === 'string') return value !== ''
  return typeof value === 'bigint' || typeof value === 'boolean' || Number.isFinite(value)
}
