import { errorMonitor } from 'node:events'

/** What is needed of any Redis client. */
interface Emitter {
  // biome-ignore lint/suspicious/noExplicitAny: each event of the real client has listeners of its own
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown
}

/** Whether a connection ends, or commands fail, because the password is not, or no longer, right. */
export function isSignInRefused(error: unknown): boolean {
  return error instanceof Error && /\b(WRONGPASS|NOAUTH)\b|ERR invalid password/.test(error.message)
}

/** A cluster replies to CLUSTER SLOTS without hosts, which no Redis client takes for that of the node it asked. */
export function addressesUnknown(): Error {
  return new Error(
    'the cluster does not say where its nodes are: set cluster-preferred-endpoint-type of every node to ip, or to hostname ' +
      'with cluster-announce-hostname',
  )
}

/**
 * Why a client is not connected, for messages. It monitors the client without being a listener of `error`, whose absence
 * means something to the client.
 * @param errorOf  where to find the error after an event `close`
 */
export class ConnectionError {
  readonly #client: Emitter
  readonly #listeners: readonly (readonly [event: string, listener: (error?: unknown) => void])[]
  #last: unknown

  constructor(client: Emitter, errorOf: () => unknown = () => undefined) {
    this.#client = client
    const keep = (error: unknown): void => {
      this.#last = error ?? this.#last
    }
    this.#listeners = [
      [errorMonitor as unknown as string, keep],
      ['node error', keep],
      ['close', () => keep(errorOf())],
      ['ready', () => (this.#last = undefined)],
    ]
    for (const [event, listener] of this.#listeners) client.on(event, listener)
  }

  /** The last error since the client was ready; undefined: there was none. */
  get last(): unknown {
    return this.#last
  }

  close(): void {
    for (const [event, listener] of this.#listeners) this.#client.off(event, listener)
  }
}
