// The application, host and process of this client.
import { hostname, thisProcess } from '../platform.js'
import type { ClientInfo } from './lock-info.js'

/** The checked option `inspection` of a client that can be asked. */
export interface Inspection {
  /** Default: the name of the application's package. */
  readonly name: string | undefined
  /** Default: that of the machine; false: it is left out. */
  readonly host: string | false | undefined
  /** Whether every hold keeps the stack of the call that took it. */
  readonly stacks: boolean
}

/** How a client of this process describes itself. */
export function clientInfo(id: string, { name, host = hostname() }: Inspection): ClientInfo {
  return { ...thisProcess(), ...(name !== undefined && { name }), id, host: host || '' }
}
