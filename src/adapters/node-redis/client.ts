// Structural types of node-redis clients.
import { queueMicrotask } from '../../util/real-time.js'

/** The part of any node-redis client that Holdfast uses. A structural type: our types do not need node-redis. */
export interface NodeRedisBase {
  readonly isOpen: boolean
  connect(): Promise<unknown>
  duplicate(overrides?: object): NodeRedisBase
  /** node-redis 5 and later. */
  destroy?(): unknown
  /** node-redis 4. */
  disconnect?(): unknown
  // biome-ignore lint/suspicious/noExplicitAny: each event of the real client has listeners of its own
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown
}

/** The same of a client for one server (4.7 or later). */
export interface NodeRedisLike extends NodeRedisBase {
  readonly options?: object | undefined
  sendCommand(args: string[]): Promise<unknown>
  duplicate(overrides?: object): NodeRedisLike
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  ping?(): Promise<unknown>
}

export function isErrorReply(error: unknown): boolean {
  // By the form of the message: ErrorReply may come from any copy and version of the library, and be minified.
  // The other text is that of a cluster whose servers have sent a command to each other until node-redis gave up.
  return error instanceof Error && /^([A-Z]{3,} |Too many Cluster redirections)/.test(error.message)
}

export async function end(client: NodeRedisBase): Promise<void> {
  if (!client.isOpen) return
  if (client.destroy) client.destroy()
  else await client.disconnect?.()
}

/**
 * If a node-redis client for one server is ended while its socket is being opened, it connects nevertheless and then can no
 * longer be ended; and version 4 throws when it is ended before it has begun to sign in.
 * @returns how to end a client that is about to connect: at once, or as soon as it has a socket
 */
export function endingOf(client: NodeRedisBase): () => void {
  let hasSocket = false
  let hasEnded = false
  const endSoon = (): void => queueMicrotask(() => void end(client).catch(() => {}))
  client.on('connect', () => {
    hasSocket = true
    if (hasEnded) endSoon()
  })
  client.on('reconnecting', () => {
    hasSocket = false
  })
  return () => {
    hasEnded = true
    if (hasSocket) endSoon()
  }
}

/** Ends a sentinel, again when it has connected. */
export function endWhenConnected(client: NodeRedisBase): void {
  const quietly = (): void => void end(client).catch(() => {})
  for (const event of ['connect', 'ready']) client.on(event, quietly)
  quietly()
}

/**
 * Runs the tasks of each channel one after the other, whether they succeed or fail. node-redis sends no SUBSCRIBE for a
 * channel while its UNSUBSCRIBE is in flight, and drops the new listener together with the old one. A command that is
 * lost with its connection does not block the tasks behind it: node-redis rejects it when the connection ends.
 */
export class ChannelQueue {
  readonly #last = new Map<string, Promise<unknown>>()

  async run(channel: string, task: () => Promise<unknown>): Promise<void> {
    const running = this.#runAfter(this.#last.get(channel), task)
    this.#last.set(channel, running)
    try {
      await running
    } finally {
      if (this.#last.get(channel) === running) this.#last.delete(channel)
    }
  }

  async #runAfter(before: Promise<unknown> | undefined, task: () => Promise<unknown>): Promise<void> {
    await before?.catch(() => {})
    await task()
  }
}
