import assert from 'node:assert/strict'
import type { PortEvents, RedisPort } from '../../src/adapters/port.js'
import type { Script } from '../../src/lua/script.js'
import { forMany } from '../../src/lua/variants.js'
import type { FakeClock } from './fake-clock.js'
import { EFFECTS, FakeRedis, FakeReplyError } from './fake-redis.js'

/** What goes wrong with one command, or one message. */
export interface Fault {
  /** How long it takes to Redis, and the reply back, ms. */
  readonly requestMs?: number
  readonly replyMs?: number
  /** What never arrives: the promise stays open for ever. */
  readonly lost?: 'request' | 'reply' | undefined
  /** The Redis client gives up with this error after `replyMs`; unless it is lost, the request still arrives. */
  readonly failsWith?: string | undefined
  /** Redis replies with this error, and does nothing. */
  readonly errorReply?: string | undefined
  /** The connection breaks after it ran; so much later the Redis client is back and sends it a second time, ms. */
  readonly resentMs?: number | undefined
}

/** What went over the wire: `name` is that of the script, or SUBSCRIBE, UNSUBSCRIBE, or `message`. */
export interface Sent {
  readonly name: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly at: number
}

/** A connection to the model, with faults. Several of them may share one model. */
export class FakePort implements RedisPort {
  readonly redis: FakeRedis
  /** Every command, in order. */
  readonly sent: Sent[] = []
  /** Called for every command, and for every message that arrives. */
  fault: (sent: Sent) => Fault | undefined = () => undefined
  /** Messages get lost, as while the subscriber connection is broken; `resubscribe()` ends it. */
  isDeaf = false
  isClosed = false
  readonly #clock: FakeClock
  readonly #once = new Map<string, Fault[]>()
  readonly #listeners = new Map<string, (message: string) => void>()
  readonly #subscribed = new Set<string>()
  #events: PortEvents | undefined

  constructor(clock: FakeClock, redis = new FakeRedis(clock)) {
    this.#clock = clock
    this.redis = redis
    redis.connect((channel, message) => this.#receive(channel, message))
  }

  /** The channels that have a listener. */
  get channels(): string[] {
    return [...this.#listeners.keys()]
  }

  /** How many commands of this name were sent; of any name without one. */
  count(name?: string): number {
    return this.sent.filter((sent) => name === undefined || sent.name === name).length
  }

  /** What happens to the next command of this name that is not spoken for. */
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
    for (const channel of this.#listeners.keys()) this.#subscribed.add(channel)
    for (const channel of refused) this.#subscribed.delete(channel)
    for (const channel of this.#listeners.keys()) {
      this.#events?.resubscribed(channel, refused.includes(channel) ? new FakeReplyError('NOPERM') : undefined)
    }
  }

  async send(command: readonly string[], key: string): Promise<unknown> {
    const [verb, source, count, ...rest] = command
    const isText = verb === 'EVAL'
    const is = ({ sha1, text }: Script): boolean => source === (isText ? text : sha1)
    const keys = rest.slice(0, Number(count))
    const args = rest.slice(Number(count))
    assert.equal(key, keys[0])
    const call = (script: Script, ...words: [readonly string[], readonly string[]]): Promise<unknown> =>
      this.#transmit(script.name, ...words, () => this.redis.evaluate(script, isText, ...words))
    for (const [script] of EFFECTS) {
      if (is(script)) return await call(script, keys, args)
      if (is(forMany(script))) return await this.#sendTogether(keys, args, (...words) => call(script, ...words))
    }
    throw new assert.AssertionError({
      message: `a command that the model does not know: ${command.join(' ').slice(0, 100)}`,
    })
  }

  /** Calls in one script: a fault of one of them, except an error reply, is a fault of all. */
  async #sendTogether(
    keys: readonly string[],
    [keysEach, form = '', ...rest]: readonly string[],
    call: (keys: readonly string[], args: readonly string[]) => Promise<unknown>,
  ): Promise<unknown> {
    const words = [...rest]
    const shared = [...form].map((isShared) => (isShared === '1' ? words.shift() : undefined))
    const failed: number[] = []
    const replies = await Promise.all(
      Array.from({ length: keys.length / Number(keysEach) }, async (_, index) => {
        const ours = keys.slice(index * Number(keysEach), (index + 1) * Number(keysEach))
        try {
          return await call(
            ours,
            shared.map((word) => word ?? (words.shift() as string)),
          )
        } catch (error) {
          if (!(error instanceof FakeReplyError) || error.message.startsWith('NOSCRIPT')) throw error
          failed.push(index)
          return null
        }
      }),
    )
    return [failed, replies]
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof FakeReplyError
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    assert(!this.#listeners.has(channel), `${channel} already has a listener`)
    this.#listeners.set(channel, onMessage)
    await this.#transmit('SUBSCRIBE', [channel], [], () => {
      if (this.#listeners.get(channel) === onMessage) this.#subscribed.add(channel)
    })
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#listeners.delete(channel)
    this.#subscribed.delete(channel)
    this.#record('UNSUBSCRIBE', [channel], [])
  }

  listen(events: PortEvents): void {
    this.#events = events
  }

  async close(): Promise<void> {
    this.isClosed = true
  }

  async #transmit(
    name: string,
    keys: readonly string[],
    args: readonly string[],
    run: () => unknown,
  ): Promise<unknown> {
    const fault = this.#faultOf(this.#record(name, keys, args))
    const reply = this.#replyTo(fault, run)
    if (fault.failsWith === undefined) return await reply
    reply.catch(() => {})
    await this.#travel(fault.replyMs)
    throw new Error(fault.failsWith)
  }

  async #replyTo(fault: Fault, run: () => unknown): Promise<unknown> {
    await this.#travel(fault.requestMs)
    if (fault.lost === 'request') return await new Promise(() => {})
    if (fault.errorReply !== undefined) {
      await this.#travel(fault.replyMs)
      throw new FakeReplyError(fault.errorReply)
    }
    let reply = run()
    if (fault.resentMs !== undefined) {
      await this.#travel(fault.resentMs)
      this.reconnect()
      reply = run()
    }
    await this.#travel(fault.replyMs)
    if (fault.lost === 'reply') return await new Promise(() => {})
    return reply
  }

  #receive(channel: string, message: string): boolean {
    if (!this.#subscribed.has(channel) || this.isDeaf) return false
    const fault = this.#faultOf({ name: 'message', keys: [channel], args: [message], at: this.#clock.now() })
    if (fault.lost === undefined) {
      const arrive = async (): Promise<void> => {
        await this.#travel(fault.requestMs)
        if (this.#subscribed.has(channel)) this.#listeners.get(channel)?.(message)
      }
      void arrive()
    }
    return true
  }

  #record(name: string, keys: readonly string[], args: readonly string[]): Sent {
    const sent = { name, keys, args, at: this.#clock.now() }
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
