// holdfast/valkey-glide: a GlideClient or GlideClusterClient as a port.
import { ConfigError } from '../../errors.js'
import { ownOptions } from '../../util/validate.js'
import { keyIn, slotOf } from '../../wire/slots.js'
import { clusterMasterStatus, type SendToServer } from '../cluster-master-status.js'
import { PeriodicTask } from '../periodic-task.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { replaceWhenUnresponsive } from '../replaceable-port.js'
import { Replicas } from '../replicas.js'
import { Channels } from './channels.js'
import {
  CHECK_MS,
  type Commands,
  Connections,
  cannotSubscribe,
  type GlideLike,
  isCluster,
  loadBatches,
  openedLater,
  Refusal,
  send,
  sendTo,
} from './client.js'
import { SharedClient } from './shared-client.js'

export type { GlideLike }

export interface ValkeyGlideOptions {
  /**
   * Creates another client of the same kind, for the same servers, without a callback for messages. Called for the client
   * that carries Holdfast's commands, when a caller first waits for one that only subscribes, and when either is
   * unresponsive for one that replaces it. `client.close()` closes what it created. Without it Holdfast sends its commands
   * on the given client and refuses replies while another database is selected there, waiters poll every 250 ms, and an
   * unresponsive client is kept. In a cluster, messages of Redisson may be missed for its
   * `pubsubReconciliationIntervalMs` (3 s) after a slot has moved.
   */
  subscriber?: (() => Promise<GlideLike>) | undefined
}

export function isValkeyGlide(client: unknown): client is GlideLike {
  const candidate = client as Partial<GlideLike> | null
  return typeof candidate?.customCommand === 'function' && typeof candidate.getPubSubMessage === 'function'
}

/**
 * Uses a GlideClient or GlideClusterClient that you own, and never closes it. Holdfast needs clients of its own, which
 * glide cannot derive from yours: provide them with `subscriber`.
 * @throws {ConfigError} it is not such a client, or is older than 2.5
 * @example
 * const glide = await GlideClient.createClient(settings)
 * const client = await connect({ client: valkeyGlide(glide, { subscriber: () => GlideClient.createClient(settings) }) })
 */
export function valkeyGlide(client: GlideLike, options: ValkeyGlideOptions = {}): RedisPort {
  const { subscriber } = ownOptions(options, { subscriber: 1 })
  if (!isValkeyGlide(client) || typeof client.subscribeLazy !== 'function') {
    throw new ConfigError('client', undefined, 'a GlideClient or GlideClusterClient of version 2.5 or later')
  }
  if (subscriber !== undefined && typeof subscriber !== 'function') {
    throw new ConfigError('subscriber', subscriber, 'a function like () => GlideClient.createClient(options)')
  }
  if (!subscriber) return new GlidePort(client, undefined)
  const own = openedLater(subscriber, client)
  const reopen = async (signal: AbortSignal): Promise<RedisPort> => {
    const next = await subscriber()
    if (signal.aborted) next.close()
    signal.addEventListener('abort', () => next.close(), { once: true })
    return new GlidePort(next, subscriber, () => next.close())
  }
  const first = new GlidePort(own, subscriber, () => own.close())
  return replaceWhenUnresponsive(first, reopen, { open: () => own.open() })
}

class GlidePort implements RedisPort {
  readonly isCluster: boolean
  readonly isReplicated: boolean
  readonly #client: Commands
  readonly #connections: Connections
  readonly #channels: Channels | undefined
  /** By the connection to it: servers in networks of their own may have the same address. */
  readonly #replicas = new Map<string, Server>()
  readonly #routes = new Routes()
  #firstCheck: Promise<unknown> | undefined
  /** undefined: nobody else sends commands on the client. */
  readonly #shared: SharedClient | undefined
  #checks: PeriodicTask | undefined
  #events: PortEvents | undefined

  readonly #end: () => void

  /** @param subscriber  undefined: the client is the user's, who also sends commands on it */
  constructor(client: Commands, subscriber: (() => Promise<GlideLike>) | undefined, end: () => void = () => {}) {
    this.#end = end
    this.isCluster = isCluster(client)
    this.isReplicated = this.isCluster
    if (this.isCluster) void loadBatches()
    this.#client = client
    this.#connections = new Connections(client)
    if (subscriber) this.#channels = new Channels(subscriber, this.isCluster)
    else if (!this.isCluster) this.#shared = new SharedClient(client, this.#connections)
  }

  async send(command: readonly string[], key: string): Promise<unknown> {
    // `acknowledge` must know which connection carried the command.
    await this.#firstCheck
    if (this.#shared) return await this.#shared.send(command, key)
    if (!this.isCluster || this.#events?.confirmsGrants === false) return await send(this.#client, command, key)
    const reply = send(this.#client, command, key)
    const noted = this.#noteRoute(key).catch(() => this.#routes.note(slotOf(key), undefined))
    const value = await reply
    await noted
    return value
  }

  async masters(): Promise<readonly string[]> {
    return this.isCluster ? await this.#connections.masters() : ['']
  }

  async sendTo(master: string, command: readonly string[]): Promise<unknown> {
    if (!this.isCluster) return await send(this.#client, command, undefined)
    const colon = master.lastIndexOf(':')
    const [host, port] = [master.slice(0, colon), Number(master.slice(colon + 1))]
    return await sendTo(this.#client, command, { type: 'routeByAddress', host, port })
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#confirm(key, (replicas) => replicas.acknowledge(key, timeoutMs))
  }

  fsynced(key: string, timeoutMs: number): Promise<Fsync> {
    return this.#confirm(key, (replicas) => replicas.fsynced(timeoutMs))
  }

  /** Glide does not tell which server owns a slot: so this is the slot, and how often its connection has changed. */
  serverOf(key: string): string {
    return this.isCluster ? this.#routes.nameOf(slotOf(key)) : ''
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof Refusal
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    if (!this.#channels) {
      throw cannotSubscribe(
        'valkey-glide can subscribe only with valkeyGlide(client, { subscriber }) of holdfast/valkey-glide',
      )
    }
    await this.#channels.subscribe(channel, onMessage)
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#channels?.unsubscribe(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#channels?.listen(events)
    this.#firstCheck = this.#check()
    this.#checks = new PeriodicTask(CHECK_MS, async () => {
      const added = await this.#connections.check()
      if (added.length > 0) this.#reconnected()
    })
  }

  async #check(): Promise<void> {
    await this.#connections.check().catch(() => {})
    await this.#shared?.noteDatabase()
  }

  async close(): Promise<void> {
    this.#checks?.stop()
    await this.#channels?.close()
    this.#end()
  }

  async #confirm<T>(key: string, confirm: (replicas: Replicas) => Promise<T>): Promise<T> {
    const route = this.#routes.of(slotOf(key)) ?? (await this.#noteRoute(key))
    const entry = this.#replicas.get(route) ?? this.#replicasOn(route, key)
    entry.key = key
    const confirmation = await confirm(entry.replicas)
    // If it is still the same connection, it carried the writes as well as WAIT or WAITAOF.
    const connection = await this.#noteRoute(key)
    if (!this.#connections.isKnown(connection)) this.#reconnected()
    return confirmation
  }

  /** Records which connection currently carries commands for `key`. */
  async #noteRoute(key: string): Promise<string> {
    const connection = await this.#connections.of(key)
    if (this.isCluster) this.#routes.note(slotOf(key), connection)
    return connection
  }

  #reconnected(): void {
    for (const one of this.#replicas.keys()) if (!this.#connections.has(one)) this.#replicas.delete(one)
    this.#events?.reconnected()
  }

  #replicasOn(connection: string, key: string): Server {
    const call = (...command: string[]): Promise<unknown> => send(this.#client, command, entry.key)
    // By a key, as only glide knows under which address it reaches a server.
    const others = (slots: readonly number[]): SendToServer[] =>
      slots.map((slot) => async (...command) => {
        const [asked, reply] = await Promise.all([
          this.#connections.of(keyIn(slot)),
          send(this.#client, command, keyIn(slot)),
        ])
        // The slot has left it, and glide does not know that yet.
        if (asked === connection) throw new Error(`slot ${slot} leads to the server itself`)
        return reply
      })
    const replicas = new Replicas(
      call,
      this.isCluster
        ? { isReplicated: true, masterStatus: (_, owned) => clusterMasterStatus(call, others, owned) }
        : {},
    )
    const entry: Server = { replicas, key }
    this.#replicas.set(connection, entry)
    return entry
  }
}

/**
 * Which connection carried the last command of each slot. During a failover of a cluster, glide may switch between two
 * masters and back, so the current connection alone does not tell which one carried a command.
 */
class Routes {
  readonly #routes = new Map<number, { connection: string | undefined; changes: number }>()

  note(slot: number, connection: string | undefined): void {
    const route = this.#routes.get(slot)
    if (!route) this.#routes.set(slot, { connection, changes: 0 })
    else if (route.connection !== connection) {
      route.connection = connection
      route.changes++
    }
  }

  of(slot: number): string | undefined {
    return this.#routes.get(slot)?.connection
  }

  nameOf(slot: number): string {
    return `${slot}/${this.#routes.get(slot)?.changes ?? 0}`
  }
}

/** A server that was asked about its replicas. */
interface Server {
  readonly replicas: Replicas
  /** A key that it recently owned: commands are routed by a key. */
  key: string
}
