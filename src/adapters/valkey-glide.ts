import { ConfigError } from '../errors.js'
import { slotOf } from '../slots.js'
import { ownOptions } from '../validate.js'
import { type Ask, standingInCluster } from './cluster-standing.js'
import { healthy } from './health.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from './port.js'
import { Replicas } from './replicas.js'
import { Ticks } from './ticks.js'

/** What Holdfast uses of a GlideClient or GlideClusterClient (2.5 or later). */
export interface GlideLike {
  customCommand(args: string[], options?: { decoder?: 1; route?: Route }): Promise<unknown>
  subscribeLazy(channels: string[]): Promise<unknown>
  unsubscribeLazy(channels: string[]): Promise<unknown>
  /** Only of a cluster. */
  ssubscribeLazy?(channels: string[]): Promise<unknown>
  sunsubscribeLazy?(channels: string[]): Promise<unknown>
  getSubscriptions(): Promise<{
    readonly actualSubscriptions: Readonly<Record<number, ReadonlySet<unknown> | undefined>>
  }>
  getPubSubMessage(): Promise<{ readonly channel: unknown; readonly message: unknown }>
  close(): void
}

type Route =
  | 'allPrimaries'
  | { readonly type: 'primarySlotKey'; readonly key: string }
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number }

export interface ValkeyGlideOptions {
  /**
   * Makes another client of the same kind, to the same servers, without a callback for messages. It is called when
   * somebody first waits, for a client that only listens, and when the given client is silent, for one that replaces it;
   * what it made is closed by `client.close()`. Without it waiters ask every 250 ms, and a silent client stays.
   * In a cluster it may be deaf to Redisson for its `pubsubReconciliationIntervalMs` (3 s) after a slot has moved.
   */
  subscriber?: (() => Promise<GlideLike>) | undefined
}

/** Of glide's enums. */
const DECODE_TO_STRINGS = 1
const PLAIN = 0
const SHARDED = 2

/** How often to see whether connections are other ones than before, ms: glide has no event for it. */
const LOOK_MS = 500
/** How often to ask glide whether Redis confirmed a subscription, ms. It usually has when asked first. */
const CONFIRM_MS = 10
/** Then it is left to the looks. */
const MAX_CONFIRMS = 100
/** After so many looks that Redis answered without confirming a subscription it refuses it. Glide tries every 3 s. */
const LOOKS_UNTIL_REFUSED = 10
const NOT_CONFIRMED = 'Redis answers, but does not confirm the subscription; the log of valkey-glide says why'

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
  const { subscriber } = ownOptions(options, ['subscriber'])
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

/** The connections of a client to its masters. Redis is asked: glide tells nobody when it connects again. */
class Connections {
  readonly #client: GlideLike
  #known: ReadonlySet<string> | undefined

  constructor(client: GlideLike) {
    this.#client = client
  }

  /** @returns those that are new since the last look */
  async look(): Promise<readonly string[]> {
    const now = connectionsIn(await ask(this.#client, ['CLIENT', 'INFO'], undefined))
    const before = this.#known
    this.#known = new Set(now)
    return before === undefined ? [] : now.filter((one) => !before.has(one))
  }

  /** That by which commands for `key` go. */
  async of(key: string): Promise<string> {
    const [connection] = connectionsIn(await ask(this.#client, ['CLIENT', 'INFO'], key))
    if (connection === undefined) throw new Refusal('CLIENT INFO does not say what connection this is')
    return connection
  }

  isKnown(connection: string): boolean {
    if (this.#known?.has(connection)) return true
    this.#known = new Set(this.#known).add(connection)
    return false
  }
}

interface Channel {
  readonly onMessage: (message: string) => void
  readonly settle: (refusal?: unknown) => void
  isSettled: boolean
  /** Looks that Redis answered, without confirming it. */
  looks: number
}

/**
 * Channels, on a client that only listens. Glide subscribes again by itself after a reconnect; that is seen by the
 * connection being another one, or by channels that were missing for a while.
 */
class Channels {
  readonly #make: () => Promise<GlideLike>
  readonly #isCluster: boolean
  readonly #channels = new Map<string, Channel>()
  readonly #leaving = new Map<string, Promise<void>>()
  #isSharded: boolean
  #subscriber: Promise<Subscriber> | undefined
  #state: Promise<Heard> | undefined
  /** How often to say that messages may be missing: twice after a reconnect, as glide may learn of it after us. */
  #untold = 0
  #isClosed = false
  #events: PortEvents | undefined
  #looks: Ticks | undefined

  constructor(make: () => Promise<GlideLike>, isClusterWanted: boolean) {
    this.#make = make
    this.#isCluster = isClusterWanted
    this.#isSharded = isClusterWanted
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#looks = new Ticks(LOOK_MS, () => this.#look().catch(() => this.#lost(this.#channels.keys())))
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const channel: Channel = {
        onMessage,
        settle(refusal) {
          channel.isSettled = true
          if (refusal === undefined) resolve()
          else reject(refusal)
        },
        isSettled: false,
        looks: 0,
      }
      this.#channels.get(name)?.settle()
      this.#channels.set(name, channel)
      this.#join(name, channel).catch((error: unknown) => {
        if (error instanceof Refusal) this.#refused(name, channel, error) // else the looks go on trying
      })
    })
  }

  async unsubscribe(name: string): Promise<void> {
    this.#channels.get(name)?.settle()
    this.#channels.delete(name)
    if (!this.#subscriber || this.#leaving.has(name)) return
    const left = this.#leave(name, this.#subscriber).catch(() => {})
    this.#leaving.set(name, left)
    await left
    this.#leaving.delete(name)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#looks?.stop()
    for (const { settle } of this.#channels.values()) settle()
    this.#channels.clear()
    const subscriber = this.#subscriber
    this.#subscriber = undefined
    // It may still be connecting: then it is closed when it is there.
    void subscriber?.then(({ client }) => client.close()).catch(() => {})
  }

  async #join(name: string, channel: Channel): Promise<void> {
    // Else glide would still say that the channel is heard.
    await this.#leaving.get(name)
    if (this.#channels.get(name) !== channel) return
    const subscriber = await this.#open()
    if (this.#channels.get(name) !== channel) return
    await this.#ask(name, subscriber)
    for (let tries = 0; tries < MAX_CONFIRMS && this.#channels.get(name) === channel; tries++) {
      const { all } = await this.#heard(subscriber.client)
      if (all.has(name)) return channel.settle()
      await pause(CONFIRM_MS)
    }
  }

  /** The blocking ways to subscribe would ask thousands of times a second what Redis refuses. */
  async #ask(name: string, { client, asked }: Subscriber): Promise<void> {
    asked.add(name)
    try {
      await Promise.all([client.subscribeLazy([name]), this.#isSharded && client.ssubscribeLazy?.([name])])
    } catch (error) {
      asked.delete(name)
      throw error
    }
  }

  async #leave(name: string, opening: Promise<Subscriber>): Promise<void> {
    const { client, asked } = await opening
    if (this.#channels.has(name) || this.#isClosed) return
    asked.delete(name)
    await Promise.all([client.unsubscribeLazy([name]), this.#isSharded && client.sunsubscribeLazy?.([name])])
    for (let tries = 0; tries < MAX_CONFIRMS && !this.#isClosed; tries++) {
      const { any } = await this.#heard(client)
      if (!any.has(name)) return
      await pause(CONFIRM_MS)
    }
  }

  #open(): Promise<Subscriber> {
    this.#subscriber ??= this.#make().then(async (client) => {
      if (this.#isClosed) {
        client.close()
        throw new Error('closed meanwhile')
      }
      if (isCluster(client) !== this.#isCluster) {
        client.close()
        const wanted = this.#isCluster ? 'a GlideClusterClient' : 'a GlideClient'
        throw new Refusal(`the subscriber of valkeyGlide has to make ${wanted}, like the other client`)
      }
      void this.#hear(client)
      const connections = new Connections(client)
      await connections.look().catch(() => {}) // else the first look would not know that it is another one
      return { client, connections, asked: new Set() }
    })
    const opening = this.#subscriber
    opening.catch(() => {
      if (this.#subscriber === opening) this.#subscriber = undefined // the next look tries again
    })
    return opening
  }

  async #hear(client: GlideLike): Promise<void> {
    try {
      for (;;) {
        const { channel, message } = await client.getPubSubMessage()
        this.#channels.get(String(channel))?.onMessage(String(message))
      }
    } catch (error) {
      if (this.#isClosed) return
      this.#subscriber = undefined // closed by somebody else: the next look opens another one
      if ((error as Error).name !== 'ConfigurationError') return
      client.close()
      const refusal = new Refusal('the subscriber of valkeyGlide has a callback for messages', { cause: error })
      for (const [name, channel] of this.#channels) this.#refused(name, channel, refusal)
    }
  }

  /** Keep what is listened on in step with what is wanted, and tell when messages are or may have been missed. */
  async #look(): Promise<void> {
    if (this.#channels.size === 0) return
    const subscriber = await this.#open()
    for (const name of this.#channels.keys()) {
      if (subscriber.asked.has(name) || this.#leaving.has(name)) continue
      await this.#ask(name, subscriber)
      this.#untold = 1
    }
    const others = await subscriber.connections.look()
    const { all, any } = await this.#heard(subscriber.client)
    const missing: string[] = []
    for (const [name, channel] of this.#channels) {
      if (this.#leaving.has(name)) continue
      if (all.has(name)) channel.settle()
      else if (channel.isSettled) missing.push(name)
      else if (++channel.looks >= LOOKS_UNTIL_REFUSED) {
        if (any.has(name)) await this.#doWithoutSharded(subscriber)
        else this.#refused(name, channel, new Refusal(NOT_CONFIRMED))
      }
    }
    if (others.length > 0) {
      this.#lost(this.#channels.keys())
      this.#untold = 2
    }
    if (missing.length > 0) return this.#lost(missing)
    if (this.#untold === 0) return
    this.#untold--
    for (const name of this.#channels.keys()) this.#events?.resubscribed(name)
  }

  /** Nothing is heard there for now. */
  #lost(names: Iterable<string>): void {
    for (const name of names) this.#events?.subscriptionLost?.(name)
    this.#untold = Math.max(this.#untold, 1)
  }

  #refused(name: string, channel: Channel, why: unknown): void {
    if (channel.isSettled || this.#channels.get(name) !== channel) return
    channel.settle(why)
    void this.unsubscribe(name)
  }

  /** Before Redis 7 there are no sharded channels, and nobody publishes on them. */
  async #doWithoutSharded({ client, asked }: Subscriber): Promise<void> {
    this.#isSharded = false
    await client.sunsubscribeLazy?.([...asked])
  }

  /** The channels that Redis confirmed. One question serves all who ask meanwhile. */
  #heard(client: GlideLike): Promise<Heard> {
    this.#state ??= this.#confirmed(client).finally(() => {
      this.#state = undefined
    })
    return this.#state
  }

  async #confirmed(client: GlideLike): Promise<Heard> {
    const { actualSubscriptions } = await client.getSubscriptions()
    const plain = new Set([...(actualSubscriptions[PLAIN] ?? [])].map(String))
    if (!this.#isSharded) return { all: plain, any: plain }
    const sharded = new Set([...(actualSubscriptions[SHARDED] ?? [])].map(String))
    return { all: new Set([...plain].filter((name) => sharded.has(name))), any: new Set([...plain, ...sharded]) }
  }
}

/** What Redis confirmed. */
interface Heard {
  /** In each way that was asked for. */
  readonly all: ReadonlySet<string>
  /** In one way at least. */
  readonly any: ReadonlySet<string>
}

interface Subscriber {
  readonly client: GlideLike
  readonly connections: Connections
  /** The channels that glide was told to listen on. */
  readonly asked: Set<string>
}

/** What Redis refused, in its own words: glide has words of its own for most of them. */
class Refusal extends Error {
  override readonly name = 'ReplyError'
}

/** Where glide's word is not Redis' one in another spelling. */
const WORDS: Readonly<Record<string, string>> = {
  ResponseError: 'ERR',
  ExecAbortError: 'EXECABORT',
  BusyLoadingError: 'LOADING',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
}

async function ask(client: GlideLike, command: readonly string[], key: string | undefined): Promise<unknown> {
  if (!isCluster(client)) return await askAt(client, command)
  return await askAt(client, command, key === undefined ? 'allPrimaries' : { type: 'primarySlotKey', key })
}

async function askAt(client: GlideLike, command: readonly string[], route?: Route): Promise<unknown> {
  const options: { decoder: 1; route?: Route } = { decoder: DECODE_TO_STRINGS, ...(route ? { route } : {}) }
  try {
    return await client.customCommand(command as string[], options)
  } catch (error) {
    throw inRedisWords(error)
  }
}

/** An error reply as Redis gave it; any other error as it is. */
function inRedisWords(error: unknown): unknown {
  // Time-outs and lost connections are subclasses.
  if (!(error instanceof Error) || error.name !== 'RequestError') return error
  const known = /^An error was signalled by the server: - (\w+): ?(.*)$/s.exec(error.message)
  const [, word, text] = known ?? /^([A-Z][A-Z\d_]*)(?:: (.*))?$/s.exec(error.message) ?? []
  if (word === undefined) return error
  const own = known ? (WORDS[word] ?? word.toUpperCase()) : word
  return new Refusal(text ? `${own} ${text}` : own, { cause: error })
}

function isCluster(client: GlideLike): boolean {
  return typeof client.ssubscribeLazy === 'function'
}

/** Of replies of CLIENT INFO. The id alone is given again after a restart. */
function connectionsIn(reply: unknown): string[] {
  return JSON.stringify(reply).match(/\bid=\d+ addr=\S+ laddr=\S+/g) ?? []
}

function serverOf(connection: string): string {
  return /laddr=(\S+)/.exec(connection)?.[1] ?? ''
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => setTimeout(resolve, ms).unref())
}
