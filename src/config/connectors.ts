import { Socket } from 'node:net'
import type { AbstractConnector } from 'ioredis'
import type { Address } from './address.js'
import type { Deployment } from './deployment.js'
import { findMaster, NotMasterError, replicationOf } from './masters.js'
import type { Credentials } from './schema.js'
import type { Sentinels } from './sentinels.js'
import { authenticate, openStream, type Stream } from './streams.js'

/*
 * ioredis opens its connections by a `Connector`. Ours do what it cannot: look for the master among several servers, or by
 * several Sentinels at once, and ask for the password each time. All of that happens on the fresh connection, before
 * ioredis gets it.
 */

/** Of `connectTimeout`: for a reconnect, as what is silent now may be replaced at any moment. */
const PART_FOR_RECONNECT = 1 / 3
const LEAST_FOR_RECONNECT_MS = 1_000

/** What the connectors of one client share. */
export interface Connecting {
  readonly deployment: Deployment
  /** Whether the client was ready once: from then on it never gives up. */
  isUp: boolean
}

type Ioredis = Pick<typeof import('ioredis'), 'AbstractConnector'>
type Connector = new (options: unknown) => AbstractConnector
type Open = (signal: AbortSignal) => Promise<Stream>

/** For one server, whatever it is: its password is asked for. */
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

/** For the master that Sentinel names. The connection is closed as soon as Sentinel names another one. */
export function sentinelConnector(ioredis: Ioredis, shared: Connecting, sentinels: Sentinels): Connector {
  const { deployment } = shared
  const open: Open = async (signal) => {
    const named = await sentinels.findMaster(signal)
    const address = sentinels.reached(named)
    return await openStream(address, deployment, signal, async (stream) => {
      stream.once(
        'close',
        sentinels.watch(named, () => stream.destroy()),
      )
      await authenticate(stream, address, deployment, signal)
      const role = await roleOf(stream, signal)
      if (!isMaster({ role })) throw new NotMasterError(`${address.host}:${address.port} is not the master yet`)
      return stream
    })
  }
  return connector(ioredis, shared, open, isMaster)
}

function isMaster({ role }: { role?: string | undefined }): boolean {
  return role === undefined || role === 'master'
}

/** @returns undefined: the user may not ask, so what Sentinel says must do */
async function roleOf(stream: Stream, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await replicationOf(stream, signal))('role')
  } catch (error) {
    if (/^NOPERM/.test((error as Error).message)) return undefined
    throw error
  }
}

/**
 * A connector that never fails. One that does, or that is stopped while it tries, ioredis never uses again: the client is at
 * its `end`. So a failed attempt hands over a connection that is closed already. To ioredis that is one that was lost: it
 * opens the next as its `retryStrategy` says, and ends only if it was told to.
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
    return Math.min(connectTimeoutMs, Math.max(connectTimeoutMs * PART_FOR_RECONNECT, LEAST_FOR_RECONNECT_MS))
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
        this.stream = await within(limitMs(), this.#attempt, open)
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

/** Runs an attempt that `attempt` or the time limit ends, even if it does not notice: what it opens then is closed. */
async function within(limitMs: number, attempt: AbortController, open: Open): Promise<Stream> {
  const { signal } = attempt
  const timer = setTimeout(() => attempt.abort(new Error(`no answer within ${Math.round(limitMs)} ms`)), limitMs)
  const opening = open(signal)
  try {
    return await new Promise<Stream>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
      opening.then(resolve, reject)
    })
  } catch (error) {
    opening.then(
      (late) => late.destroy(),
      () => {},
    )
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** For a node of a cluster: its password is asked for. When it fails, the cluster drops the node and finds another one. */
export function nodeConnector({ AbstractConnector }: Ioredis, { deployment }: Connecting): Connector {
  type NodeOptions = Credentials & { host: string; port: number; disconnectTimeout: number }
  return class NodeConnector extends AbstractConnector {
    readonly #options: { -readonly [K in keyof NodeOptions]: NodeOptions[K] }
    #attempt = new AbortController()

    constructor(options: unknown) {
      super((options as NodeOptions).disconnectTimeout)
      this.#options = options as NodeOptions
      // ioredis must not send what the node it was copied from was told.
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
          // For the connection that ioredis opens beside it by itself. A node connects only once.
          this.#options.username = username
          this.#options.password = password
          return stream
        })
      this.stream = await within(deployment.connectTimeoutMs, this.#attempt, open)
      return this.stream as Stream
    }

    override disconnect(): void {
      this.#attempt.abort(new Error('Connection is closed.'))
      if (this.stream && !this.stream.destroyed) super.disconnect()
    }
  }
}
