import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { AbstractConnector, SentinelConnector } from 'ioredis'
import type { Address } from './address.js'
import type { Deployment } from './deployment.js'
import type { Credentials } from './schema.js'

/*
 * ioredis opens its connections by a `Connector`. Ours do what it cannot: look for the master among several servers, and ask
 * for the password anew each time. Both are said on the fresh connection, before ioredis gets it.
 */

/** How long to wait for servers that stand earlier in the list than a master that has answered, ms. */
const EARLIER_MS = 500

/** What the connectors of one client share. */
export interface Connecting {
  readonly deployment: Deployment
  /** Whether the client was ready once: from then on it never gives up. */
  isUp: boolean
}

type Emit = (type: string, error: Error) => void
type Stream = Socket | TLSSocket
type Ioredis = Pick<typeof import('ioredis'), 'AbstractConnector' | 'SentinelConnector'>
type Connector = new (options: unknown) => AbstractConnector

/** For a list of servers, one of which is the master; or for one server, whatever it is. */
export function listConnector({ AbstractConnector }: Ioredis, shared: Connecting): Connector {
  const { deployment } = shared
  const needsMaster = deployment.mode !== 'single'
  return class ListConnector extends AbstractConnector {
    #abort = new AbortController()

    constructor(options: unknown) {
      super((options as { disconnectTimeout: number }).disconnectTimeout)
    }

    override check({ role }: { role?: string }): boolean {
      return !needsMaster || role === undefined || role === 'master'
    }

    override async connect(emit: Emit): Promise<Stream> {
      this.connecting = true
      this.#abort = new AbortController()
      const { signal } = this.#abort
      return await insist(shared, emit, signal, async () => {
        this.stream = needsMaster ? await findMaster(deployment, signal) : await open(deployment, 0, signal)
        return this.stream as Stream
      })
    }

    override disconnect(): void {
      this.#abort.abort()
      super.disconnect()
    }
  }
}

/** For a node of a cluster: its password is asked for. */
export function nodeConnector({ AbstractConnector }: Ioredis, { deployment }: Connecting): Connector {
  type NodeOptions = Credentials & { host: string; port: number; disconnectTimeout: number }
  return class NodeConnector extends AbstractConnector {
    readonly #options: { -readonly [K in keyof NodeOptions]: NodeOptions[K] }
    #abort = new AbortController()

    constructor(options: unknown) {
      super((options as NodeOptions).disconnectTimeout)
      this.#options = options as NodeOptions
      // ioredis must not send what the node it was copied from was told.
      this.#options.username = undefined
      this.#options.password = undefined
    }

    override async connect(): Promise<Stream> {
      this.connecting = true
      this.#abort = new AbortController()
      const { host, port } = this.#options
      const address = { host, port, isTls: deployment.tls !== undefined }
      const stream = await openStream(address, deployment, this.#abort.signal)
      try {
        const { username, password } = await authenticate(stream, address, deployment, this.#abort.signal)
        // For the connection that ioredis opens beside it by itself. A node connects only once.
        this.#options.username = username
        this.#options.password = password
      } catch (error) {
        stream.destroy()
        throw error
      }
      this.stream = stream
      return stream
    }

    override disconnect(): void {
      this.#abort.abort()
      super.disconnect()
    }
  }
}

/** For the master that Sentinel names: its password is asked for, if there is a resolver. */
export function sentinelConnector({ SentinelConnector: Base }: Ioredis, shared: Connecting): Connector {
  return class AskingConnector extends Base {
    #abort = new AbortController()

    constructor(options: unknown) {
      super(options as ConstructorParameters<typeof SentinelConnector>[0])
      const { disconnectTimeout } = options as { disconnectTimeout: number }
      quieten(this as unknown as AskingSentinels, disconnectTimeout)
    }

    override async connect(emit: Emit): Promise<Stream> {
      this.#abort = new AbortController()
      const { signal } = this.#abort
      return await insist(shared, emit, signal, async () => {
        const stream = (await super.connect(emit)) as Stream
        if (!shared.deployment.credentials) return stream
        try {
          await opened(stream, shared.deployment, signal)
          const address = { host: stream.remoteAddress ?? '', port: stream.remotePort ?? 0, isTls: false }
          await authenticate(stream, address, shared.deployment, signal)
          return stream
        } catch (error) {
          stream.destroy()
          throw error
        }
      })
    }

    override disconnect(): void {
      this.#abort.abort()
      super.disconnect()
    }
  }
}

interface AskingSentinels {
  /** How ioredis asks one Sentinel, and listens to it. Private there. */
  connectToSentinel?(endpoint: object, options?: object): { on(event: 'error', listener: () => void): unknown }
}

/** To ioredis an error of those that listen is one that nobody handles: it prints each attempt at a Sentinel that is down. */
function quieten(connector: AskingSentinels, disconnectTimeout: number): void {
  const original = connector.connectToSentinel
  if (!original) return
  connector.connectToSentinel = (endpoint, options) => {
    const sentinel = original.call(connector, endpoint, { disconnectTimeout, ...options })
    sentinel.on('error', () => {})
    return sentinel
  }
}

/** ioredis never comes back after a connector that failed, so they must not, once the client was ready. */
async function insist<T>(shared: Connecting, emit: Emit, signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt()
    } catch (error) {
      if (!shared.isUp || signal.aborted) throw error
      emit('error', error as Error)
      await pause(shared.deployment.reconnectionDelay(failures), signal)
      signal.throwIfAborted()
    }
  }
}

/** All are asked at once. Of several masters, which is no good sign, everybody takes the first in the list. */
async function findMaster(deployment: Deployment, outer: AbortSignal): Promise<Stream> {
  const { addresses } = deployment
  const ending = new AbortController()
  const end = (): void => ending.abort()
  outer.addEventListener('abort', end, { once: true })
  outer.throwIfAborted()
  const found: (Stream | Error | undefined)[] = addresses.map(() => undefined)
  try {
    await new Promise<void>((resolve) => {
      let timer: NodeJS.Timeout | undefined
      const settle = (index: number, result: Stream | Error): void => {
        found[index] = result
        const first = found.findIndex((one) => !(one instanceof Error))
        if (first === -1 || found[first] !== undefined) {
          clearTimeout(timer)
          resolve()
        } else if (!(result instanceof Error)) timer ??= setTimeout(resolve, EARLIER_MS)
      }
      addresses.forEach((_, index) => {
        openMaster(deployment, index, ending.signal).then(
          (stream) => (ending.signal.aborted ? void stream.destroy() : settle(index, stream)),
          (error: Error) => settle(index, error),
        )
      })
    })
  } finally {
    outer.removeEventListener('abort', end)
  }
  const streams = found.filter((one): one is Stream => one !== undefined && !(one instanceof Error))
  const [master, ...others] = streams
  for (const other of others) other.destroy()
  ending.abort()
  if (outer.aborted) master?.destroy()
  outer.throwIfAborted()
  if (master) return master
  const errors = found.filter((one) => one instanceof Error)
  // A refused password says more than a server that is down.
  throw (
    errors.find(({ name }) => name === 'ReplyError') ??
    errors.find((error) => !(error instanceof NotMaster)) ??
    errors[0]
  )
}

class NotMaster extends Error {}

async function openMaster(deployment: Deployment, index: number, signal: AbortSignal): Promise<Stream> {
  const stream = await open(deployment, index, signal)
  try {
    const info = await ask(stream, ['INFO', 'replication'], deployment.connectTimeoutMs, signal)
    if (/^role:master\r?$/m.test(info)) return stream
    const { host, port } = deployment.addresses[index] as Address
    throw new NotMaster(`${host}:${port} is no master`)
  } catch (error) {
    stream.destroy()
    throw error
  }
}

/** A connection to one of the addresses, with the user signed in. */
async function open(deployment: Deployment, index: number, signal: AbortSignal): Promise<Stream> {
  const address = deployment.addresses[index] as Address
  const stream = await openStream(address, deployment, signal)
  try {
    await authenticate(stream, address, deployment, signal)
    return stream
  } catch (error) {
    stream.destroy()
    throw error
  }
}

async function openStream(address: Address, deployment: Deployment, signal: AbortSignal): Promise<Stream> {
  signal.throwIfAborted()
  const { host, port, socket } = address
  const target = socket === undefined ? { host, port } : { path: socket }
  const stream = deployment.tls ? connectTls({ ...target, ...deployment.tls }) : connectTcp(target)
  await opened(stream, deployment, signal)
  return stream
}

async function opened(stream: Stream, { tls, connectTimeoutMs }: Deployment, signal: AbortSignal): Promise<void> {
  // ioredis listens for errors when it has the connection; until then, and between, they must not end the process.
  stream.on('error', () => {})
  if (!tls && !stream.connecting) return
  await settled<void>(stream, connectTimeoutMs, signal, (resolve) => {
    stream.once(tls ? 'secureConnect' : 'connect', resolve)
    return () => stream.off(tls ? 'secureConnect' : 'connect', resolve)
  })
}

async function authenticate(
  stream: Stream,
  address: Address,
  deployment: Deployment,
  signal: AbortSignal,
): Promise<Credentials> {
  const { host, port } = address
  const { username, password } =
    address.password !== undefined
      ? address
      : deployment.credentials
        ? await deployment.credentials({ host, port })
        : deployment
  if (password === undefined || password === '') return {}
  const command = username ? ['AUTH', username, password] : ['AUTH', password]
  await ask(stream, command, deployment.connectTimeoutMs, signal)
  return { username, password }
}

/** One command on a connection that nobody else uses yet. @returns the line or the text that is answered */
async function ask(stream: Stream, command: readonly string[], limitMs: number, signal: AbortSignal): Promise<string> {
  let reply = Buffer.alloc(0)
  return await settled<string>(stream, limitMs, signal, (resolve, reject) => {
    const onData = (bytes: Buffer): void => {
      reply = Buffer.concat([reply, bytes])
      const end = reply.indexOf('\r\n')
      if (end === -1) return
      const line = reply.toString('utf8', 1, end)
      const kind = String.fromCharCode(reply[0] as number)
      if (kind === '-') reject(Object.assign(new Error(line), { name: 'ReplyError' }))
      else if (kind !== '$') resolve(line)
      else if (reply.length >= end + 2 + Number(line) + 2)
        resolve(reply.toString('utf8', end + 2, end + 2 + Number(line)))
    }
    stream.on('data', onData)
    const words = command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
    stream.write(`*${command.length}\r\n${words.join('')}`)
    return () => {
      stream.off('data', onData)
      stream.pause()
    }
  })
}

/** Ends with the stream, the time or the signal, and destroys the stream if it did not end well. */
async function settled<T>(
  stream: Stream,
  limitMs: number,
  signal: AbortSignal,
  start: (resolve: (value: T) => void, reject: (error: Error) => void) => () => void,
): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer)
      stream.off('error', fail).off('close', onClose)
      signal.removeEventListener('abort', onAbort)
      stop()
    }
    const fail = (error: Error): void => {
      done()
      stream.destroy()
      reject(error)
    }
    const onClose = (): void => fail(new Error('the connection was closed'))
    const onAbort = (): void => fail(new Error('Connection is closed.'))
    const timer = setTimeout(() => fail(new Error(`no answer within ${limitMs} ms`)), limitMs)
    stream.on('error', fail).on('close', onClose)
    signal.addEventListener('abort', onAbort, { once: true })
    const stop = start((value) => {
      done()
      resolve(value)
    }, fail)
    if (signal.aborted) onAbort()
  })
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
  })
}
