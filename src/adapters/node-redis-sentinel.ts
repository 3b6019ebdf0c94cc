import { type Acknowledgement, type Fsync, Replicas } from './acknowledgement.js'
import { isErrorReply, type NodeRedisBase, Turns } from './node-redis-client.js'
import type { PortEvents, RedisPort } from './port.js'

/** What Holdfast uses of a node-redis sentinel (5 or later). It has a connection for channels of its own. */
export interface NodeRedisSentinelLike extends NodeRedisBase {
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: node-redis wants one for text and buffers here
  unsubscribe(channel: string, listener?: (message: any) => void): Promise<unknown>
}

/** A node-redis sentinel: commands and channels follow the master. */
export class NodeRedisSentinelPort implements RedisPort {
  readonly isReplicated = true
  readonly #sentinel: NodeRedisSentinelLike
  readonly #replicas: Replicas
  readonly #onChange = ({ type }: { readonly type?: string }): void => {
    // What becomes of replicas and sentinels changes nothing for us.
    if (!type?.startsWith('MASTER')) return
    this.#replicas.forget()
    this.#events?.reconnected()
    this.#events?.resubscribed(new Map())
  }
  readonly #turns = new Turns()
  readonly #listeners = new Map<string, (message: string) => void>()
  #events: PortEvents | undefined

  constructor(sentinel: NodeRedisSentinelLike) {
    this.#sentinel = sentinel
    this.#replicas = new Replicas((...command) => sentinel.sendCommand(false, command))
  }

  async send(command: readonly string[]): Promise<unknown> {
    return await this.#sentinel.sendCommand(false, command as string[])
  }

  acknowledge(_key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(timeoutMs)
  }

  fsynced(_key: string, timeoutMs: number): Promise<Fsync> {
    return this.#replicas.fsynced(timeoutMs)
  }

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#listeners.set(channel, onMessage)
    await this.#turns.take(channel, () => this.#sentinel.subscribe(channel, onMessage))
  }

  async unsubscribe(channel: string): Promise<void> {
    // Others may listen on the same channel through the same sentinel.
    const onMessage = this.#listeners.get(channel)
    this.#listeners.delete(channel)
    await this.#turns.take(channel, () => this.#sentinel.unsubscribe(channel, onMessage)).catch(() => {})
  }

  listen(events: PortEvents): void {
    this.#events = events
    for (const event of ['topology-change', 'client-error']) this.#sentinel.on(event, this.#onChange)
  }

  async close(): Promise<void> {
    for (const event of ['topology-change', 'client-error']) this.#sentinel.off(event, this.#onChange)
  }
}
