import { setMaxListeners } from 'node:events'
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

/** For one server, master or not, with a password that is asked for each time. */
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
  const open: Open = async (signal) => {
    while (true) {
      let hasSwitched = false
      const onSwitch = (): void => {
        hasSwitched = true
      }
      try {
        return await openNamed(sentinels, shared.deployment, signal, onSwitch)
      } catch (error) {
        // The master was frozen, and has been replaced meanwhile.
        if (!hasSwitched) throw error
      }
    }
  }
  return connector(ioredis, shared, open, isMaster)
}

async function openNamed(
  sentinels: Sentinels,
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

/** @returns undefined: the user has no right to INFO, so Sentinel is believed */
async function roleOf(stream: Stream, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await replicationOf(stream, signal))('role')
  } catch (error) {
    if (/^NOPERM/.test((error as Error).message)) return undefined
    throw error
  }
}

/**
 * A connector that never rejects. After a rejection, also one that `disconnect(true)` caused, the status of ioredis is `end`
 * for good. So a failed attempt resolves with a closed connection, which ioredis treats as a lost one: it opens the next as
 * its `retryStrategy` says, and ends only after `disconnect()`.
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

/** Rejects when `attempt` is aborted or the time is up, even if `open` ignores the signal: what it opens later is closed. */
async function within(limitMs: number, attempt: AbortController, open: Open): Promise<Stream> {
  const { signal } = attempt
  setMaxListeners(0, signal) // one or two for each member that is asked
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

/** For a node of a cluster, with a password that is asked for. If it rejects, the cluster drops the node and uses others. */
export function nodeConnector({ AbstractConnector }: Ioredis, { deployment }: Connecting): Connector {
  type NodeOptions = Credentials & { host: string; port: number; disconnectTimeout: number }
  return class NodeConnector extends AbstractConnector {
    readonly #options: { -readonly [K in keyof NodeOptions]: NodeOptions[K] }
    #attempt = new AbortController()

    constructor(options: unknown) {
      super((options as NodeOptions).disconnectTimeout)
      this.#options = options as NodeOptions
      // ioredis must not send the password of the node that this one was copied from.
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
