import type { ConnectionOptions } from 'node:tls'
import { ConfigError } from '../errors.js'
import { serverName } from './tls.js'

const ALLOWED = 'a Redis URL like redis://127.0.0.1:6379, or rediss:// for TLS'

/**
 * Checks the URL of one Redis server: `redis://[user:password@]host[:port][/database]`. Addresses in a Redisson
 * configuration have another form: see `address.ts`.
 * @param path  the option that contains it
 * @returns the URL as ioredis takes it
 * @throws {ConfigError} without the URL, which may contain a password
 */
export function checkRedisUrl(url: unknown, path: string): string {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^(redis|rediss|valkey|valkeys):$/.test(parsed.protocol) || parsed.hostname === '') {
    throw new ConfigError(path, undefined, ALLOWED)
  }
  if (!/^(\/\d*)?$/.test(parsed.pathname)) {
    throw new ConfigError(path, undefined, `${ALLOWED}, with a number as database`)
  }
  if (parsed.search !== '' || parsed.hash !== '') {
    // ioredis would take them for options, including keyPrefix.
    throw new ConfigError(path, undefined, `${ALLOWED}, without parameters: to set options, pass a client of your own`)
  }
  try {
    decodeURIComponent(parsed.username)
    decodeURIComponent(parsed.password)
  } catch {
    throw new ConfigError(path, undefined, `${ALLOWED}, with % in user name and password written as %25`)
  }
  return parsed.href.replace(/^valkey/, 'redis')
}

/** The TLS options that ioredis needs in addition to a URL that was checked. */
export function tlsOfUrl(url: string): { tls?: ConnectionOptions } {
  const { protocol, hostname } = new URL(url)
  return /^(rediss|valkeys):$/.test(protocol) ? { tls: serverName(hostname) } : {}
}
