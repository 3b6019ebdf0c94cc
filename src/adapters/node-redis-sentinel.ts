import { type Acknowledgement, Replicas } from './acknowledgement.js'
import { isErrorReply, type NodeRedisBase } from './node-redis-client.js'
import type { PortEvents, RedisPort } from './port.js'

/** What Holdfast uses of a node-redis sentinel (5 or later). It has a connection for channels of its own. */
export interface NodeRedisSentinelLike extends NodeRedisBase {
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
}

/** A node-redis sentinel: commands and channels follow the master. */
export class NodeRedisSentinelPort implements RedisPort {
  readonly isReplicated = true
  readonly #sentinel: NodeRedisSentinelLike
  readonly #replicas: Replicas
  readonly #onChange = (): void => {
    this.#events?.reconnected()
    this.#events?.resubscribed(new Map())
  }
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

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    await this.#sentinel.subscribe(channel, onMessage)
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#sentinel.unsubscribe(channel).catch(() => {})
  }

  listen(events: PortEvents): void {
    this.#events = events
    for (const event of ['topology-change', 'client-error']) this.#sentinel.on(event, this.#onChange)
  }

  async close(): Promise<void> {
    for (const event of ['topology-change', 'client-error']) this.#sentinel.off(event, this.#onChange)
  }
}
