// A connection to the Redis in memory, with faults.
import { AsyncResource } from 'node:async_hooks'
import type { PortEvents, RedisPort } from '../adapters/port.js'
import { sha1Of } from '../platform.js'
import type { Clock } from '../util/clock.js'
import { ReplyError } from './engine.js'
import { knownScript, type MemoryRedis } from './memory-redis.js'

/** A fault of one command, or one message. */
export interface Fault {
  /** How long the request takes to Redis, ms. */
  readonly requestMs?: number | undefined
  /** How long the reply takes back, ms. */
  readonly replyMs?: number | undefined
  /** The part that never arrives: the promise stays pending forever. */
  readonly lost?: 'request' | 'reply' | undefined
  /** The Redis client gives up with this error after `replyMs`; unless the request is lost, it arrives all the same. */
  readonly failsWith?: string | undefined
  /** Redis replies with this error, and does nothing. */
  readonly errorReply?: string | undefined
  /** The connection breaks after the command has run; the client reconnects and resends it after this many ms. */
  readonly resentMs?: number | undefined
}

/** A command or message that went over the wire. */
export interface Sent {
  /** The name of the script, such as `lock/acquire`; a command such as SUBSCRIBE, UNSUBSCRIBE; or `message`. */
  readonly name: string
  /** The keys, or the channel. */
  readonly keys: readonly string[]
  /** The other arguments, or the text of the message. */
  readonly args: readonly string[]
  /** When it was sent, ms on the clock. */
  readonly at: number
}

type Call = Pick<Sent, 'name' | 'keys' | 'args'>
/** The server of a connection. `execute` may return a promise of the reply. */
export type Server = Pick<MemoryRedis, 'execute' | 'connect'>

/** A connection to a `MemoryRedis`, with faults. Several of them may share one. */
export class MemoryPort implements RedisPort {
  readonly isOneServer = true
  /** Every command, in order; the calls of a batch one by one. */
  readonly sent: Sent[] = []
  /** Called for every command that is sent, and for every message that arrives. */
  fault: (sent: Sent) => Fault | undefined = () => undefined
  /** Messages get lost, as while the subscriber connection is broken; `resubscribe()` ends it. */
  isDeaf = false
  /** No request gets through, and no reply to an earlier one. */
  isDisconnected = false
  isClosed = false
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #redis: Server
  readonly #disconnect: () => void
  readonly #once = new Map<string, Fault[]>()
  readonly #listeners = new Map<string, (message: string) => void>()
  readonly #confirmed = new Set<string>()
  /** Channels whose SUBSCRIBE failed with an error reply. */
  readonly #refused = new Set<string>()
  /** Messages arrive in the context of the connection, and not in that of their publisher. */
  readonly #context = new AsyncResource('HoldfastMemoryPort', { requireManualDestroy: true })
  #events: PortEvents | undefined

  constructor(clock: Pick<Clock, 'now' | 'after'>, redis: Server) {
    this.#clock = clock
    this.#redis = redis
    this.#disconnect = redis.connect((channel, message, isSharded) => !isSharded && this.#receive(channel, message))
  }

  /** Channels with a listener. */
  get channels(): string[] {
    return [...this.#listeners.keys()]
  }

  /** Channels that Redis has confirmed. */
  get confirmedChannels(): string[] {
    return this.isDeaf ? [] : [...this.#confirmed]
  }

  /** How many commands of this name were sent; of any name without one. */
  count(name?: string): number {
    return this.sent.filter((sent) => name === undefined || sent.name === name).length
  }

  /** Applies a fault to the next command of this name that has none yet. */
  once(name: string, fault: Fault): void {
    this.#once.set(name, [...(this.#once.get(name) ?? []), fault])
  }

  /** The command connection was lost and is there again. */
  reconnect(): void {
    this.#events?.reconnected()
  }

  /** The subscriber connection was lost, and the port says so. */
  loseSubscriber(): void {
    this.isDeaf = true
    for (const channel of this.#listeners.keys()) this.#events?.subscriptionLost?.(channel)
  }

  /** The subscriber connection was lost and is there again; Redis may refuse some of the channels. */
  resubscribe(...refused: readonly string[]): void {
    this.isDeaf = false
    for (const channel of this.#listeners.keys()) this.#confirmed.add(channel)
    for (const channel of refused) this.#confirmed.delete(channel)
    for (const channel of this.#listeners.keys()) {
      this.#events?.resubscribed(channel, refused.includes(channel) ? new ReplyError('NOPERM') : undefined)
    }
  }

  async send(command: readonly string[], key: string): Promise<unknown> {
    const calls = callsOf(command)
    if (calls.some(({ name, keys }) => name.includes('/') && keys.length === 0) || (calls[0]?.keys[0] ?? key) !== key) {
      throw new Error(`the command ${command.slice(0, 2).join(' ').slice(0, 100)} is not about the key ${key}`)
    }
    return await this.#transmit(calls, () => this.#redis.execute(command))
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof ReplyError
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    if (this.#listeners.has(channel) && !this.#refused.delete(channel)) {
      throw new Error(`${channel} has a listener already`)
    }
    this.#listeners.set(channel, onMessage)
    const subscribed = this.#transmit([{ name: 'SUBSCRIBE', keys: [channel], args: [] }], () => {
      if (this.#listeners.get(channel) === onMessage) this.#confirmed.add(channel)
    })
    await subscribed.catch((error: unknown) => {
      if (this.isErrorReply(error)) this.#refused.add(channel)
      throw error
    })
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#listeners.delete(channel)
    this.#refused.delete(channel)
    this.#confirmed.delete(channel)
    this.#record({ name: 'UNSUBSCRIBE', keys: [channel], args: [] })
  }

  listen(events: PortEvents): void {
    this.#events = events
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.#disconnect()
    this.#context.emitDestroy()
  }

  async #transmit(calls: readonly Call[], run: () => unknown): Promise<unknown> {
    const fault = worst(calls.map((call) => this.#faultOf(this.#record(call))))
    const reply = this.#replyTo(fault, run)
    if (fault.failsWith === undefined) return await reply
    reply.catch(() => {})
    await this.#travel(fault.replyMs)
    throw new Error(fault.failsWith)
  }

  async #replyTo(fault: Fault, run: () => unknown): Promise<unknown> {
    await this.#travel(fault.requestMs)
    if (fault.lost === 'request' || this.isDisconnected) return await new Promise(() => {})
    if (fault.errorReply !== undefined) {
      await this.#travel(fault.replyMs)
      throw new ReplyError(fault.errorReply)
    }
    let reply = attempt(run)
    if (fault.resentMs !== undefined) {
      await this.#travel(fault.resentMs)
      this.reconnect()
      reply = attempt(run)
    }
    await this.#travel(fault.replyMs)
    if (fault.lost === 'reply' || this.isDisconnected) return await new Promise(() => {})
    return reply()
  }

  #receive(channel: string, message: string): boolean {
    if (!this.#confirmed.has(channel) || this.isDeaf) return false
    const fault = this.#faultOf({ name: 'message', keys: [channel], args: [message], at: this.#clock.now() })
    if (fault.lost === undefined) void this.#deliver(channel, message, fault.requestMs)
    return true
  }

  /** Never at once: no listener runs inside a script. */
  async #deliver(channel: string, message: string, afterMs: number | undefined): Promise<void> {
    await this.#travel(afterMs)
    if (!this.#confirmed.has(channel)) return
    this.#context.runInAsyncScope(() => this.#listeners.get(channel)?.(message))
  }

  #record(call: Call): Sent {
    const sent = { ...call, at: this.#clock.now() }
    this.sent.push(sent)
    return sent
  }

  #faultOf(sent: Sent): Fault {
    return this.#once.get(sent.name)?.shift() ?? this.fault(sent) ?? {}
  }

  async #travel(ms: number | undefined): Promise<void> {
    if (ms !== undefined) await new Promise<void>((resolve) => void this.#clock.after(ms, resolve))
  }
}

/** Runs a command now; what it replied, or threw, is for later. */
function attempt(run: () => unknown): () => unknown {
  try {
    const reply = run()
    return () => reply
  } catch (error) {
    return () => {
      throw error
    }
  }
}

/** Calls that go together: whatever befalls one of them befalls all. */
function worst(faults: readonly Fault[]): Fault {
  const [first = {}] = faults
  if (faults.length === 1) return first
  const longest = (name: 'requestMs' | 'replyMs' | 'resentMs'): number | undefined =>
    faults.reduce<number | undefined>(
      (most, { [name]: ms }) => (ms === undefined ? most : Math.max(ms, most ?? 0)),
      undefined,
    )
  const any = <N extends keyof Fault>(name: N): Fault[N] => faults.find((fault) => fault[name] !== undefined)?.[name]
  return {
    requestMs: longest('requestMs'),
    replyMs: longest('replyMs'),
    lost: faults.some(({ lost }) => lost === 'request') ? 'request' : any('lost'),
    failsWith: any('failsWith'),
    errorReply: any('errorReply'),
    resentMs: longest('resentMs'),
  }
}

/** The calls of a command, by name; those of a batch one by one. */
function callsOf([verb = '', source = '', count, ...words]: readonly string[]): Call[] {
  const known = /^EVAL(SHA)?$/i.test(verb) ? knownScript(verb.length === 4 ? sha1Of(source) : source) : undefined
  if (!known) return [{ name: verb, keys: [], args: [source, ...(count === undefined ? [] : [count]), ...words] }]
  const { name } = known.script
  const [keys, args] = [words.slice(0, Number(count)), words.slice(Number(count), known.isInTime ? -2 : undefined)]
  if (!known.isBatch) return [{ name, keys, args }]
  // As in variants.ts.
  const [keysEach, form = '', ...rest] = args
  const shared = [...form].map((isShared) => (isShared === '1' ? rest.shift() : undefined))
  return Array.from({ length: keys.length / Number(keysEach) }, (_, index) => ({
    name,
    keys: keys.slice(index * Number(keysEach), (index + 1) * Number(keysEach)),
    args: shared.map((word) => word ?? (rest.shift() as string)),
  }))
}
