import assert from 'node:assert/strict'
import type { PortEvents, RedisPort } from '../../src/adapters/port.js'
import {
  fencedLockAcquire,
  lockAcquire,
  lockAcquireQueued,
  lockAdopt,
  lockForceRelease,
  lockForceReleaseQueued,
  lockInspect,
  lockLeaveTurnQueue,
  lockReenter,
  lockRelease,
  lockReleaseOne,
  lockReleaseQueued,
  lockRenew,
  lockRenewCapped,
} from '../../src/lua/generated.js'
import type { Script } from '../../src/lua/script.js'
import { forMany } from '../../src/lua/variants.js'
import type { FakeClock } from './fake-clock.js'

/** An error reply of Redis. */
export class FakeReplyError extends Error {}

type Effect = (redis: FakeRedis, keys: readonly string[], args: readonly string[]) => unknown

const take: Effect = (redis, [key = ''], [leaseTimeMs, holder = '']) => {
  if (redis.isHeldBy(key, holder)) redis.prolong(key, Number(leaseTimeMs))
  else if (redis.isTaken(key)) return redis.pttl(key)
  else redis.set(key, holder, 1, Number(leaseTimeMs))
  return null
}

/** What each script does, in a few words of TypeScript. */
const EFFECTS: readonly [Script, Effect][] = [
  [lockAcquire('', 0, '').script, take],
  [
    fencedLockAcquire('', '', 0, '', '').script,
    (redis, keys, args) => {
      const [key = '', tokens = ''] = keys
      const [, holder = ''] = args
      const isHeld = redis.isHeldBy(key, holder)
      const left = take(redis, keys, args)
      return left === null ? ['1', redis.token(tokens, isHeld ? 0 : 1), ''] : ['0', left]
    },
  ],
  [
    lockAcquireQueued('', '', 0, '', '', 0, '', 0, 0).script,
    (redis, keys, args) => {
      const [key = '', turnQueue = ''] = keys
      const [, , ticket = '', , inboxPrefix = '', isPoll, hasWaiters] = args
      const left = take(redis, keys, args)
      if (left === null) {
        const wasQueued = redis.leaveTurnQueue(turnQueue, ticket)
        if (isPoll === '1') redis.wakeTurnQueue(turnQueue, inboxPrefix)
        else if (wasQueued) redis.passTurn(turnQueue, inboxPrefix, ticket, 'next')
        if (hasWaiters === '1') redis.joinTurnQueue(turnQueue, ticket)
        return null
      }
      redis.joinTurnQueue(turnQueue, ticket)
      if (!redis.holders(key)[0]?.holder.includes('401dfa57:')) return [left, 0]
      return [left, redis.isFirstInTurnQueue(turnQueue, ticket) ? 1 : 2]
    },
  ],
  [
    lockReleaseQueued('', '', '', '', '', '', '', 0).script,
    (
      redis,
      [key = '', turnQueue = ''],
      [holder = '', channel = '', message = '', inboxPrefix = '', ticket = '', queueTtlMs],
    ) => {
      if (!redis.isHeldBy(key, holder)) return null
      redis.delete(key)
      if (queueTtlMs === '0') redis.leaveTurnQueue(turnQueue, ticket)
      else if (ticket !== '') redis.joinTurnQueue(turnQueue, ticket)
      return redis.passTurn(turnQueue, inboxPrefix, ticket) + redis.publish(channel, message)
    },
  ],
  [
    lockLeaveTurnQueue('', '', '', '').script,
    (redis, [key = '', turnQueue = ''], [ticket = '', inboxPrefix = '']) => {
      redis.leaveTurnQueue(turnQueue, ticket)
      redis.passTurn(turnQueue, inboxPrefix, ticket, redis.isTaken(key) ? 'next' : 'turn')
      return 1
    },
  ],
  [
    lockAdopt('', 0, '', '').script,
    (redis, [key = ''], [leaseTimeMs, from = '', holder = '']) => {
      if (!redis.isHeldBy(key, holder)) {
        if (!redis.isHeldBy(key, from)) return 0
        redis.delete(key)
        redis.set(key, holder, 1, Number(leaseTimeMs))
      }
      redis.expire(key, Number(leaseTimeMs))
      return null
    },
  ],
  [
    lockForceRelease('', '', '').script,
    (redis, [key = ''], [channel = '', message = '']) => {
      if (!redis.isTaken(key)) return 0
      redis.delete(key)
      redis.publish(channel, message)
      return 1
    },
  ],
  [
    lockForceReleaseQueued('', '', '', '', '').script,
    (redis, [key = '', turnQueue = ''], [channel = '', message = '', inboxPrefix = '']) => {
      if (!redis.isTaken(key)) return 0
      redis.delete(key)
      redis.passTurn(turnQueue, inboxPrefix, '')
      redis.publish(channel, message)
      return 1
    },
  ],
  [
    lockInspect('').script,
    (redis, [key = '']) => [
      redis.pttl(key),
      ...redis.holders(key).flatMap(({ holder, count }) => [holder, `${count}`]),
    ],
  ],
  [
    lockReenter('', 0, '', 0).script,
    (redis, [key = ''], [leaseTimeMs, holder = '', count]) => {
      if (!redis.isHeldBy(key, holder)) return 0
      redis.set(key, holder, Number(count), Math.max(redis.pttl(key), Number(leaseTimeMs)))
      return 1
    },
  ],
  [
    lockRelease('', '', '', '').script,
    (redis, [key = ''], [holder = '', channel = '', message = '']) => {
      if (!redis.isHeldBy(key, holder)) return null
      redis.delete(key)
      return redis.publish(channel, message)
    },
  ],
  [
    lockRenew([], []).script,
    (redis, keys, args) =>
      keys.map((key, index) => {
        if (!redis.isHeldBy(key, args[2 * index] ?? '')) return 0
        redis.prolong(key, Number(args[2 * index + 1]))
        return redis.pttl(key)
      }),
  ],
  [
    lockRenewCapped([], []).script,
    (redis, keys, args) =>
      keys.map((key, index) => {
        const [holder = '', leaseTimeMs, longestMs] = args.slice(3 * index)
        if (!redis.isHeldBy(key, holder)) return 0
        if (redis.pttl(key) > Number(longestMs)) redis.expire(key, Number(leaseTimeMs))
        else redis.prolong(key, Number(leaseTimeMs))
        return redis.pttl(key)
      }),
  ],
  [
    lockReleaseOne('', 0, '', 0).script,
    (redis, [key = ''], [leaseTimeMs, holder = '', count]) => {
      if (!redis.isHeldBy(key, holder)) return 0
      redis.set(key, holder, Number(count), Math.max(redis.pttl(key), Number(leaseTimeMs)))
      return 1
    },
  ],
]

/** A model of one Redis server: the lock hashes with their leases, and pub/sub. Its clock is the test's. */
export class FakeRedis {
  readonly #clock: FakeClock
  readonly #hashes = new Map<string, { fields: Map<string, number>; expiresAt: number }>()
  readonly #lines = new Map<string, string[]>()
  readonly #tokens = new Map<string, number>()
  readonly #connections = new Set<(channel: string, message: string) => boolean>()
  readonly #scripts = new Set(EFFECTS.map(([script]) => script.sha1))

  constructor(clock: FakeClock) {
    this.#clock = clock
  }

  /** Keys that exist now. */
  get keys(): string[] {
    return [...this.#hashes.keys()].filter((key) => this.isTaken(key))
  }

  isTaken(key: string): boolean {
    const hash = this.#hashes.get(key)
    if (hash && hash.expiresAt <= this.#clock.now()) this.#hashes.delete(key)
    return this.#hashes.has(key)
  }

  isHeldBy(key: string, holder: string): boolean {
    return this.isTaken(key) && this.#hashes.get(key)?.fields.has(holder) === true
  }

  holders(key: string): { holder: string; count: number }[] {
    const fields = this.isTaken(key) ? (this.#hashes.get(key)?.fields ?? new Map<string, number>()) : []
    return [...fields].map(([holder, count]) => ({ holder, count }))
  }

  pttl(key: string): number {
    const expiresAt = this.isTaken(key) ? this.#hashes.get(key)?.expiresAt : undefined
    if (expiresAt === undefined) return -2
    return expiresAt === Number.POSITIVE_INFINITY ? -1 : expiresAt - this.#clock.now()
  }

  set(key: string, holder: string, count: number, leaseTimeMs: number): void {
    const fields = (this.isTaken(key) && this.#hashes.get(key)?.fields) || new Map<string, number>()
    fields.set(holder, count)
    this.#hashes.set(key, { fields, expiresAt: 0 })
    this.expire(key, leaseTimeMs)
  }

  expire(key: string, leaseTimeMs: number): void {
    // As PEXPIRE: anything else is an error, after the HSET that stands before it.
    if (!Number.isSafeInteger(leaseTimeMs)) throw new FakeReplyError('ERR value is not an integer or out of range')
    const hash = this.#hashes.get(key)
    if (hash) hash.expiresAt = this.#clock.now() + leaseTimeMs
  }

  /** Like `expire`, but never sooner. */
  prolong(key: string, leaseTimeMs: number): void {
    if (this.pttl(key) < leaseTimeMs) this.expire(key, leaseTimeMs)
  }

  delete(key: string): void {
    this.#hashes.delete(key)
  }

  /** INCRBY. */
  token(key: string, by: number): number {
    const token = (this.#tokens.get(key) ?? 0) + by
    this.#tokens.set(key, token)
    return token
  }

  /** The tickets in a turn queue. */
  tickets(key: string): readonly string[] {
    return this.#lines.get(key) ?? []
  }

  joinTurnQueue(key: string, ticket: string): void {
    const line = this.#lines.get(key) ?? []
    if (!line.includes(ticket)) this.#lines.set(key, [...line, ticket])
  }

  /** @returns whether it stood there */
  leaveTurnQueue(key: string, ticket: string): boolean {
    const line = this.#lines.get(key) ?? []
    const others = line.filter((other) => other !== ticket)
    if (others.length > 0) this.#lines.set(key, others)
    else this.#lines.delete(key)
    return others.length < line.length
  }

  isFirstInTurnQueue(key: string, ticket: string): boolean {
    return this.#lines.get(key)?.[0] === ticket
  }

  /** Tells the first that is there, and the one after; returns how many others than `own` heard it. */
  passTurn(key: string, inboxPrefix: string, own: string, first = 'turn'): number {
    let others = 0
    let news = first
    for (const ticket of this.#lines.get(key) ?? []) {
      const heard = this.#notify(inboxPrefix, ticket, news)
      if (news === 'turn' || heard === 0) this.leaveTurnQueue(key, ticket)
      if (heard === 0) continue
      if (ticket !== own) others++
      if (news === 'next') break
      news = 'next'
    }
    return others
  }

  /** All that are there ask again. */
  wakeTurnQueue(key: string, inboxPrefix: string): void {
    const tickets = this.#lines.get(key) ?? []
    this.#lines.delete(key)
    for (const ticket of tickets) this.#notify(inboxPrefix, ticket, 'turn')
  }

  #notify(inboxPrefix: string, ticket: string, news: string): number {
    const [client, number] = ticket.split(':')
    return this.publish(`${inboxPrefix}${client}`, `${news} ${number}`)
  }

  /** FLUSHALL. */
  flush(): void {
    this.#lines.clear()
    this.#hashes.clear()
  }

  /** SCRIPT FLUSH. */
  forgetScripts(): void {
    this.#scripts.clear()
  }

  publish(channel: string, message: string): number {
    return [...this.#connections].filter((deliver) => deliver(channel, message)).length
  }

  connect(deliver: (channel: string, message: string) => boolean): void {
    this.#connections.add(deliver)
  }

  /** EVAL, or EVALSHA without a text. */
  evaluate(script: Script, isText: boolean, keys: readonly string[], args: readonly string[]): unknown {
    if (isText) this.#scripts.add(script.sha1)
    if (!this.#scripts.has(script.sha1)) throw new FakeReplyError('NOSCRIPT No matching script. Please use EVAL.')
    return EFFECTS.find(([{ sha1 }]) => sha1 === script.sha1)?.[1](this, keys, args)
  }
}

/** What goes wrong with one command, or one message. */
export interface Fault {
  /** How long it takes to Redis, and the reply back, ms. */
  readonly requestMs?: number
  readonly replyMs?: number
  /** What never arrives: the promise stays open for ever. */
  readonly lost?: 'request' | 'reply' | undefined
  /** The Redis client gives up with this error after `replyMs`; unless it is lost, the request arrives all the same. */
  readonly failsWith?: string | undefined
  /** Redis answers this error, and does nothing. */
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
  /** Asked about every command, and about every message that comes in. */
  fault: (sent: Sent) => Fault | undefined = () => undefined
  /** Messages get lost, as while the subscriber connection is broken; `resubscribe()` ends it. */
  isDeaf = false
  isClosed = false
  readonly #clock: FakeClock
  readonly #once = new Map<string, Fault[]>()
  readonly #listeners = new Map<string, (message: string) => void>()
  readonly #heard = new Set<string>()
  #events: PortEvents | undefined

  constructor(clock: FakeClock, redis = new FakeRedis(clock)) {
    this.#clock = clock
    this.redis = redis
    redis.connect((channel, message) => this.#receive(channel, message))
  }

  /** Channels that somebody listens on. */
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
    for (const channel of this.#listeners.keys()) this.#heard.add(channel)
    for (const channel of refused) this.#heard.delete(channel)
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
    const ask = (script: Script, ...words: [readonly string[], readonly string[]]): Promise<unknown> =>
      this.#transmit(script.name, ...words, () => this.redis.evaluate(script, isText, ...words))
    for (const [script] of EFFECTS) {
      if (is(script)) return await ask(script, keys, args)
      if (is(forMany(script))) return await this.#sendTogether(keys, args, (...words) => ask(script, ...words))
    }
    throw new assert.AssertionError({
      message: `a command that the model does not know: ${command.join(' ').slice(0, 100)}`,
    })
  }

  /** Calls that go together: whatever befalls one of them, but for an error reply, befalls all. */
  async #sendTogether(
    keys: readonly string[],
    [keysEach, form = '', ...rest]: readonly string[],
    ask: (keys: readonly string[], args: readonly string[]) => Promise<unknown>,
  ): Promise<unknown> {
    const words = [...rest]
    const shared = [...form].map((isShared) => (isShared === '1' ? words.shift() : undefined))
    const failed: number[] = []
    const replies = await Promise.all(
      Array.from({ length: keys.length / Number(keysEach) }, async (_, index) => {
        const ours = keys.slice(index * Number(keysEach), (index + 1) * Number(keysEach))
        try {
          return await ask(
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
    assert(!this.#listeners.has(channel), `somebody listens on ${channel} already`)
    this.#listeners.set(channel, onMessage)
    await this.#transmit('SUBSCRIBE', [channel], [], () => {
      if (this.#listeners.get(channel) === onMessage) this.#heard.add(channel)
    })
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#listeners.delete(channel)
    this.#heard.delete(channel)
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
    if (!this.#heard.has(channel) || this.isDeaf) return false
    const fault = this.#faultOf({ name: 'message', keys: [channel], args: [message], at: this.#clock.now() })
    if (fault.lost === undefined) {
      const arrive = async (): Promise<void> => {
        await this.#travel(fault.requestMs)
        if (this.#heard.has(channel)) this.#listeners.get(channel)?.(message)
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
