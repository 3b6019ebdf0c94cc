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

/** What each script does, in TypeScript. */
export const EFFECTS: readonly [Script, Effect][] = [
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
  readonly #turnQueues = new Map<string, string[]>()
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
    // As PEXPIRE: anything else is an error, after the HSET before it.
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
    return this.#turnQueues.get(key) ?? []
  }

  joinTurnQueue(key: string, ticket: string): void {
    const queue = this.#turnQueues.get(key) ?? []
    if (!queue.includes(ticket)) this.#turnQueues.set(key, [...queue, ticket])
  }

  /** @returns whether it was in the queue */
  leaveTurnQueue(key: string, ticket: string): boolean {
    const queue = this.#turnQueues.get(key) ?? []
    const others = queue.filter((other) => other !== ticket)
    if (others.length > 0) this.#turnQueues.set(key, others)
    else this.#turnQueues.delete(key)
    return others.length < queue.length
  }

  isFirstInTurnQueue(key: string, ticket: string): boolean {
    return this.#turnQueues.get(key)?.[0] === ticket
  }

  /** Notifies the first subscribed client, and the next one. @returns how many of them are not `own` */
  passTurn(key: string, inboxPrefix: string, own: string, first = 'turn'): number {
    let others = 0
    let news = first
    for (const ticket of this.#turnQueues.get(key) ?? []) {
      const receivers = this.#notify(inboxPrefix, ticket, news)
      if (news === 'turn' || receivers === 0) this.leaveTurnQueue(key, ticket)
      if (receivers === 0) continue
      if (ticket !== own) others++
      if (news === 'next') break
      news = 'next'
    }
    return others
  }

  /** Makes all queued clients request the lock again. */
  wakeTurnQueue(key: string, inboxPrefix: string): void {
    const tickets = this.#turnQueues.get(key) ?? []
    this.#turnQueues.delete(key)
    for (const ticket of tickets) this.#notify(inboxPrefix, ticket, 'turn')
  }

  #notify(inboxPrefix: string, ticket: string, news: string): number {
    const [client, number] = ticket.split(':')
    return this.publish(`${inboxPrefix}${client}`, `${news} ${number}`)
  }

  /** FLUSHALL. */
  flush(): void {
    this.#turnQueues.clear()
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
