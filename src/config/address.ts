import { isIPv6 } from 'node:net'
import { ConfigError } from '../errors.js'

/** Where a server listens, and what its URL says besides. */
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
const TCP = /^(redis|rediss|valkey|valkeys):\/\/(?:(.*)@)?([^@/]+):(\d{1,5})\/?$/
const SOCKET = /^(?:redis|valkey)\+uds:\/\/(?:(.*)@)?(\/[^@]+)$/

/** One URL of a Redisson configuration. @throws {ConfigError} without what may be a password in it */
export function parseAddress(url: string, path: string): Address {
  const [, scheme = '', secrets, host = '', port = ''] = TCP.exec(url) ?? []
  const [, socketSecrets, socket] = SOCKET.exec(url) ?? []
  if (socket !== undefined) return { host: '', port: 0, socket, isTls: false, ...parseSecrets(socketSecrets, path) }
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  if (scheme === '' || !isHost(bare) || Number(port) < 1 || Number(port) > 65_535) {
    throw new ConfigError(path, shownOf(url), ALLOWED)
  }
  return {
    host: bare,
    port: Number(port),
    isTls: /^(rediss|valkeys)$/.test(scheme),
    ...parseSecrets(secrets, path),
  }
}

/** `user:password`; a single part is the password. */
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

/** `host:port`, as in the maps of a NAT mapper. */
export function parseHostPort(text: string, path: string): { host: string; port: number } {
  const { host, port } = parseAddress(`redis://${text}`, path)
  return { host, port }
}

/** Where an @ is forgotten, what looks like a host has the password in it: nobody may be asked for the address of that. */
function isHost(text: string): boolean {
  return text.includes(':') ? isIPv6(text) : /^[^\s[\]?#&=%]+$/.test(text)
}

/** What is certainly no more than a scheme, a host and a port, perhaps after secrets. */
const PLAIN = /^(?:\w+:\/\/)?[\w.-]+(?::\d{1,5})?$/
const AFTER_SECRETS = /@([\w.-]+:\d{1,5})$/

/** What of an address may be shown. */
function shownOf(url: string): string {
  if (PLAIN.test(url)) return url
  const [, place] = AFTER_SECRETS.exec(url) ?? []
  if (place !== undefined) return `…@${place}`
  const [scheme = ''] = /^(?:rediss?|valkeys?|(?:redis|valkey)\+uds|https?):\/\//.exec(url) ?? []
  return `${scheme}… (${url.length} characters)`
}
