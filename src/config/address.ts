// Parses and checks the addresses in a configuration.
import { isIPv6 } from 'node:net'
import { ConfigError } from '../errors.js'

/** The address of a server, and the other parts of its URL. */
export interface Address {
  readonly host: string
  readonly port: number
  /** A Unix socket instead of host and port. */
  readonly socket?: string
  readonly isTls: boolean
  readonly username?: string
  readonly password?: string
}

const ALLOWED = 'redis://[user:password@]host:port, or rediss:// for TLS; the port is mandatory'
const TCP = /^(redis|rediss|valkey|valkeys):\/\/(?:(.*)@)?([^@/]+):(\d{1,5})(?:\/(\d*))?$/
const ALLOWED_SOCKET = 'redis+uds://[user:password@]/path, without parameters'
const SOCKET = /^(?:redis|valkey)\+uds:\/\/(?:(.*)@)?(\/[^@?#]+)$/

/** Whether a URL has the scheme of Unix sockets. */
export function isSocketUrl(url: string): boolean {
  return /^(redis|valkey)\+uds:/.test(url)
}

/**
 * Parses a URL of a Redisson configuration. Unlike the URL for `connect` (see `redis-url.ts`), it must have a port,
 * cannot have a database, and may contain special characters in the password.
 * @throws {ConfigError} without the part that may be a password
 */
export function parseAddress(url: string, path: string): Address {
  const [, scheme = '', secrets, host = '', port = '', database = ''] = TCP.exec(url) ?? []
  const [, socketSecrets, socket] = SOCKET.exec(url) ?? []
  if (socket !== undefined) return { host: '', port: 0, socket, isTls: false, ...parseSecrets(socketSecrets, path) }
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  if (scheme === '' || !isHost(bare) || Number(port) < 1 || Number(port) > 65_535) {
    throw new ConfigError(path, redacted(url), isSocketUrl(url) ? ALLOWED_SOCKET : ALLOWED)
  }
  if (Number(database) > 0) {
    throw new ConfigError(
      path,
      undefined,
      `an address without /${database}, which Java ignores: set database: ${database}`,
    )
  }
  return {
    host: bare,
    port: Number(port),
    isTls: /^(rediss|valkeys)$/.test(scheme),
    ...parseSecrets(secrets, path),
  }
}

/** `user:password`, or only the password. */
function parseSecrets(text: string | undefined, path: string): Pick<Address, 'username' | 'password'> {
  if (!text) return {}
  const colon = text.indexOf(':')
  try {
    const password = decodeURIComponent(text.slice(colon + 1))
    return colon > 0 ? { username: decodeURIComponent(text.slice(0, colon)), password } : { password }
  } catch {
    throw new ConfigError(path, undefined, `${ALLOWED}, with % in user name and password written as %25`)
  }
}

/** `host:port`, as in a NAT mapper. */
export function parseHostPort(text: string, path: string): { host: string; port: number } {
  const { host, port } = parseAddress(`redis://${text}`, path)
  return { host, port }
}

/** If an @ is missing, the apparent host contains the password, which must not be sent to a DNS server. */
function isHost(text: string): boolean {
  return text.includes(':') ? isIPv6(text) : /^[^\s[\]?#&=%]+$/.test(text)
}

/** Certainly no more than a scheme, a host and a port. */
const PLAIN = /^(?:\w+:\/\/)?[\w.-]+(?::\d{1,5})?$/
const AFTER_SECRETS = /@([\w.-]+:\d{1,5})$/

/** The part of an address that may be shown. */
function redacted(url: string): string {
  if (PLAIN.test(url)) return url
  const [, server] = AFTER_SECRETS.exec(url) ?? []
  if (server !== undefined) return `…@${server}`
  const [scheme = ''] = /^(?:rediss?|valkeys?|(?:redis|valkey)\+uds|https?):\/\//.exec(url) ?? []
  return `${scheme}… (${url.length} characters)`
}
