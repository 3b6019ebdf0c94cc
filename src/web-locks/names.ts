// The names of client.locks, which are any text, and the names of their locks, which are not.
import { Buffer } from 'node:buffer'
import { ConfigError } from '../errors.js'

/** Followed by the UTF-16 code units of the name, 4 hexadecimal digits each. */
const PREFIX = 'holdfast_utf16:'
/** What Holdfast keeps besides locks begins with this. */
const RESERVED = 'holdfast_'

/**
 * The name and key of the lock for a name: the name itself, if it can be one.
 * @param keyOf  throws if there can be no such lock
 * @throws {ConfigError} it is too long
 */
export function lockOf(name: string, keyOf: (name: string) => string): { name: string; key: string } {
  if (!name.startsWith(RESERVED)) {
    try {
      return { name, key: keyOf(name) }
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
    }
  }
  const encoded = PREFIX + Buffer.from(name, 'utf16le').swap16().toString('hex')
  return { name: encoded, key: keyOf(encoded) }
}

/** The name that was requested, of a lock of this name. */
export function requestedName(lockName: string): string {
  if (!lockName.startsWith(PREFIX)) return lockName
  return Buffer.from(lockName.slice(PREFIX.length), 'hex').swap16().toString('utf16le')
}
