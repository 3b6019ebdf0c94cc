// Checks the URL of a server.
import type { ConnectionOptions } from 'node:tls'
import { ConfigError } from '../errors.js'
import { defined } from '../util/defined.js'
import { isSocketUrl, parseAddress } from './address.js'
import { serverName } from './tls.js'

const ALLOWED = 'a Redis URL like redis://127.0.0.1:6379, rediss:// for TLS, or redis+uds:///path for a Unix socket'

/**
 * Checks the URL of one Redis server: `redis://[user:password@]host[:port][/database]`, or a Unix socket as in a Redisson
 * configuration, whose other addresses have another form: see `address.ts`.
 * @param path  the option that contains it
 * @returns the URL for `ioredisArguments`
 * @throws {ConfigError} without the URL, which may contain a password
 */
export function checkRedisUrl(url: unknown, path: string): string {
  if (typeof url === 'string' && isSocketUrl(url)) {
    parseAddress(url, path)
    return url
  }
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

/** The arguments of ioredis for a checked URL: the URL or socket path, and options that ioredis does not read from it. */
export function ioredisArguments(
  url: string,
): [place: string, options: { tls?: ConnectionOptions; username?: string; password?: string }] {
  if (isSocketUrl(url)) {
    const { socket = '', username, password } = parseAddress(url, 'url')
    return [socket, defined({ username, password })]
  }
  const { protocol, hostname } = new URL(url)
  return [url, protocol === 'rediss:' ? { tls: serverName(hostname) } : {}]
}

/** `host:port`, or the path of a socket, of a URL that was checked: for people. */
export function placeOf(url: string): string {
  if (isSocketUrl(url)) return parseAddress(url, 'url').socket ?? ''
  const { hostname, port } = new URL(url)
  return `${hostname}:${port || '6379'}`
}
