/** What Holdfast uses of anything that node-redis makes. Declared by hand, so that no type needs it installed. */
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

/** What it uses of a node-redis client of one server (4.7 or later). */
export interface NodeRedisLike extends NodeRedisBase {
  readonly options?: object | undefined
  sendCommand(args: string[]): Promise<unknown>
  duplicate(overrides?: object): NodeRedisLike
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  ping?(): Promise<unknown>
}

export function isErrorReply(error: unknown): boolean {
  // By the form of the text: ErrorReply may come from any copy and version of the library, and be minified.
  return error instanceof Error && /^[A-Z]{3,} /.test(error.message)
}

export async function end(client: NodeRedisBase): Promise<void> {
  if (!client.isOpen) return
  if (client.destroy) client.destroy()
  else await client.disconnect?.()
}

/**
 * While its socket is being made, a node-redis client that is ended connects all the same, and cannot be ended any more: so
 * it is ended again when it is connected.
 */
export function endWhenConnected(client: NodeRedisBase): void {
  const quietly = (): void => void end(client).catch(() => {})
  for (const event of ['connect', 'ready']) client.on(event, quietly)
  quietly()
}

/**
 * Does what is done with a channel one after the other. node-redis sends no SUBSCRIBE for a channel that it is just leaving,
 * and forgets the new listener with the old one.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  async take(channel: string, act: () => Promise<unknown>): Promise<void> {
    const turn = this.#inTurn(this.#last.get(channel), act)
    this.#last.set(channel, turn)
    try {
      await turn
    } finally {
      if (this.#last.get(channel) === turn) this.#last.delete(channel)
    }
  }

  async #inTurn(before: Promise<unknown> | undefined, act: () => Promise<unknown>): Promise<void> {
    await before?.catch(() => {})
    await act()
  }
}
