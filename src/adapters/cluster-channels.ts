// Subscribes at the server that owns a channel's slot.
import { clearInterval, setInterval } from '../util/real-time.js'
import { SLOT_COUNT, slotOf } from '../wire/slots.js'
import type { PortEvents } from './port.js'

/** A subscriber connection of ours to one server of a cluster. */
export interface Listener {
  /** Subscribes as a plain and as a sharded channel: Redisson publishes in one of these ways, Holdfast in both. */
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  ping(): Promise<unknown>
  end(): unknown
}

/** The view of the client library of its cluster. */
export interface ClusterView {
  /** The address of the master that owns a slot; undefined: currently unknown. */
  ownerOf(slot: number): string | undefined
  /**
   * Connects to a master.
   * @param onMessage  called for every message on any channel of this connection
   * @param onChange  called when the connection was lost, or one of its channels has moved
   */
  open(address: string, onMessage: (channel: string, message: string) => void, onChange: () => void): Promise<Listener>
  /** Asks the cluster which server owns which slots. */
  refresh(): unknown
  isErrorReply(error: unknown): boolean
}

interface ClusterChannel {
  readonly onMessage: (message: string) => void
  /** Resolves or rejects the first SUBSCRIBE. */
  settle: ((refusal?: unknown) => void) | undefined
  /** The server where it is subscribed to, or about to be. */
  server: string | undefined
}

/** How often to check whether slots have moved, ms. */
const CHECK_MS = 500

/**
 * The channels of a cluster, each subscribed to at the master that owns its slot: sharded messages arrive only there,
 * plain ones everywhere. When a slot moves or a server dies, its channels soon move with it; events report that a
 * subscription was lost, and that it is back and messages may have been missed.
 */
export class ClusterChannels {
  readonly #view: ClusterView
  readonly #channels = new Map<string, ClusterChannel>()
  readonly #listeners = new Map<string, Promise<Listener>>()
  #events: PortEvents | undefined
  #timer: NodeJS.Timeout | undefined
  /** Empty as long as no owner is known. */
  #owners = ''

  constructor(view: ClusterView) {
    this.#view = view
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#owners = this.#currentOwners()
    this.#timer = setInterval(() => this.checkOwners(), CHECK_MS).unref()
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const settle = (refusal?: unknown): void => (refusal === undefined ? resolve() : reject(refusal))
      this.#channels.set(name, { onMessage, settle, server: undefined })
      this.#move(name)
    })
  }

  async unsubscribe(name: string): Promise<void> {
    const channel = this.#channels.get(name)
    this.#channels.delete(name)
    channel?.settle?.()
    if (channel?.server !== undefined) await this.#leave(channel.server, name)
  }

  /** Checks whether slots have another master now: then leases may be gone, and messages were missed. */
  checkOwners(): void {
    const owners = this.#currentOwners()
    if (owners !== this.#owners) {
      // A client that has just connected for the first time has lost nothing.
      const isFirst = this.#owners === ''
      this.#owners = owners
      if (!isFirst) this.#events?.reconnected()
    }
    for (const name of this.#channels.keys()) this.#move(name)
  }

  /** Sends PING on each subscriber connection. */
  async ping(): Promise<void> {
    await Promise.all([...this.#listeners.values()].map(async (listener) => await (await listener).ping()))
  }

  close(): void {
    clearInterval(this.#timer)
    for (const { settle } of this.#channels.values()) settle?.()
    this.#channels.clear()
    for (const server of [...this.#listeners.keys()]) this.#end(server)
  }

  /** Subscribes to a channel at the owner of its slot, unless it already is. */
  #move(name: string): void {
    const channel = this.#channels.get(name)
    const owner = this.#view.ownerOf(slotOf(name))
    if (!channel || owner === undefined || channel.server === owner) return
    const before = channel.server
    channel.server = owner
    if (before !== undefined) {
      this.#events?.subscriptionLost?.(name)
      void this.#leave(before, name)
    }
    this.#listenerAt(owner)
      .then((listener) => listener.subscribe(name))
      .then(
        () => {
          if (channel.settle) channel.settle()
          else if (channel.server === owner) this.#events?.resubscribed(name)
          channel.settle = undefined
        },
        (error: unknown) => this.#failed(name, channel, owner, error),
      )
  }

  /** Unsubscribes at a master, and ends the connection if this was its last channel. Never rejects. */
  async #leave(server: string, name: string): Promise<void> {
    const listener = this.#listeners.get(server)
    // It may be ended meanwhile.
    await listener?.then((opened) => opened.unsubscribe(name)).catch(() => {})
    if (this.#listeners.get(server) !== listener) return
    if (![...this.#channels.values()].some((other) => other.server === server)) this.#end(server)
  }

  #failed(name: string, channel: ClusterChannel, owner: string, error: unknown): void {
    if (this.#channels.get(name) !== channel) return // it was unsubscribed meanwhile
    const isRefused = this.#view.isErrorReply(error) && !/\b(MOVED|CLUSTERDOWN|LOADING)\b/.test(String(error))
    if (isRefused && channel.settle) {
      channel.settle(error)
      channel.settle = undefined
    } else if (isRefused) {
      this.#events?.resubscribed(name, error)
    } else if (channel.server === owner) {
      channel.server = undefined // the next check tries again
      void this.#leave(owner, name) // SUBSCRIBE may have succeeded, and SSUBSCRIBE not
      this.#view.refresh()
      // Wake the waiter: its command is redirected, and so the client library learns the new owner. node-redis learns
      // it in no other way.
      if (/\bMOVED\b/.test(String(error))) channel.onMessage('')
    }
  }

  #listenerAt(address: string): Promise<Listener> {
    const present = this.#listeners.get(address)
    if (present !== undefined) return present
    const onMessage = (name: string, message: string): void => this.#channels.get(name)?.onMessage(message)
    const opened = this.#view.open(address, onMessage, () => {
      if (this.#listeners.get(address) !== opened) return
      // Whatever has changed: subscribe again, at the current owners.
      this.#end(address)
      this.#view.refresh()
      this.checkOwners()
    })
    this.#listeners.set(address, opened)
    opened.catch(() => this.#end(address))
    return opened
  }

  #end(address: string): void {
    const listener = this.#listeners.get(address)
    this.#listeners.delete(address)
    for (const [name, channel] of this.#channels) {
      if (channel.server !== address) continue
      channel.server = undefined
      this.#events?.subscriptionLost?.(name)
    }
    void listener?.then((opened) => opened.end()).catch(() => {})
  }

  #currentOwners(): string {
    let owners = ''
    let previous: string | undefined
    for (let slot = 0; slot < SLOT_COUNT; slot++) {
      const owner = this.#view.ownerOf(slot)
      if (owner === previous) continue
      owners += `${slot} ${owner} `
      previous = owner
    }
    return owners
  }
}

/** Before Redis 7 there are no sharded channels, so nothing is published on them. */
export async function unlessUnknown(command: Promise<unknown>): Promise<void> {
  await command.catch((error: unknown) => {
    if (!/unknown command/i.test(String(error))) throw error
  })
}
