// The only wait loop.
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import type { TurnRequest } from './turn-queue.js'
import type { Refusal, WaitQueue, WaitQueues, WakeUpSource } from './wait-queue.js'
import { type Caller, Waiter } from './waiter.js'

/** The outcome of one attempt. */
export type Outcome<T> =
  | { readonly is: 'granted'; readonly value: T; readonly leaseMs: number }
  | ({
      readonly is: 'refused'
      /** No other owner has it, so even a single try is repeated until this time, on the clock. */
      readonly retryUntil?: number
    } & Refusal)
  /**
   * Redis may have granted it, but nobody has it: there was no reply, or the grant is of no use. Without an error the
   * caller takes it for a refusal.
   */
  | { readonly is: 'unknown'; readonly error?: unknown }

/** How a caller takes what it waits for. */
export interface Attempt<T> {
  /** Resolves when an attempt may be sent; undefined: at once. */
  untilReady?(): Promise<void> | undefined
  /**
   * Asks Redis once. Must be safe to repeat after an unknown outcome.
   * @param turn  the client's place in the turn queue, in case the attempt is refused
   * @throws an error that leaves nothing to undo
   */
  run(caller: Caller, turn?: TurnRequest): Promise<Outcome<T>>
  /**
   * Undoes everything that no caller got. Called exactly once per wait, when it has ended and no attempt is in flight.
   * @param left  the outcomes that did not reach the caller: the last one of each kind
   */
  undo(left: readonly Outcome<T>[]): void
}

/** What learns of the outcome of an attempt. One of its functions is called once, in any asynchronous context. */
export interface OutcomeSink<T> {
  done(outcome: Outcome<T>): void
  failed(error: unknown): void
}

/** An attempt that can also be made without a promise. */
export interface DirectAttempt<T> extends Attempt<T> {
  /** As `run`, without a turn. */
  start(caller: Caller, sink: OutcomeSink<T>): void
}

/**
 * A wait that did not end with its first attempt. It goes on where its caller is, so that whatever happens from then on does
 * so in the asynchronous context of the caller.
 */
export class Unfinished<T> {
  /** @param goOn  resolves and rejects as `waitFor` */
  constructor(readonly goOn: () => Promise<T | undefined>) {}
}

export interface Wait<T> extends WakeUpSource {
  readonly lockName: string
  readonly attempt: Attempt<T>
  /** Whether another attempt may succeed after one failed with this error. */
  readonly isTransient: (error: unknown) => boolean
  /** Turns what a caller in the same queue releases into what is waited for, without asking Redis; undefined: it does not fit. */
  readonly takeOver?: ((offered: unknown) => T | undefined) | undefined
  /** Called whenever another caller has it, or is ahead in the queue. */
  readonly onRefused?: (() => void) | undefined
  /** Called when the wait time has ended, while the caller is still queued. */
  readonly onTimeOver?: (() => void) | undefined
  /** Called when it has ended, in whatever way. */
  readonly onEnd?: (() => void) | undefined
  /** The wait queue of this client to join: that of the callers who want the same. */
  readonly queue: PropertyKey
  /** How long to sleep before the next attempt, ms, for a wait that cannot rely on messages. */
  readonly pace?: (() => number) | undefined
  /** Whether a caller of this client has it, who will hand it on or wake the queue. For a wait without messages. */
  readonly isHeldHere?: boolean
  /** Whether several callers may have it at once, so that a grant does not tell when the next one is possible. */
  readonly isShared?: boolean
  /** On the clock; Infinity: no limit. */
  readonly deadlineAt: number
  readonly signal: AbortSignal | undefined
}

/** A wait whose first attempt may be made without a queue: see `askFirst`. */
export interface DirectWait<T, A extends Attempt<T> = DirectAttempt<T>> extends Wait<T> {
  readonly attempt: A
  /** Whatever is left of the wait goes through this. */
  finish(waiting: Promise<T | undefined>): Promise<T | undefined>
}

export interface WaitTools {
  readonly clock: Clock
  readonly random: Random
  readonly waitQueues: WaitQueues
  /** The pace of every wait, where there are no messages. */
  readonly pace?: ((random: Random) => () => number) | undefined
}

/** Longest sleep between attempts: what a lost message costs. */
const POLL_MS = 5_000
/** The same while the client is not subscribed: it is still connecting, or an ACL forbids the channel. */
const UNSUBSCRIBED_POLL_MS = 250
/** Shortest time between two attempts of a waiter, however many messages arrive ... */
const MIN_GAP_MS = 10
/** ... except for the first few, made while it subscribes. */
const FIRST_ATTEMPTS = 5
/** How long a failing attempt is repeated while Redis does not reply or replies "not now". */
export const MAX_OUTAGE_MS = 15_000

/**
 * The only wait loop: attempt → subscribe → attempt again → sleep until a wake-up, the end of the lease, the caller's
 * deadline, the caller's signal, or a bounded poll → attempt. A sleeping caller may also be handed what another caller of
 * this client releases.
 *
 * A wake-up is a hint, never a grant. An attempt in flight at the deadline is awaited, and its late success returned.
 * Transient errors are retried within the deadline, for 15 s at most.
 *
 * @returns what was granted, or undefined if the wait time ended first
 * @throws the signal's reason, immediately
 * @throws the error of the last attempt
 */
export function waitFor<T>(wait: Wait<T>, tools: WaitTools): Promise<T | undefined> {
  return waitInQueue(wait, tools, new Attempts(wait, tools.clock, wait.deadlineAt))
}

/**
 * The first attempt of a wait, made without a queue if nobody else of this client wants the same. It is the shortest way to
 * a lock that is free.
 * @param isOnly  it tries once, as `tryOnce`
 * @returns what was granted; or the rest of the wait, for the caller to go on with
 */
export function askFirst<T>(
  wait: DirectWait<T>,
  tools: WaitTools,
  isOnly: boolean,
): Promise<T | undefined | Unfinished<T>> {
  const attempts = new Attempts(wait, tools.clock, isOnly ? Number.POSITIVE_INFINITY : wait.deadlineAt)
  const { waiter } = attempts
  const goOn = isOnly ? tryOn : waitInQueue
  if (waiter.hasLeft || (!isOnly && !tools.waitQueues.askAlone(wait.queue, waiter))) {
    return wait.finish(goOn(wait, tools, attempts))
  }
  return new Promise((resolve) => attempts.start(wait.attempt, new FirstOutcome(wait, tools, attempts, goOn, resolve)))
}

/** Goes on with a wait. @param first  the outcome of an attempt that was made already */
type GoOn<T> = (
  wait: Wait<T>,
  tools: WaitTools,
  attempts: Attempts<T>,
  first?: () => Promise<Outcome<T>>,
) => Promise<T | undefined>

/** What becomes of a wait with its first attempt. */
class FirstOutcome<T> implements OutcomeSink<T> {
  constructor(
    readonly wait: DirectWait<T>,
    readonly tools: WaitTools,
    readonly attempts: Attempts<T>,
    readonly goOn: GoOn<T>,
    readonly resolve: (got: T | Unfinished<T>) => void,
  ) {}

  done(outcome: Outcome<T>): void {
    if (outcome.is !== 'granted') {
      this.#goOn(() => Promise.resolve(outcome))
      return
    }
    const { wait, tools, attempts } = this
    tools.waitQueues.answered(wait.queue, attempts.waiter, wait.isShared ? undefined : outcome.leaseMs)
    attempts.end()
    wait.onEnd?.()
    this.resolve(outcome.value)
  }

  failed(error: unknown): void {
    this.#goOn(() => Promise.reject(error))
  }

  #goOn(first: () => Promise<Outcome<T>>): void {
    const { wait, tools, attempts, goOn } = this
    this.resolve(new Unfinished(() => wait.finish(goOn(wait, tools, attempts, first))))
  }
}

/** @param first  the outcome of an attempt that was made already */
async function waitInQueue<T>(
  wait: Wait<T>,
  tools: WaitTools,
  attempts: Attempts<T>,
  first?: () => Promise<Outcome<T>>,
): Promise<T | undefined> {
  const { clock, random, waitQueues } = tools
  const { waiter } = attempts
  let made = first
  const queue = waitQueues.join(wait.queue, wait, waiter)
  const pace = paceOf(wait, tools)
  let takenUntil: number | undefined
  /** Each attempt uses up in advance the gap before the next one. */
  let paidUntil = 0
  let failures = 0
  let failingSince: number | undefined
  try {
    const isTaken = !queue.isHead(waiter) || queue.takenUntil > clock.now()
    if (!made && isTaken && !(await isFirstInTime(wait, waiter, queue, tools, pace))) return timeOver(wait)
    for (;;) {
      if (waiter.taken) return waiter.taken.granted
      waiter.throwIfDismissed()
      if (!made) waiter.clearWakeUp()
      paidUntil = Math.max(paidUntil, clock.now()) + MIN_GAP_MS
      try {
        const pending = made ? made() : attempts.next(queue.request())
        made = undefined
        const outcome = await pending
        if (outcome.is === 'granted') {
          if (!wait.isShared) takenUntil = clock.now() + outcome.leaseMs
          return outcome.value
        }
        const { heldForMs, place } = refusalOf(outcome)
        failingSince = undefined
        failures = 0
        wait.onRefused?.()
        if (waiter.isTimeOver) return timeOver(wait)
        queue.refused(place)
        await sleep(pace, waiter, queue, tools, heldForMs, paidUntil - (FIRST_ATTEMPTS - 1) * MIN_GAP_MS)
      } catch (error) {
        waiter.throwIfDismissed()
        failingSince ??= clock.now()
        const isOutageOver = clock.now() - failingSince >= MAX_OUTAGE_MS
        if (!wait.isTransient(error) || isOutageOver || waiter.isTimeOver) throw error
        await waiter.pause(backoffMs(failures++, 50, 1_000, random))
        if (waiter.isTimeOver && !waiter.taken) throw error
      }
    }
  } finally {
    queue.leave(waiter, takenUntil)
    attempts.end()
    wait.onEnd?.()
  }
}

function timeOver(wait: Wait<unknown>): undefined {
  wait.onTimeOver?.()
}

/**
 * Waits until the caller is first in the wait queue, and what it waits for may be free; or until it is handed that.
 * @returns false: its wait time ended first
 */
async function isFirstInTime<T>(
  wait: Wait<T>,
  waiter: Waiter<T>,
  queue: WaitQueue,
  tools: WaitTools,
  pace: Wait<T>['pace'],
): Promise<boolean> {
  waiter.throwIfDismissed()
  wait.onRefused?.()
  while (!queue.isHead(waiter)) {
    await waiter.pause(Number.POSITIVE_INFINITY)
    if (waiter.taken) return true
    waiter.throwIfDismissed()
    if (waiter.isTimeOver) return false
    waiter.clearWakeUp()
  }
  const { takenUntil } = queue
  const now = tools.clock.now()
  if (takenUntil > now) await sleep(pace, waiter, queue, tools, takenUntil - now)
  else if (tools.pace && wait.isHeldHere) await sleep(pace, waiter, queue, tools, -1)
  return true
}

/** @returns how long to sleep next, ms; undefined: as usual */
function paceOf<T>(wait: Wait<T>, { pace: paceOfAll, random }: WaitTools): Wait<T>['pace'] {
  if (wait.pace || !paceOfAll) return wait.pace
  const pace = paceOfAll(random)
  return () => (wait.isHeldHere ? POLL_MS : pace())
}

async function sleep<T>(
  pace: Wait<T>['pace'],
  waiter: Waiter<T>,
  queue: WaitQueue,
  { clock, random }: WaitTools,
  heldForMs: number,
  sleepsUntil?: number,
): Promise<void> {
  const longestMs = queue.isListening ? POLL_MS : UNSUBSCRIBED_POLL_MS
  const pollMs = pace?.() ?? longestMs * (0.9 + random.fraction() / 10)
  // A lease has ended only after its last millisecond, and a key that keeps replying 0 must not make us spin.
  const untilFreeMs = heldForMs < 0 ? Number.POSITIVE_INFINITY : Math.max(heldForMs + 1, 20)
  const pollsAt = clock.now() + pollMs
  await waiter.pause(Math.min(untilFreeMs, pollMs), sleepsUntil)
  if (pollMs < untilFreeMs && clock.now() >= pollsAt && !waiter.isWoken) queue.markPoll()
}

/**
 * One attempt outside the wait queue: it waits for no other caller.
 * @returns what was granted, or undefined if it was refused
 * @throws as `waitFor`, without retries
 */
export function tryOnce<T>(wait: Wait<T>, tools: WaitTools): Promise<T | undefined> {
  return tryOn(wait, tools, new Attempts(wait, tools.clock, Number.POSITIVE_INFINITY))
}

/** @param first  the outcome of an attempt that was made already */
async function tryOn<T>(
  wait: Wait<T>,
  { clock }: WaitTools,
  attempts: Attempts<T>,
  first?: () => Promise<Outcome<T>>,
): Promise<T | undefined> {
  const { waiter } = attempts
  let made = first
  try {
    for (;;) {
      waiter.throwIfDismissed()
      const pending = made ? made() : attempts.next()
      made = undefined
      const outcome = await pending
      if (outcome.is === 'granted') return outcome.value
      const { heldForMs, retryUntil = 0 } = refusalOf(outcome)
      if (clock.now() >= retryUntil) return undefined
      await waiter.pause(heldForMs)
    }
  } finally {
    attempts.end()
    wait.onEnd?.()
  }
}

const NOTHING: readonly never[] = []

/**
 * The attempts of one wait, one at a time, and the rule for its end: once the caller has its result and no attempt is in
 * flight, `undo` gets every outcome that did not reach the caller. Exactly once, however the wait ends and however late
 * the last reply arrives.
 */
class Attempts<T> implements OutcomeSink<T> {
  readonly waiter: Waiter<T>
  readonly #attempt: Attempt<T>
  /** Of the first attempt, if that is made without a promise. */
  #first: OutcomeSink<T> | undefined
  #left: readonly Outcome<T>[] = NOTHING
  #isInFlight = false
  #isOver = false

  constructor(wait: Wait<T>, clock: Clock, deadlineAt: number) {
    this.#attempt = wait.attempt
    this.waiter = new Waiter(clock, wait.lockName, deadlineAt, wait.signal, wait)
  }

  /**
   * Makes one attempt as soon as it may be sent.
   * @throws what it failed with
   * @throws the reason for which the caller was sent away, without waiting for the outcome
   */
  next(turn?: TurnRequest, isReady = false): Promise<Outcome<T>> {
    const { waiter } = this
    const pending = isReady ? undefined : this.#attempt.untilReady?.()
    if (pending !== undefined) return this.#whenReady(pending, turn)
    this.#isInFlight = true
    return waiter.unlessDismissed(this.#attempt.run(waiter, turn), (outcome) => this.#settled(outcome))
  }

  /** Makes the first attempt without a promise. @param first  learns of it as from the promise of `next` */
  start(attempt: DirectAttempt<T>, first: OutcomeSink<T>): void {
    const pending = attempt.untilReady?.()
    if (pending !== undefined) {
      this.#whenReady(pending).then(first.done.bind(first), first.failed.bind(first))
      return
    }
    this.#isInFlight = true
    this.#first = first
    this.waiter.inFlight = first
    attempt.start(this.waiter, this)
  }

  done(outcome: Outcome<T>): void {
    this.waiter.inFlight = undefined
    this.#settled(outcome)
    if (!this.waiter.hasLeft) this.#first?.done(outcome)
  }

  failed(error: unknown): void {
    this.waiter.inFlight = undefined
    this.#settled()
    if (!this.waiter.hasLeft) this.#first?.failed(error)
  }

  /** @param outcome  of an attempt; undefined: it failed */
  #settled(outcome?: Outcome<T>): void {
    this.#isInFlight = false
    if (outcome && (outcome.is !== 'granted' || this.waiter.hasLeft)) {
      this.#left = [...this.#left.filter(({ is }) => is !== outcome.is), outcome]
    }
    if (this.#isOver) this.#attempt.undo(this.#left)
  }

  /** The wait has ended. */
  end(): void {
    this.waiter.end()
    this.#isOver = true
    if (!this.#isInFlight) this.#attempt.undo(this.#left)
  }

  async #whenReady(pending: Promise<void>, turn?: TurnRequest): Promise<Outcome<T>> {
    await this.waiter.unlessDismissed(pending)
    this.waiter.throwIfDismissed()
    return this.waiter.isTimeOver ? { is: 'refused', heldForMs: 0 } : await this.next(turn, true)
  }
}

/** @throws the error of an attempt whose outcome is unknown */
function refusalOf(outcome: Exclude<Outcome<unknown>, { is: 'granted' }>): Refusal & { readonly retryUntil?: number } {
  if (outcome.is === 'refused') return outcome
  if (outcome.error !== undefined) throw outcome.error
  return { heldForMs: 0 }
}
