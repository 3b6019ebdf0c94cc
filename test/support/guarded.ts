import { type Client, type ConnectOptions, connect } from '../../src/index.js'
import type { Fixture } from './fixture.js'

export const LEASE_MS = 2_400

/** A client whose locks the watchdog thread renews. Nobody asks it what it holds: tests count its connections and commands. */
export async function guarded({ server, onEnd }: Fixture, options: ConnectOptions = {}): Promise<Client> {
  const { watchdog, ...rest } = options
  const where = (options.client ?? options.config) ? {} : { url: server.url }
  const client = await connect({
    lockWatchdogTimeoutMs: LEASE_MS,
    inspection: false,
    ...where,
    ...rest,
    watchdog: { thread: true, ...watchdog },
  })
  onEnd(() => client.close())
  return client
}
