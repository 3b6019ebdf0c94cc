// How ioredis finds and opens a connection.
import { setMaxListeners } from 'node:events'
import { Socket } from 'node:net'
import type { AbstractConnector } from 'ioredis'
import { within } from '../../util/timeout.js'
import type { Address } from '../address.js'
import type { Deployment } from '../deployment.js'
import type { Credentials } from '../schema.js'
import { findMaster, isInfoRefusal, NotMasterError, replicationOf } from './master-discovery.js'
import type { SentinelDiscovery } from './sentinel-discovery.js'
import { authenticate, openStream, type Stream, sendCommand } from './streams.js'

/*
 * ioredis opens its connections with a `Connector`. Ours do what its own cannot: find the master among several servers
 * or through several Sentinels at once, and fetch the password for each connection. All of this happens on the new
 * connection, before ioredis gets it: so the server that was checked is the server that is used.
 *
 * `AbstractConnector` and the option `Connector` are exported but hardly documented. What we rely on beyond their types
 * is checked by `test/adapters/ioredis-internals.test.ts`.
 */

/** The part of `connectTimeout` for a reconnect: a server that is silent now may be replaced at any moment. */
const RECONNECT_FRACTION = 1 / 3
const MIN_RECONNECT_MS = 1_000

/** The state that the connectors of one client share. */
export interface Connecting {
  readonly deployment: Deployment
  /** Whether the client has been ready: from then on it never gives up. */
  isUp: boolean
}

type Ioredis = Pick<typeof import('ioredis'), 'AbstractConnector'>
type Connector = new (options: unknown) => AbstractConnector
type Open = (signal: AbortSignal) => Promise<Stream>

/** For one server, master or not, whose password is fetched for each connection. */
export function singleConnector(ioredis: Ioredis, shared: Connecting): Connector {
  const { deployment } = shared
  const address = deployment.addresses[0] as Address
  const open: Open = (signal) =>
    openStream(address, deployment, signal, async (stream) => {
      await authenticate(stream, address, deployment, signal)
      return stream
    })
  return connector(ioredis, shared, open, () => true)
}

/** For a list of servers, one of which is the master. */
export function listConnector(ioredis: Ioredis, shared: Connecting): Connector {
  return connector(ioredis, shared, (signal) => findMaster(shared.deployment, signal), isMaster)
}

/** For the master that the Sentinels name. The connection is closed as soon as they name another one. */
export function sentinelConnector(ioredis: Ioredis, shared: Connecting, sentinels: SentinelDiscovery): Connector {
  const open: Open = async (signal) => {
    for (;;) {
      let hasSwitched = false
      const onSwitch = (): void => {
        hasSwitched = true
      }
      try {
        return await openNamed(sentinels, shared.deployment, signal, onSwitch)
      } catch (error) {
        // The master was frozen and has been replaced meanwhile.
        if (!hasSwitched) throw error
      }
    }
  }
  return connector(ioredis, shared, open, isMaster)
}

async function openNamed(
  sentinels: SentinelDiscovery,
  deployment: Deployment,
  signal: AbortSignal,
  onSwitch: () => void,
): Promise<Stream> {
  const named = await sentinels.findMaster(signal)
  const address = sentinels.reached(named)
  return await openStream(address, deployment, signal, async (stream) => {
    const stopWatching = sentinels.watch(named, () => {
      onSwitch()
      stream.destroy()
    })
    stream.once('close', stopWatching)
    await authenticate(stream, address, deployment, signal)
    const role = await roleOf(stream, signal)
    if (!isMaster({ role })) throw new NotMasterError(`${address.host}:${address.port} is not the master yet`)
    return stream
  })
}

function isMaster({ role }: { role?: string | undefined }): boolean {
  return role === undefined || role === 'master'
}

/** @returns undefined: INFO is refused, so Sentinel is trusted */
async function roleOf(stream: Stream, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await replicationOf(stream, signal))('role')
  } catch (error) {
    if (isInfoRefusal(error as Error)) return undefined
    throw error
  }
}

/**
 * A connector that never rejects: after a rejection, even one caused by `disconnect(true)`, the status of ioredis is
 * `end` for good. Instead, a failed attempt resolves with a closed connection, which ioredis treats as a lost one: it
 * reconnects as its `retryStrategy` says, and ends only after `disconnect()`.
 */
function connector(
  { AbstractConnector }: Ioredis,
  shared: Connecting,
  open: Open,
  check: (info: { role?: string }) => boolean,
): Connector {
  const limitMs = (): number => {
    const { connectTimeoutMs } = shared.deployment
    if (!shared.isUp) return connectTimeoutMs
    return Math.min(connectTimeoutMs, Math.max(connectTimeoutMs * RECONNECT_FRACTION, MIN_RECONNECT_MS))
  }
  return class extends AbstractConnector {
    #attempt = new AbortController()

    constructor(options: unknown) {
      super((options as { disconnectTimeout: number }).disconnectTimeout)
    }

    override check(info: { role?: string }): boolean {
      return check(info)
    }

    override async connect(): Promise<Stream> {
      this.#attempt = new AbortController()
      try {
        this.stream = await openWithin(limitMs(), this.#attempt, open)
      } catch (error) {
        this.firstError = error as Error
        this.stream = new Socket().destroy()
      }
      return this.stream as Stream
    }

    override disconnect(): void {
      this.#attempt.abort(new Error('Connection is closed.'))
      if (this.stream && !this.stream.destroyed) super.disconnect()
    }
  }
}

/**
 * Rejects after `limitMs` or when `attempt` is aborted, even if `open` ignores the signal: what it opens late is
 * closed.
 */
async function openWithin(limitMs: number, attempt: AbortController, open: Open): Promise<Stream> {
  setMaxListeners(0, attempt.signal) // one or two per server
  const opening = open(attempt.signal)
  try {
    return await within(limitMs, opening, attempt.signal)
  } catch (error) {
    attempt.abort(error)
    opening.then(
      (late) => late.destroy(),
      () => {},
    )
    throw error
  }
}

/** For a node of a cluster, after what ioredis cannot do itself. If it rejects, the cluster drops the node and uses others. */
export function nodeConnector({ AbstractConnector }: Ioredis, { deployment }: Connecting): Connector {
  type NodeOptions = Credentials & { host: string; port: number; disconnectTimeout: number }
  return class NodeConnector extends AbstractConnector {
    readonly #options: { -readonly [K in keyof NodeOptions]: NodeOptions[K] }
    #attempt = new AbortController()

    constructor(options: unknown) {
      super((options as NodeOptions).disconnectTimeout)
      this.#options = options as NodeOptions
      // ioredis must not send the password of the node that these options were copied from.
      this.#options.username = undefined
      this.#options.password = undefined
    }

    override async connect(): Promise<Stream> {
      this.#attempt = new AbortController()
      const { host, port } = this.#options
      const address = { host, port, isTls: deployment.tls !== undefined }
      const open: Open = (signal) =>
        openStream(address, deployment, signal, async (stream) => {
          const { username, password } = await authenticate(stream, address, deployment, signal)
          await selectDatabase(stream, address, deployment, signal)
          // For the subscriber connection, which ioredis opens itself with these options. A node connects only once.
          this.#options.username = username
          this.#options.password = password
          return stream
        })
      this.stream = await openWithin(deployment.connectTimeoutMs, this.#attempt, open)
      return this.stream as Stream
    }

    override disconnect(): void {
      this.#attempt.abort(new Error('Connection is closed.'))
      if (this.stream && !this.stream.destroyed) super.disconnect()
    }
  }
}

/** Selects the database of a cluster. @throws {Error} the node does not have it: ioredis would use database 0 instead */
async function selectDatabase(
  stream: Stream,
  { host, port }: Address,
  { database }: Deployment,
  signal: AbortSignal,
): Promise<void> {
  if (database === 0) return
  await sendCommand(stream, ['SELECT', String(database)], signal).catch((cause: Error) => {
    const message =
      `clusterServersConfig.database: ${host}:${port} does not have database ${database} (${cause.message}). In a cluster ` +
      'only Valkey 9 or later has others than 0, as many as its setting cluster-databases says: raise it, or use database 0'
    throw new Error(message, { cause })
  })
}
