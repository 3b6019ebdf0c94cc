// Reads a file.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors.js'
import { ownOptions } from '../util/validate.js'
import { type ConfigOverrides, describe, overridden } from './deployment.js'
import { isUsed, type RedissonConfig } from './schema.js'

export type { ConfigOverrides, Deployment, Mode } from './deployment.js'
export type { Credentials, CredentialsResolver, IgnoredKey, RedissonConfig } from './schema.js'

export interface LoadOptions extends ConfigOverrides {
  /** The variables for `${NAME}`. Default `process.env`. */
  env?: Readonly<Record<string, string | undefined>> | undefined
}

const LOAD_OPTIONS = { env: 1, nameMapper: 1, credentialsResolver: 1, tls: 1 }
/** Real files have a few thousand. This bounds whatever takes quadratic time in a parser. */
const MAX_CHARACTERS = 100_000

/**
 * Reads and checks a configuration file of Redisson, YAML or JSON. `${NAME}` and `${NAME:-default}` are replaced by
 * environment variables.
 * @param source  the path of the file, or its text
 * @returns a configuration for `connect({ config })`
 * @throws {ConfigError} the file cannot be read, or something in it cannot work
 * @example `const client = await connect({ config: await loadConfig('redisson.yaml') })`
 * @see Redisson `Config.fromYAML`
 */
export async function loadConfig(source: string | URL, options: LoadOptions = {}): Promise<RedissonConfig> {
  const { env = process.env, nameMapper, credentialsResolver, tls } = ownOptions(options, LOAD_OPTIONS)
  const { file, text } = await read(source)
  if (text.length > MAX_CHARACTERS)
    throw new ConfigError(file ?? 'config', undefined, `a file of at most ${MAX_CHARACTERS} characters`)
  const parsed = await parse(resolveVariables(text, env), file)
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new ConfigError(file ?? 'config', undefined, 'a mapping with one of the server sections of Redisson')
  }
  const resolved = checkVariables(parsed, '') as RedissonConfig
  const config = overridden(resolved, { nameMapper, credentialsResolver, tls })
  describe(config)
  return config
}

/**
 * As in Redisson (`ConfigSupport.resolveEnvParams`), or anything else in braces, which it leaves as it is, such as Spring's
 * `${NAME:default}`.
 */
const VARIABLE = /\$\{([\w.]+)(?::-(.[^}\n\r\u2028\u2029]*))?\}|\$\{([\w.-]+(?::[^{}'"\n\r]*)?)\}/g

/**
 * The part of each line up to its last brace: searching further would take quadratic time if many variables begin
 * there.
 */
const MAY_HAVE_VARIABLES = /^.*\}/gm

/** Around the name of a variable without a value: of private use in Unicode, so that no file has them. */
const [UNSET, END] = ['\uE000', '\uE001']
const UNSET_VARIABLE = new RegExp(`${UNSET}([^${END}]*)${END}`)

/** A variable without a value is marked, in case the value of a key needs it; the value of another may look like one. */
function resolveVariables(text: string, env: Readonly<Record<string, string | undefined>>): string {
  const resolve = (_: string, name: string | undefined, fallback?: string, other = ''): string => {
    const value = name !== undefined && Object.hasOwn(env, name) ? env[name] : undefined
    return value ?? fallback ?? `${UNSET}${name ?? other}${END}`
  }
  return text.replace(MAY_HAVE_VARIABLES, (part) => part.replace(VARIABLE, resolve))
}

/**
 * @returns the value of a key that has no effect, with its variables as they were
 * @throws {ConfigError} a value that is used has a variable that is not set
 */
function checkVariables(value: unknown, path: string): unknown {
  if (typeof value === 'string') {
    const [, variable] = UNSET_VARIABLE.exec(value) ?? []
    if (variable === undefined) return value
    if (isUsed(path)) throw unset(variable, path)
    return value.replaceAll(UNSET, '${').replaceAll(END, '}')
  }
  if (Array.isArray(value)) return value.map((one, index) => checkVariables(one, `${path}[${index}]`))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([key, one]) => [key, checkVariables(one, path === '' ? key : `${path}.${key}`)]),
  )
}

/** Without what follows the name: the default of a password is a password. */
function unset(variable: string, path: string): ConfigError {
  const [name = ''] = variable.split(':')
  const isSpring = /:(?!-)/.test(variable)
  const allowed = isSpring
    ? `\${${name}:-default}, with :- before the default as Redisson wants it, or the environment variable ${name} to be set`
    : `the environment variable ${name} to be set, or a default: \${${name}:-default}`
  return new ConfigError(path, undefined, allowed)
}

async function read(source: string | URL): Promise<{ file: string | undefined; text: string }> {
  if (typeof source === 'string' && isText(source)) return { file: undefined, text: source }
  if (typeof source !== 'string' && !(source instanceof URL)) {
    throw new ConfigError('config', source, 'the path or text of a configuration file')
  }
  if (/^\w+:\/\//.test(String(source)) && !/^file:/.test(String(source))) {
    // Without the value: it is probably the URL of a server, with its password.
    throw new ConfigError(
      'config',
      undefined,
      'the path or text of a configuration file; for the URL of a server use the option url',
    )
  }
  const file = source instanceof URL ? fileURLToPath(source) : source
  try {
    // Editors on Windows begin a file with a mark, which JSON does not have.
    return { file, text: (await readFile(file, 'utf8')).replace(/^\uFEFF/, '') }
  } catch (cause) {
    throw new ConfigError('config', file, 'the path of a file that can be read', { cause })
  }
}

function isText(source: string): boolean {
  return /\n|^\s*\{|^\s*["']?\w+["']?\s*:(\s|$)/.test(source)
}

async function parse(text: string, file: string | undefined): Promise<unknown> {
  const isJson = file?.endsWith('.json')
  if (isJson || text.trimStart().startsWith('{')) {
    try {
      return JSON.parse(text)
    } catch (error) {
      // Without the message: it quotes the file, which may contain a password.
      if (isJson) throw new ConfigError(file ?? 'config', undefined, `JSON${positionOf(error)}`)
    }
  }
  const yaml = await import('./yaml.js')
  return await yaml.parseYaml(text, file)
}

function positionOf(error: unknown): string {
  const [, line, column] = /\(line (\d+) column (\d+)\)/.exec((error as Error).message) ?? []
  return line === undefined ? '' : `; there is a syntax error at line ${line}, column ${column}`
}
