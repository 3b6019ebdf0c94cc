// Why a client is not connected, for messages.
import { errorMonitor } from 'node:events'
import { withoutSecrets } from '../util/secrets.js'
import { signInRefused } from '../warnings.js'

/** The part of any Redis client that is needed here. */
interface Emitter {
  // biome-ignore lint/suspicious/noExplicitAny: each event of the real client has listeners of its own
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown
}

/** After this many refusals in a row nobody is about to renew the password: about 2 s. */
const MAX_REFUSALS = 10

/** Warns when user or password of a client that reconnects are refused again and again. */
export function warnOfRefusedSignIn(client: Pick<Emitter, 'on'>, warn: (warning: Error) => void): void {
  let refusals = 0
  const count = (error: unknown): void => {
    const isRefused = error instanceof Error && /\b(WRONGPASS|NOAUTH)\b|ERR invalid password/.test(error.message)
    if (isRefused && ++refusals === MAX_REFUSALS) warn(signInRefused(withoutSecrets(error)))
  }
  for (const event of [errorMonitor as unknown as string, 'node error']) client.on(event, count)
  client.on('ready', () => {
    refusals = 0
  })
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
