import { slotOf } from '../wire/slots.js'
import type { PortEvents } from './port.js'

/** A connection of ours to one server of a cluster, which only listens. */
export interface Listener {
  /** Listen, as plain and as sharded channel: Redisson publishes one way or the other, Holdfast both ways. */
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  ping(): Promise<unknown>
  end(): unknown
}

/** What the client library knows of its cluster. */
export interface ClusterView {
  /** The address of the master that has a slot; undefined: not known at the moment. */
  ownerOf(slot: number): string | undefined
  /**
   * Connect to a master.
   * @param onMessage  of any of its channels
   * @param onChange  it is gone, or a channel of it is elsewhere now
   */
  open(address: string, onMessage: (channel: string, message: string) => void, onChange: () => void): Promise<Listener>
  /** Ask the cluster who has which slots. */
  refresh(): unknown
  isErrorReply(error: unknown): boolean
}

interface Channel {
  readonly onMessage: (message: string) => void
  /** Resolves the first SUBSCRIBE, or rejects it. */
  settle: ((refusal?: unknown) => void) | undefined
  /** Where it is listened on, or about to be. */
  place: string | undefined
}

/** How often to look whether slots have moved, ms. */
const LOOK_MS = 500

/**
 * The channels of a cluster, each listened on at the master that has its slot: there sharded messages arrive, and plain ones
 * arrive everywhere. Whoever moves or dies, each channel is soon listened on where it belongs; those who wait are told
 * when it cannot be heard, and then that messages may have been missed.
 */
export class ClusterChannels {
  readonly #view: ClusterView
  readonly #channels = new Map<string, Channel>()
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
    this.#owners = this.#ownersNow()
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref()
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const settle = (refusal?: unknown): void => (refusal === undefined ? resolve() : reject(refusal))
      this.#channels.set(name, { onMessage, settle, place: undefined })
      this.#move(name)
    })
  }

  async unsubscribe(name: string): Promise<void> {
    const channel = this.#channels.get(name)
    this.#channels.delete(name)
    channel?.settle?.()
    if (channel?.place !== undefined) await this.#leave(channel.place, name)
  }

  /** See whether slots have another master now: then what was held may be gone, and messages were missed. */
  look(): void {
    const owners = this.#ownersNow()
    if (owners !== this.#owners) {
      // A client that has connected at last has lost nothing by that.
      const isFirst = this.#owners === ''
      this.#owners = owners
      if (!isFirst) this.#events?.reconnected()
    }
    for (const name of this.#channels.keys()) this.#move(name)
  }

  /** PING by each connection that listens. */
  async ping(): Promise<void> {
    await Promise.all([...this.#listeners.values()].map(async (listener) => await (await listener).ping()))
  }

  close(): void {
    clearInterval(this.#timer)
    for (const { settle } of this.#channels.values()) settle?.()
    this.#channels.clear()
    for (const place of [...this.#listeners.keys()]) this.#end(place)
  }

  /** Listen on a channel where it belongs, unless that is where it is. */
  #move(name: string): void {
    const channel = this.#channels.get(name)
    const owner = this.#view.ownerOf(slotOf(name))
    if (!channel || owner === undefined || channel.place === owner) return
    const before = channel.place
    channel.place = owner
    if (before !== undefined) {
      this.#events?.subscriptionLost?.(name)
      void this.#leave(before, name)
    }
    this.#at(owner)
      .then((listener) => listener.subscribe(name))
      .then(
        () => {
          if (channel.settle) channel.settle()
          else if (channel.place === owner) this.#events?.resubscribed(name)
          channel.settle = undefined
        },
        (error: unknown) => this.#failed(name, channel, owner, error),
      )
  }

  /** Stop listening at a master, and end the connection if it was the last channel there. Never rejects. */
  async #leave(place: string, name: string): Promise<void> {
    const listener = this.#listeners.get(place)
    // It may be ended meanwhile.
    await listener?.then((opened) => opened.unsubscribe(name)).catch(() => {})
    if (this.#listeners.get(place) !== listener) return
    if (![...this.#channels.values()].some((other) => other.place === place)) this.#end(place)
  }

  #failed(name: string, channel: Channel, owner: string, error: unknown): void {
    if (this.#channels.get(name) !== channel) return // it was given up meanwhile
    const isRefused = this.#view.isErrorReply(error) && !/\b(MOVED|CLUSTERDOWN|LOADING)\b/.test(String(error))
    if (isRefused && channel.settle) {
      channel.settle(error)
      channel.settle = undefined
    } else if (isRefused) {
      this.#events?.resubscribed(name, error)
    } else if (channel.place === owner) {
      channel.place = undefined // the next look tries again
      this.#view.refresh()
      // Whoever waits asks where it belongs, and so the client library learns it, too: node-redis in no other way.
      if (/\bMOVED\b/.test(String(error))) channel.onMessage('')
    }
  }

  #at(address: string): Promise<Listener> {
    const present = this.#listeners.get(address)
    if (present !== undefined) return present
    const onMessage = (name: string, message: string): void => this.#channels.get(name)?.onMessage(message)
    const opened = this.#view.open(address, onMessage, () => {
      if (this.#listeners.get(address) !== opened) return
      // Whatever it was: listen anew, where the channels belong now.
      this.#end(address)
      this.#view.refresh()
      this.look()
    })
    this.#listeners.set(address, opened)
    opened.catch(() => this.#end(address))
    return opened
  }

  #end(address: string): void {
    const listener = this.#listeners.get(address)
    this.#listeners.delete(address)
    for (const [name, channel] of this.#channels) {
      if (channel.place !== address) continue
      channel.place = undefined
      this.#events?.subscriptionLost?.(name)
    }
    void listener?.then((opened) => opened.end()).catch(() => {})
  }

  #ownersNow(): string {
    let owners = ''
    let previous: string | undefined
    for (let slot = 0; slot < 16_384; slot++) {
      const owner = this.#view.ownerOf(slot)
      if (owner === previous) continue
      owners += `${slot} ${owner} `
      previous = owner
    }
    return owners
  }
}

/** Before Redis 7 there are no sharded channels, and nobody publishes on them. */
export async function unlessUnknown(command: Promise<unknown>): Promise<void> {
  await command.catch((error: unknown) => {
    if (!/unknown command/i.test(String(error))) throw error
  })
}
