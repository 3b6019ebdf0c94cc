// The client's side of the watchdog thread.
import { Worker } from 'node:worker_threads'
import { ConfigError } from '../errors.js'
import type { Script } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import { type Clock, threadClock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { withoutSecrets } from '../util/secrets.js'
import { shared } from '../util/shared.js'
import { watchdogThreadEnded } from '../warnings.js'
import type { Watched } from './renewable.js'
import {
  ALIVE_AT,
  type Failure,
  FIRST_SLOT,
  type FromThread,
  micros,
  type Registration,
  type SentToThread,
  TAKE_OVER_AT,
  type ThreadStatus,
  type ToThread,
} from './thread-protocol.js'

/** The slot of a lease in the shared memory. */
interface Slot {
  readonly index: number
  /** The id of the present occupant; no id is ever used twice. */
  id: bigint
  until: number
  /** Whether the thread may have renewed the lease, on a connection of its own. */
  mayHaveBeenRenewed: boolean
}

const START_MS = 30_000
const LONGEST_PAUSE_MS = 30_000
/** How late a renewal of the client's own thread may be before the thread takes over, in periods. */
const GRACE = 1 / 4
const INITIAL_WORDS = 1_024
/** 64 MB, of which only as much is used as is needed. */
const MAX_WORDS = 2 ** 23

/** A thread that runs. */
export interface RunningThread {
  post(message: ToThread): void
  end(): Promise<unknown>
}

/** How the client's side sees the thread; replaced by the simulation, which has no threads. */
export interface ThreadSeams {
  /** A clock that the thread shares. */
  readonly clock: Clock
  /** @throws the file cannot be loaded */
  start(file: string, onMessage: (message: FromThread) => void, onEnd: (cause: unknown) => void): RunningThread
}

const THREADS: ThreadSeams = {
  clock: threadClock,
  start(file, onMessage, onEnd) {
    let cause: unknown
    // The thread is plain JavaScript: loaders of the program must not affect it.
    const env = { ...process.env, NODE_OPTIONS: '' }
    const worker = new Worker(new URL(file), { execArgv: [], env, name: 'holdfast-watchdog' })
    worker.unref()
    worker.on('message', onMessage)
    worker.on('error', (error) => {
      cause = withoutSecrets(error)
    })
    worker.on('exit', (code) => onEnd(cause ?? new Error(`it exited with code ${code}`)))
    const post = (message: ToThread): void =>
      worker.postMessage({ ...message, sentAt: threadClock.now() } satisfies SentToThread)
    return { post, end: () => worker.terminate() }
  },
}

/** The running threads of this process, by their file, and the last id of a client. */
const running = shared('threads.1', () => ({ byFile: new Map<string, Thread>(), lastClient: 0 }))

/** The watchdog thread of this process: the first client that wants it starts it, the last one to close ends it. */
class Thread {
  readonly file: string
  readonly #random: Random
  readonly #clients = new Map<number, ThreadClient>()
  readonly #seams: ThreadSeams
  #thread: RunningThread | undefined
  #failures = 0
  #cancelRestart: (() => void) | undefined

  constructor(file: string, random: Random, seams: ThreadSeams) {
    this.file = file
    this.#random = random
    this.#seams = seams
  }

  join(client: ThreadClient): void {
    this.#clients.set(client.id, client)
    running.byFile.set(this.file, this)
    if (this.#thread) {
      client.register()
      return
    }
    this.#cancelRestart?.()
    this.#start()
  }

  async leave({ id }: ThreadClient): Promise<void> {
    this.#clients.delete(id)
    if (this.#clients.size > 0) return this.send({ client: id, isClosed: true })
    running.byFile.delete(this.file)
    this.#cancelRestart?.()
    const thread = this.#thread
    this.#thread = undefined
    await thread?.end()
  }

  send(message: ToThread): void {
    this.#thread?.post(message)
  }

  #start(): void {
    try {
      const thread = this.#seams.start(
        this.file,
        (status) => {
          if ('isReady' in status) this.#failures = 0
          this.#clients.get(status.client)?.receive(status)
        },
        (cause) => {
          if (thread === this.#thread) this.#ended(cause)
        },
      )
      this.#thread = thread
    } catch (error) {
      this.#ended(error)
      return
    }
    for (const client of this.#clients.values()) client.register()
  }

  #ended(cause: unknown): void {
    this.#thread = undefined
    const delayMs = backoffMs(this.#failures++, 100, LONGEST_PAUSE_MS, this.#random)
    this.#cancelRestart = this.#seams.clock.after(delayMs, () => this.#start(), false)
    for (const client of [...this.#clients.values()]) client.ended(cause)
  }
}

export interface ThreadTerms extends Omit<Registration, 'memory'> {
  /** The lease of each renewal, ms. */
  readonly leaseTimeMs: number
  /** The URL of the file of `watchdog-thread`. */
  readonly file: string
}

/**
 * The client's side of the watchdog thread, which renews the leases of a client while the event loop of the client is
 * blocked.
 *
 * The client writes into shared memory when it will renew next. Once that time has passed, the thread renews instead, and
 * writes for each lease when the renewal was sent. After the block the first access to a hold finds its true deadline there.
 */
export class ThreadClient {
  readonly id = ++running.lastClient
  readonly #clock: Clock
  readonly #threadClock: Clock
  readonly #terms: ThreadTerms
  readonly #onWarning: (warning: Error) => void
  readonly #onRefused: (error: unknown) => void
  readonly #thread: Thread
  readonly #memory = new SharedArrayBuffer(8 * INITIAL_WORDS, { maxByteLength: 8 * MAX_WORDS })
  readonly #words = new BigInt64Array(this.#memory)
  readonly #slots = new Map<Watched, Slot>()
  readonly #freeSlots: number[] = []
  readonly #scripts = new Set<Script>()
  #used = FIRST_SLOT
  #lastId = 0n
  /** The last sign of life, on `threadClock`, and how far the client's clock was ahead of `threadClock` then. */
  #aliveAt = 0
  #aheadMs = 0
  #takeOverAt = 0
  #starting: { resolve(): void; reject(error: unknown): void } | undefined
  #isUp = false

  constructor(
    clock: Clock,
    random: Random,
    terms: ThreadTerms,
    onWarning: (warning: Error) => void,
    onRefused: (error: unknown) => void,
    seams = THREADS,
  ) {
    this.#clock = clock
    this.#threadClock = seams.clock
    this.#terms = terms
    this.#onWarning = onWarning
    this.#onRefused = onRefused
    this.#thread = running.byFile.get(terms.file) ?? new Thread(terms.file, random, seams)
  }

  /**
   * Resolves when the thread is connected to Redis.
   * @throws {ConfigError} the file of the thread cannot be loaded
   * @throws the error of the thread: Redis is unreachable, rejects the password …
   */
  async start(): Promise<void> {
    const tooLate = (): void => this.#cannotStart(new Error(`it did not start within ${START_MS} ms`))
    const cancelTimer = this.#threadClock.after(START_MS, tooLate)
    try {
      await new Promise<void>((resolve, reject) => {
        this.#starting = { resolve, reject }
        this.#thread.join(this)
      })
    } catch (error) {
      await this.close()
      throw error
    } finally {
      cancelTimer()
      this.#starting = undefined
    }
  }

  async close(): Promise<void> {
    this.#slots.clear()
    await this.#thread.leave(this)
  }

  /** Signals that the client is alive, and will renew again at `dueAt`, on the client's clock. */
  heartbeat(dueAt: number): void {
    const now = this.#threadClock.now()
    // Now, before `#aheadMs` changes: the times of the thread refer to the old difference of the clocks.
    if (now > this.#takeOverAt) {
      for (const [lease, slot] of this.#slots) {
        this.catchUp(lease)
        slot.mayHaveBeenRenewed = true
      }
    }
    this.#aliveAt = now
    // In this order: a pause in between must not increase the difference.
    this.#aheadMs = this.#clock.now() - this.#threadClock.now()
    Atomics.store(this.#words, ALIVE_AT, micros(now))
    this.#setTakeOverAt(dueAt - this.#aheadMs + this.#terms.periodMs * GRACE)
  }

  /** The thread renews this lease for as long as the watchdog may. Call it again when that may have changed. */
  watch(lease: Watched): void {
    const until = lease.renewableUntil
    if (until === 0) {
      this.unwatch(lease)
      return
    }
    const known = this.#slots.get(lease)
    if (known?.until === until) return
    const slot = known ?? this.#allocate()
    slot.until = until
    this.#slots.set(lease, slot)
    // If the grant took long to arrive, the lease cannot wait for the next tick.
    const { periodMs } = this.#terms
    const latestAt = lease.leasedAt - this.#aheadMs + periodMs * (1 + GRACE)
    const at = Math.max(latestAt, this.#threadClock.now() + periodMs * GRACE)
    this.#setTakeOverAt(Math.min(this.#takeOverAt, at))
    this.#sendRenewal(lease, slot)
  }

  /** @returns whether the thread may have renewed it, so that a renewal may still be in flight */
  unwatch(lease: Watched): boolean {
    const known = this.#slots.get(lease)
    if (!known) return false
    this.#slots.delete(lease)
    Atomics.store(this.#words, known.index, 0n)
    this.#freeSlots.push(known.index)
    return known.mayHaveBeenRenewed || this.#threadClock.now() > this.#takeOverAt
  }

  /** Applies renewals by the thread to a lease. */
  catchUp(lease: Watched): void {
    const known = this.#slots.get(lease)
    if (!known) return
    const sentAt = Number(Atomics.load(this.#words, known.index)) / 1_000
    // Renewals that were sent before the last sign of life were applied then. If the machine slept since, the client's clock
    // may be further ahead than it was: the deadline then comes out too early, never too late.
    if (sentAt > this.#aliveAt && sentAt + this.#aheadMs > lease.leasedAt) lease.renewed(sentAt + this.#aheadMs)
  }

  /** Sends everything to a new thread. */
  register(): void {
    const { leaseTimeMs, file, ...terms } = this.#terms
    this.#scripts.clear()
    this.#thread.send({ client: this.id, registration: { ...terms, memory: this.#memory } })
    for (const [lease, slot] of this.#slots) this.#sendRenewal(lease, slot)
  }

  receive(status: ThreadStatus): void {
    if ('isReady' in status) {
      this.#isUp = true
      this.#starting?.resolve()
    } else if ('failure' in status) this.#starting?.reject(errorOf(status.failure, 'watchdog thread: '))
    else this.#onRefused(errorOf(status.refused))
  }

  /** The thread ended by itself; it will be started again. */
  ended(cause: unknown): void {
    this.#cannotStart(cause)
    for (const [lease, slot] of this.#slots) {
      this.catchUp(lease)
      this.#assignId(slot)
    }
    if (!this.#isUp) return
    this.#isUp = false
    this.#onWarning(watchdogThreadEnded(cause))
  }

  #cannotStart(cause: unknown): void {
    this.#starting?.reject(unusable(this.#thread.file, cause))
  }

  #setTakeOverAt(at: number): void {
    this.#takeOverAt = at
    Atomics.store(this.#words, TAKE_OVER_AT, micros(at))
  }

  #allocate(): Slot {
    const index = this.#freeSlots.pop() ?? this.#used++
    if (index >= this.#words.length) this.#memory.grow(2 * this.#memory.byteLength)
    const slot = { index, id: 0n, until: 0, mayHaveBeenRenewed: false }
    this.#assignId(slot)
    return slot
  }

  #assignId(slot: Slot): void {
    slot.id = ++this.#lastId
    Atomics.store(this.#words, slot.index, -slot.id)
  }

  #sendRenewal(lease: Watched, { index, id, until }: Slot): void {
    const client = this.id
    const { script, keys, args } = lease.renewalFor(this.#terms.leaseTimeMs)
    if (!this.#scripts.has(script)) {
      this.#scripts.add(script)
      this.#thread.send({ client, script })
    }
    this.#thread.send({
      client,
      slot: index,
      id,
      renewal: { sha1: script.sha1, keys, args, until: until - this.#aheadMs },
    })
  }
}

function errorOf({ message, ...rest }: Failure, before = ''): Error {
  return Object.assign(new Error(before + message), rest)
}

function unusable(file: string, cause: unknown): ConfigError {
  const allowed =
    'the file of holdfast/watchdog-thread, which can be run as a thread. In a bundle specify its location: ' +
    'watchdog: { thread: new URL(…) }'
  return new ConfigError('watchdog.thread', file, allowed, { cause })
}

/**
 * The file of the thread next to a module.
 * @param url  of the module; in a bundle, of the bundle, or undefined where that is not known
 * @throws {ConfigError} it is not known
 */
export function threadFileNextTo(url: string | undefined): string {
  try {
    return new URL('./watchdog-thread.js', url).href
  } catch (cause) {
    throw unusable('', cause)
  }
}
