// The user and host of this process, for the audit.
import { hostname, userInfo } from 'node:os'

/** The user and host of this process, for the audit: `alice@build-7`, or the host alone. */
export function userAtHost(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    return hostname() // the user has no entry in passwd, as in some containers
  }
}
