import { ConfigError } from '../../errors.js'
import { ownOptions } from '../../util/validate.js'
import { slotOf } from '../../wire/slots.js'
import { type Ask, standingInCluster } from '../cluster-standing.js'
import { healthy } from '../health.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { Replicas } from '../replicas.js'
import { Ticks } from '../ticks.js'
import { Channels } from './channels.js'
import { ask, askAt, Connections, type GlideLike, isCluster, LOOK_MS, Refusal, serverOf } from './client.js'

export type { GlideLike }

export interface ValkeyGlideOptions {
  /**
   * Makes another client of the same kind, to the same servers, without a callback for messages. It is called when
   * somebody first waits, for a client that only listens, and when the given client is silent, for one that replaces it;
   * what it made is closed by `client.close()`. Without it waiters ask every 250 ms, and a silent client stays.
   * In a cluster it may be deaf to Redisson for its `pubsubReconciliationIntervalMs` (3 s) after a slot has moved.
   */
  subscriber?: (() => Promise<GlideLike>) | undefined
}

export function isValkeyGlide(client: unknown): client is GlideLike {
  const candidate = client as Partial<GlideLike> | null
  return typeof candidate?.customCommand === 'function' && typeof candidate.getPubSubMessage === 'function'
}

/**
 * Use a GlideClient or GlideClusterClient that you own: Holdfast sends its commands on it, and never closes it.
 * Wake-ups need a client of their own, which glide cannot make of yours: say with `subscriber` how.
 * @throws {ConfigError} it is no such client, or one before 2.5
 */
export function valkeyGlide(client: GlideLike, options: ValkeyGlideOptions = {}): RedisPort {
  const { subscriber } = ownOptions(options, { subscriber: 1 })
  if (!isValkeyGlide(client) || typeof client.subscribeLazy !== 'function') {
    throw new ConfigError('client', undefined, 'a GlideClient or GlideClusterClient of version 2.5 or later')
  }
  if (subscriber !== undefined && typeof subscriber !== 'function') {
    throw new ConfigError('subscriber', subscriber, 'a function like () => GlideClient.createClient(options)')
  }
  const first = new GlidePort(client, subscriber)
  if (!subscriber) return first
  const reopen = async (signal: AbortSignal): Promise<RedisPort> => {
    const next = await subscriber()
    if (signal.aborted) next.close()
    signal.addEventListener('abort', () => next.close(), { once: true })
    return new GlidePort(next, subscriber, () => next.close())
  }
  return healthy(first, reopen, { advice: 'its own time-outs bring it back later' })
}

class GlidePort implements RedisPort {
  readonly isCluster: boolean
  readonly isReplicated: boolean
  readonly #client: GlideLike
  readonly #connections: Connections
  readonly #channels: Channels | undefined
  readonly #replicas = new Map<string, Server>()
  readonly #ways = new Ways()
  #looked: Promise<unknown> | undefined
  #looks: Ticks | undefined
  #events: PortEvents | undefined

  readonly #end: () => void

  constructor(client: GlideLike, subscriber: (() => Promise<GlideLike>) | undefined, end: () => void = () => {}) {
    this.#end = end
    this.isCluster = isCluster(client)
    this.isReplicated = this.isCluster
    this.#client = client
    this.#connections = new Connections(client)
    if (subscriber) this.#channels = new Channels(subscriber, this.isCluster)
  }

  async send(command: readonly string[], key: string): Promise<unknown> {
    // What connection it goes by has to be known, for `acknowledge`.
    await this.#looked
    if (!this.isCluster || this.#events?.confirmsGrants === false) return await ask(this.#client, command, key)
    const reply = ask(this.#client, command, key)
    const noted = this.#noteWay(key).catch(() => this.#ways.note(slotOf(key), undefined))
    const value = await reply
    await noted
    return value
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#confirm(key, (replicas) => replicas.acknowledge(key, timeoutMs))
  }

  fsynced(key: string, timeoutMs: number): Promise<Fsync> {
    return this.#confirm(key, (replicas) => replicas.fsynced(timeoutMs))
  }

  /** Glide does not say which server has a slot: the slot, and how often its commands went another way than before. */
  serverOf(key: string): string {
    return this.isCluster ? this.#ways.nameOf(slotOf(key)) : ''
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof Refusal
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    if (!this.#channels) {
      throw new Refusal('valkey-glide listens only with valkeyGlide(client, { subscriber }) of holdfast/valkey-glide')
    }
    await this.#channels.subscribe(channel, onMessage)
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#channels?.unsubscribe(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#channels?.listen(events)
    this.#looked = this.#connections.look().catch(() => {})
    this.#looks = new Ticks(LOOK_MS, async () => {
      const others = await this.#connections.look()
      if (others.length > 0) this.#reconnected(others)
    })
  }

  async close(): Promise<void> {
    this.#looks?.stop()
    await this.#channels?.close()
    this.#end()
  }

  async #confirm<T>(key: string, confirm: (replicas: Replicas) => Promise<T>): Promise<T> {
    const way = this.#ways.of(slotOf(key)) ?? (await this.#noteWay(key))
    const server = this.isCluster ? serverOf(way) : ''
    const entry = this.#replicas.get(server) ?? this.#replicasAt(server, key)
    entry.key = key
    const answer = await confirm(entry.replicas)
    // If it is still the same connection, what was written went by it, and so did WAIT or WAITAOF.
    const connection = await this.#noteWay(key)
    if (!this.#connections.isKnown(connection)) this.#reconnected([connection])
    return answer
  }

  /** By which connection commands for `key` go now. */
  async #noteWay(key: string): Promise<string> {
    const connection = await this.#connections.of(key)
    if (this.isCluster) this.#ways.note(slotOf(key), connection)
    return connection
  }

  #reconnected(connections: readonly string[]): void {
    // What was known of its replicas is of another server, perhaps.
    for (const one of connections) this.#replicas.delete(this.isCluster ? serverOf(one) : '')
    this.#events?.reconnected()
  }

  #replicasAt(server: string, key: string): Server {
    const call = (...command: string[]): Promise<unknown> => ask(this.#client, command, entry.key)
    const others = (masters: readonly { readonly host: string; readonly port: number }[]): Ask[] =>
      masters
        .filter(({ host, port }) => `${host}:${port}` !== server)
        .map(
          (address) =>
            (...command) =>
              askAt(this.#client, command, { type: 'routeByAddress', ...address }),
        )
    const replicas = new Replicas(
      call,
      this.isCluster ? { isReplicated: true, authority: (_, owned) => standingInCluster(call, others, owned) } : {},
    )
    const entry: Server = { replicas, key }
    this.#replicas.set(server, entry)
    return entry
  }
}

/**
 * By which connection the commands of each slot went last. While a cluster fails over, glide may change between two masters,
 * and back, so that it takes more than the present connection to know what way a command went.
 */
class Ways {
  readonly #ways = new Map<number, { connection: string | undefined; changes: number }>()

  note(slot: number, connection: string | undefined): void {
    const way = this.#ways.get(slot)
    if (!way) this.#ways.set(slot, { connection, changes: 0 })
    else if (way.connection !== connection) {
      way.connection = connection
      way.changes++
    }
  }

  of(slot: number): string | undefined {
    return this.#ways.get(slot)?.connection
  }

  nameOf(slot: number): string {
    return `${slot}/${this.#ways.get(slot)?.changes ?? 0}`
  }
}

/** One that was asked for its replicas. */
interface Server {
  readonly replicas: Replicas
  /** One of those that it owned lately: commands find their way by a key. */
  key: string
}
