import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors.js'
import { type ConfigOverrides, describe, overridden } from './deployment.js'
import type { RedissonConfig } from './schema.js'

export type { ConfigOverrides, Deployment, Mode } from './deployment.js'
export type { Credentials, CredentialsResolver, IgnoredKey, RedissonConfig } from './schema.js'

export interface LoadOptions extends ConfigOverrides {
  /** Where `${NAME}` is looked up. Default `process.env`. */
  env?: Readonly<Record<string, string | undefined>> | undefined
}

/**
 * A configuration file of Redisson, YAML or JSON, checked: what `connect({ config })` takes. `${NAME}` and
 * `${NAME:-default}` are replaced by environment variables.
 * @param source  the path of the file, or its text
 * @throws {ConfigError} the file cannot be read, or something in it cannot work
 * @see Redisson `Config.fromYAML`
 */
export async function loadConfig(source: string | URL, options: LoadOptions = {}): Promise<RedissonConfig> {
  const { env = process.env, ...overrides } = options
  const { file, text } = await read(source)
  const resolved = text.replace(VARIABLE, (whole, name: string, fallback?: string) => env[name] ?? fallback ?? whole)
  const parsed = await parse(resolved, file)
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new ConfigError(file ?? 'config', undefined, 'a mapping with one of the server sections of Redisson')
  }
  const config = overridden(parsed as RedissonConfig, overrides)
  describe(config)
  return config
}

/** As in Redisson (`ConfigSupport.resolveEnvParams`); what is not set and has no default stays as it is. */
const VARIABLE = /\$\{([\w.]+)(?::-(.+?))?\}/g

async function read(source: string | URL): Promise<{ file: string | undefined; text: string }> {
  if (typeof source === 'string' && isText(source)) return { file: undefined, text: source }
  if (typeof source !== 'string' && !(source instanceof URL)) {
    throw new ConfigError('config', source, 'the path or text of a configuration file')
  }
  const file = source instanceof URL ? fileURLToPath(source) : source
  try {
    return { file, text: await readFile(file, 'utf8') }
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
      // Not the message: it quotes the file, which may contain a password.
      if (isJson) throw new ConfigError(file ?? 'config', undefined, `JSON${positionOf(error)}`)
    }
  }
  const yaml = await import('./yaml.js')
  return await yaml.parseYaml(text, file)
}

function positionOf(error: unknown): string {
  const [, line, column] = /\(line (\d+) column (\d+)\)/.exec((error as Error).message) ?? []
  return line === undefined ? '' : `, which it is not at line ${line}, column ${column}`
}
