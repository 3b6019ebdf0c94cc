import { clusterMasterStatus } from '../../../src/adapters/cluster-master-status.js'
import type { Acknowledgement, PortEvents, RedisPort } from '../../../src/adapters/port.js'
import { type MasterStatus, Replicas } from '../../../src/adapters/replicas.js'
import { type SentinelConnection, SentinelMasterStatus } from '../../../src/adapters/sentinel-master-status.js'
import type { MemoryPort } from '../../../src/testing/memory-port.js'
import type { Clock } from '../../../src/util/clock.js'
import type { Dice } from '../../support/dice.js'
import { type Node, NodeConnection } from './node.js'
import { addressOf, type Observer, sentinelReply, slotsReply } from './observer.js'
import type { ReplicaSet } from './replica-set.js'

/** A command without a reply so far. */
interface Pending {
  resend(): void
  fail(): void
}

/** How a client reaches a replica set. */
export interface Access {
  readonly clock: Clock
  readonly dice: Dice
  readonly set: ReplicaSet
  readonly isDown: boolean
  /** Whether an observer does not reply. @param observer  its index */
  isSilent(observer: number): boolean
  open(connection: NodeConnection): MemoryPort
  note(text: string): void
}

/** A Redis client that asks Sentinels or a cluster for the master, and asks again when its connection was closed. */
export class FollowingPort implements RedisPort {
  readonly isOneServer = true
  readonly isReplicated = true
  readonly isCluster: boolean
  /** Whether an observer ever replied: before that, a client trusts its server. */
  wasTold = false
  readonly #access: Access
  readonly #sentinels: SentinelMasterStatus
  #replicas: Replicas
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #pending = new Set<Pending>()
  #node: Node
  #port: MemoryPort
  #events: PortEvents | undefined
  #isSeeking = false
  #isClosed = false

  constructor(access: Access) {
    const { clock, set } = access
    this.#access = access
    this.isCluster = set.isCluster
    const addresses = set.observers.map((_, index) => ({ host: 'sentinel', port: index }))
    this.#sentinels = new SentinelMasterStatus('master', addresses, ({ port }) => this.#sentinel(port), false, clock)
    this.#replicas = this.#newReplicas()
    // Whoever connects goes where it is sent, as others already know better.
    const { named } = access.dice.pick(set.observers)
    this.#node = named.isDown || named.frozen !== undefined ? set.master : named
    this.#port = this.#open(this.#node)
  }

  send(command: readonly string[], key: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const send = (): void => {
        this.#pending.add(pending)
        this.#port
          .send(command, key)
          .finally(() => this.#pending.delete(pending))
          .then(resolve, reject)
      }
      const pending = { resend: send, fail: () => reject(new Error('Connection is closed')) }
      send()
    })
  }

  serverOf(): string {
    return addressOf(this.#node)
  }

  isErrorReply(error: unknown): boolean {
    return this.#port.isErrorReply(error)
  }

  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    const node = this.#node
    const reply = await this.#replicas.acknowledge(key, timeoutMs)
    if (reply.replacedRun !== undefined && node === this.#node) void this.leave()
    return reply
  }

  subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#channels.set(channel, onMessage)
    return this.#port.subscribe(channel, onMessage)
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#channels.delete(channel)
    await this.#port.unsubscribe(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#port.listen(this.#forwarded(this.#port))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#sentinels.close()
    await this.#disconnect()
  }

  /** Another server is the master, for all it knows. */
  heardOfSwitch(): void {
    const { clock, dice, set } = this.#access
    const node = this.#node
    // Not everyone hears of it, as long as its server replies.
    if (node.frozen === undefined && dice.chance(0.3)) return
    clock.after(dice.between(0, 2_500), () => {
      if (node === this.#node && node !== set.master) void this.leave()
    })
  }

  /** Goes to the server that a Sentinel names. */
  async leave(): Promise<void> {
    if (this.#isSeeking || this.#isClosed) return
    this.#isSeeking = true
    for (const channel of this.#channels.keys()) this.#events?.subscriptionLost?.(channel)
    const node = await this.#find()
    this.#isSeeking = false
    if (!node) return
    this.#access.note(`connects to ${node.name}`)
    await this.#disconnect()
    this.#node = node
    this.#port = this.#open(node)
    this.#port.listen(this.#forwarded(this.#port))
    if (this.isCluster) this.#replicas = this.#newReplicas()
    else this.#replicas.reset()
    for (const [channel, onMessage] of this.#channels) this.#port.subscribe(channel, onMessage).catch(() => {})
    const pending = [...this.#pending]
    this.#pending.clear()
    for (const { resend, fail } of pending) this.#access.dice.pick([resend, fail, () => {}])()
    this.#events?.reconnected()
    this.#port.resubscribe()
  }

  async #find(): Promise<Node | undefined> {
    const { clock, dice, set } = this.#access
    while (!this.#isClosed) {
      await new Promise<void>((resolve) => void clock.after(dice.between(10, 300), resolve))
      const { named } = dice.pick(set.observers)
      if (!this.#access.isDown && !named.isDown && named.frozen === undefined) return named
    }
    return undefined
  }

  #open(node: Node): MemoryPort {
    node.connections.add(this.#onClosed)
    return this.#access.open(new NodeConnection(node))
  }

  async #disconnect(): Promise<void> {
    this.#node.connections.delete(this.#onClosed)
    for (const channel of this.#port.channels) await this.#port.unsubscribe(channel)
    await this.#port.close()
  }

  readonly #onClosed = (): void => void this.leave()

  /** Of the connection in use. */
  #forwarded(port: MemoryPort): PortEvents {
    const forward =
      <A extends unknown[]>(call: (...args: A) => void) =>
      (...args: A): void => {
        if (port === this.#port) call(...args)
      }
    return {
      reconnected: forward(() => {
        this.#replicas.reset()
        this.#events?.reconnected()
      }),
      subscriptionLost: forward((channel: string) => this.#events?.subscriptionLost?.(channel)),
      resubscribed: forward((channel: string, refusal?: unknown) => this.#events?.resubscribed(channel, refusal)),
    }
  }

  #newReplicas(): Replicas {
    const { clock } = this.#access
    const masterStatus = (runId: string, key: string): Promise<MasterStatus | undefined> =>
      this.isCluster ? this.#clusterStatus(key) : this.#sentinels.of(runId, addressOf(this.#node))
    return new Replicas((...command) => this.send(command, ''), { clock, isReplicated: true, masterStatus })
  }

  #sentinel(index: number): SentinelConnection {
    const { nodes } = this.#access.set
    return {
      isOpen: true,
      call: (_, what = '') => this.#ask(index, (observer) => sentinelReply(what, observer, nodes)),
      end: () => {},
    }
  }

  #clusterStatus(key: string): Promise<MasterStatus | undefined> {
    const { dice, set } = this.#access
    const index = dice.between(0, set.observers.length - 1)
    const other = (): Promise<unknown> => this.#ask(index, ({ named }) => slotsReply(named, set.nodes))
    return clusterMasterStatus(
      (...command) => this.send(command, ''),
      () => [other],
      key,
    )
  }

  async #ask(index: number, replyOf: (observer: Observer) => unknown): Promise<unknown> {
    const { clock, dice, set } = this.#access
    const travel = (): Promise<void> => new Promise((resolve) => void clock.after(dice.between(1, 5), resolve))
    await travel()
    if (this.#access.isDown || this.#access.isSilent(index)) await new Promise(() => {})
    this.wasTold = true
    const reply = replyOf(set.observers[index] as Observer)
    await travel()
    return reply
  }
}
