import { Worker } from 'node:worker_threads'
import { ConfigError, clientWarning } from '../errors.js'
import type { Script, ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import { type Clock, threadClock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { withoutSecrets } from '../util/secrets.js'
import type { Watched } from './renewable.js'
import type { RenewalTerms } from './renewer.js'

/** What the thread is told of a client. */
export interface Registration extends RenewalTerms {
  /** The URL or configuration to connect with, checked. */
  readonly connection: string | object
  /**
   * Words of 64 bits, in µs on `threadClock`: when to stand in, unless the client's own thread says something else before
   * that; its last sign of life; then one for each lease: -id, or when the thread last renewed it, or 0.
   */
  readonly memory: SharedArrayBuffer
  /** How long it stands in, ms. */
  readonly maxBlockMs: number
  readonly commandTimeoutMs: number
}

/** What is told to the thread. */
export type ToThread = { readonly client: number } & (
  | { readonly ward: Registration }
  | { readonly script: Script }
  | { readonly index: number; readonly id: bigint; readonly renewal: Renewal }
  | { readonly isClosed: true }
)

/** How to renew a lease. */
export interface Renewal extends Omit<ScriptCall, 'script'> {
  readonly sha1: string
  /** On `threadClock`, ms. */
  readonly until: number
}

/** What the thread answers: it is connected, cannot be yet, or Redis refused a renewal. */
export type Answer = { readonly isReady: true } | { readonly failure: Failure } | { readonly refused: Failure }
export type FromThread = Answer & { readonly client: number }

/** An error of the thread. */
export interface Failure {
  readonly message: string
  readonly code?: string
}

export const TAKE_OVER_AT = 0
export const ALIVE_AT = 1
const FIRST_PLACE = 2

/** A lease in the shared memory. */
interface Place {
  readonly index: number
  /** Of what is there now: no two are the same. */
  id: bigint
  until: number
  /** The thread may have sent a renewal of it, on a connection of its own. */
  hasStoodIn: boolean
}

const START_MS = 30_000
const LONGEST_PAUSE_MS = 30_000
/** How late a renewal of the client's own thread may be before it counts as busy, in periods. */
const PATIENCE = 1 / 4
const FIRST_PLACES = 1_024
/** So many places may there be: 64 MB, which are only used as far as they are needed. */
const MOST_PLACES = 2 ** 23

/** Those that run, by their file. */
const threads = new Map<string, Thread>()
let lastClient = 0

/** One thread, for all clients of this process that ask for it: started by the first, ended with the last. */
class Thread {
  readonly file: string
  readonly #random: Random
  readonly #standIns = new Map<number, ThreadClient>()
  #worker: Worker | undefined
  #failures = 0
  #restart: NodeJS.Timeout | undefined

  constructor(file: string, random: Random) {
    this.file = file
    this.#random = random
  }

  join(standIn: ThreadClient): void {
    this.#standIns.set(standIn.client, standIn)
    threads.set(this.file, this)
    if (this.#worker) {
      standIn.register()
      return
    }
    clearTimeout(this.#restart)
    this.#start()
  }

  async leave(standIn: ThreadClient): Promise<void> {
    this.#standIns.delete(standIn.client)
    if (this.#standIns.size > 0) return this.tell({ client: standIn.client, isClosed: true })
    threads.delete(this.file)
    clearTimeout(this.#restart)
    const worker = this.#worker
    this.#worker = undefined
    await worker?.terminate()
  }

  tell(message: ToThread): void {
    this.#worker?.postMessage(message)
  }

  #start(): void {
    let cause: unknown
    let worker: Worker
    try {
      // Plain JavaScript: no loader that the program runs under has a say in it.
      const env = { ...process.env, NODE_OPTIONS: '' }
      worker = new Worker(new URL(this.file), { execArgv: [], env, name: 'holdfast-watchdog' })
    } catch (error) {
      this.#ended(error)
      return
    }
    this.#worker = worker
    worker.unref()
    worker.on('message', (answer: FromThread) => {
      if ('isReady' in answer) this.#failures = 0
      this.#standIns.get(answer.client)?.hear(answer)
    })
    worker.on('error', (error) => {
      cause = withoutSecrets(error)
    })
    worker.on('exit', (code) => {
      if (worker === this.#worker) this.#ended(cause ?? new Error(`it exited with code ${code}`))
    })
    for (const standIn of this.#standIns.values()) standIn.register()
  }

  #ended(cause: unknown): void {
    this.#worker = undefined
    const delayMs = backoffMs(this.#failures++, 100, LONGEST_PAUSE_MS, this.#random)
    this.#restart = setTimeout(() => this.#start(), delayMs).unref()
    for (const standIn of [...this.#standIns.values()]) standIn.ended(cause)
  }
}

export interface StandInTerms extends Omit<Registration, 'memory'> {
  /** Lease of what is renewed, ms. */
  readonly leaseTimeMs: number
  /** Where `watchdog-thread` is, if not beside this file. */
  readonly file: string | undefined
}

/**
 * Lets the thread renew what a client holds while its own event loop is blocked.
 *
 * What a busy thread and the other one must know of each other stands in shared memory. The client's thread writes when it
 * will renew next. When that time has passed, the other one renews in its place, and writes for each lease when that was
 * sent, so that the first look at a hold after the block finds its true deadline.
 */
export class ThreadClient {
  readonly client = ++lastClient
  readonly #clock: Clock
  readonly #terms: StandInTerms
  readonly #onWarning: (warning: Error) => void
  readonly #onRefused: (error: unknown) => void
  readonly #thread: Thread
  readonly #memory = new SharedArrayBuffer(8 * FIRST_PLACES, { maxByteLength: 8 * MOST_PLACES })
  readonly #words = new BigInt64Array(this.#memory)
  readonly #places = new Map<Watched, Place>()
  readonly #free: number[] = []
  readonly #scripts = new Set<Script>()
  #used = FIRST_PLACE
  #lastId = 0n
  /** The last sign of life, on `threadClock`, and how far the client's clock was ahead of that then. */
  #aliveAt = 0
  #aheadMs = 0
  #takeOverAt = 0
  #starting: { resolve(): void; reject(error: unknown): void } | undefined
  #isUp = false

  /** @throws {ConfigError} the file of the thread is not known */
  constructor(
    clock: Clock,
    random: Random,
    terms: StandInTerms,
    onWarning: (warning: Error) => void,
    onRefused: (error: unknown) => void,
  ) {
    this.#clock = clock
    this.#terms = terms
    this.#onWarning = onWarning
    this.#onRefused = onRefused
    const file = terms.file ?? besideThis()
    this.#thread = threads.get(file) ?? new Thread(file, random)
  }

  /**
   * Resolves when the thread is connected to Redis.
   * @throws {ConfigError} the file of the thread cannot be loaded
   * @throws what the thread said: Redis cannot be reached, refuses the password …
   */
  async start(): Promise<void> {
    const { file } = this.#thread
    let timer: NodeJS.Timeout | undefined
    try {
      await new Promise<void>((resolve, reject) => {
        this.#starting = { resolve, reject }
        timer = setTimeout(() => reject(unusable(file, new Error(`no answer within ${START_MS} ms`))), START_MS)
        this.#thread.join(this)
      })
    } catch (error) {
      await this.close()
      throw error
    } finally {
      clearTimeout(timer)
      this.#starting = undefined
    }
  }

  async close(): Promise<void> {
    this.#places.clear()
    await this.#thread.leave(this)
  }

  /** This thread is alive, and will renew again at `dueAt`, on the client's clock. */
  expect(dueAt: number): void {
    const now = threadClock.now()
    // Later nobody could say how the clocks stood when the thread renewed.
    if (now > this.#takeOverAt) {
      for (const [lease, place] of this.#places) {
        this.catchUp(lease)
        place.hasStoodIn = true
      }
    }
    this.#aliveAt = now
    // In this order: a pause in between must not put it further ahead.
    this.#aheadMs = this.#clock.now() - threadClock.now()
    Atomics.store(this.#words, ALIVE_AT, micros(now))
    this.#takeOver(dueAt - this.#aheadMs + this.#terms.periodMs * PATIENCE)
  }

  /** From now on it is kept, for as long as the watchdog may renew it. Call it again when that may have changed. */
  watch(lease: Watched): void {
    const until = lease.renewableUntil
    if (until === 0) {
      this.forget(lease)
      return
    }
    const known = this.#places.get(lease)
    if (known?.until === until) return
    const place = known ?? this.#take()
    place.until = until
    this.#places.set(lease, place)
    // Its grant may have been long on its way: then it cannot wait for the next tick.
    const { periodMs } = this.#terms
    const latestAt = lease.leasedAt - this.#aheadMs + periodMs * (1 + PATIENCE)
    if (latestAt < this.#takeOverAt) {
      const at = Math.max(latestAt, threadClock.now() + periodMs * PATIENCE)
      if (at < this.#takeOverAt) this.#takeOver(at)
    }
    this.#tellOf(lease, place)
  }

  /** @returns whether the thread may have renewed it, so that such a renewal may be on its way */
  forget(lease: Watched): boolean {
    const known = this.#places.get(lease)
    if (!known) return false
    this.#places.delete(lease)
    Atomics.store(this.#words, known.index, 0n)
    this.#free.push(known.index)
    return known.hasStoodIn || threadClock.now() > this.#takeOverAt
  }

  /** Tell a lease that the thread renewed it while this one was busy. */
  catchUp(lease: Watched): void {
    const known = this.#places.get(lease)
    if (!known) return
    const sentAt = Number(Atomics.load(this.#words, known.index)) / 1_000
    // What was sent before the last sign of life was caught up with then. If the machine slept since, the client's clock may
    // be further ahead than it was: that makes it less, never more.
    if (sentAt > this.#aliveAt && sentAt + this.#aheadMs > lease.leasedAt) lease.renewed(sentAt + this.#aheadMs)
  }

  /** The thread is new: tell it all. */
  register(): void {
    const { leaseTimeMs, file, ...ward } = this.#terms
    this.#scripts.clear()
    this.#thread.tell({ client: this.client, ward: { ...ward, memory: this.#memory } })
    for (const [lease, place] of this.#places) this.#tellOf(lease, place)
  }

  hear(answer: Answer): void {
    if ('isReady' in answer) {
      this.#isUp = true
      this.#starting?.resolve()
    } else if ('failure' in answer) this.#starting?.reject(errorOf(answer.failure, 'the thread of the watchdog: '))
    else this.#onRefused(errorOf(answer.refused))
  }

  /** The thread ended by itself; it will be started again. */
  ended(cause: unknown): void {
    this.#starting?.reject(unusable(this.#thread.file, cause))
    for (const [lease, place] of this.#places) {
      this.catchUp(lease)
      // The next one begins anew.
      this.#mark(place)
    }
    if (!this.#isUp) return
    this.#isUp = false
    const why = cause instanceof Error ? cause.message : String(cause)
    const message =
      `The thread of the watchdog ended (${why}): until it is there again, an event loop that is blocked for a ` +
      'lease loses what it holds'
    this.#onWarning(clientWarning('WATCHDOG_THREAD_ENDED', message, { cause }))
  }

  #takeOver(at: number): void {
    this.#takeOverAt = at
    Atomics.store(this.#words, TAKE_OVER_AT, micros(at))
  }

  #take(): Place {
    const index = this.#free.pop() ?? this.#used++
    if (index >= this.#words.length) this.#memory.grow(Math.min(2 * this.#memory.byteLength, 8 * MOST_PLACES))
    const place = { index, id: 0n, until: 0, hasStoodIn: false }
    this.#mark(place)
    return place
  }

  #mark(place: Place): void {
    place.id = ++this.#lastId
    Atomics.store(this.#words, place.index, -place.id)
  }

  #tellOf(lease: Watched, { index, id, until }: Place): void {
    const { client } = this
    const { script, keys, args } = lease.renewalFor(this.#terms.leaseTimeMs)
    if (!this.#scripts.has(script)) {
      this.#scripts.add(script)
      this.#thread.tell({ client, script })
    }
    this.#thread.tell({ client, index, id, renewal: { sha1: script.sha1, keys, args, until: until - this.#aheadMs } })
  }
}

/** In whole µs, never later than it was. */
export function micros(ms: number): bigint {
  return BigInt(Math.floor(ms * 1_000))
}

function errorOf({ message, ...rest }: Failure, before = ''): Error {
  return Object.assign(new Error(before + message), rest)
}

function unusable(file: string, cause: unknown): ConfigError {
  const allowed =
    'the file of holdfast/watchdog-thread, which can be run as a thread. In a bundle say where it is: ' +
    'watchdog: { thread: new URL(…) }'
  return new ConfigError('watchdog.thread', file, allowed, { cause })
}

function besideThis(): string {
  try {
    return new URL('../watchdog-thread.js', import.meta.url).href
  } catch (cause) {
    throw unusable('', cause)
  }
}
