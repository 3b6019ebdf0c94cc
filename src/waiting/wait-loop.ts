// The only wait loop.
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import type { TurnRequest } from './turn-queue.js'
import type { Refusal, WaitQueue, WaitQueues, WakeUpSource } from './wait-queue.js'
import { type Caller, Waiter } from './waiter.js'

/** What became of one attempt. */
export type Outcome<T> =
  | { readonly is: 'granted'; readonly value: T; readonly leaseMs: number }
  | ({
      readonly is: 'refused'
      /** Nobody else has it: even a single try asks again, until then, on the clock. */
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
  /** The wait queue of this client to join: that of the callers who want the same. */
  readonly queue: PropertyKey
  /** How long to sleep before the next attempt, ms, for a wait that cannot rely on messages. */
  readonly pace?: (() => number) | undefined
  /** Whether several callers may have it at once, so that a grant does not tell when the next one is possible. */
  readonly isShared?: boolean
  /** On the clock; Infinity: no limit. */
  readonly deadlineAt: number
  readonly signal: AbortSignal | undefined
}

export interface WaitTools {
  readonly clock: Clock
  readonly random: Random
  readonly waitQueues: WaitQueues
}

/** Longest sleep between attempts: what a lost message costs. */
const POLL_MS = 5_000
/** The same while the client is not subscribed: it is still connecting, or an ACL forbids the channel. */
const UNSUBSCRIBED_POLL_MS = 250
/** Shortest time between two attempts of a waiter, however many messages arrive ... */
const LEAST_GAP_MS = 10
/** ... except for the first few, made while it subscribes. */
const FIRST_ATTEMPTS = 5
/** How long a failing attempt is repeated while Redis does not reply or replies "not now". */
export const OUTAGE_PATIENCE_MS = 15_000

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
export async function waitFor<T>(wait: Wait<T>, tools: WaitTools): Promise<T | undefined> {
  const { clock, random, waitQueues } = tools
  const attempts = new Attempts(wait, clock, wait.deadlineAt)
  const { waiter } = attempts
  const queue = waitQueues.join(wait.queue, wait, waiter)
  let takenUntil: number | undefined
  /** Each attempt uses up in advance the gap before the next one. */
  let paidUntil = 0
  let failures = 0
  let failingSince: number | undefined
  try {
    const isTaken = !queue.isHead(waiter) || queue.takenUntil > clock.now()
    if (isTaken && !(await isFirstInTime(wait, waiter, queue, tools))) return timeOver(wait)
    for (;;) {
      if (waiter.given) return waiter.given.granted
      waiter.throwIfDismissed()
      waiter.clearWakeUp()
      paidUntil = Math.max(paidUntil, clock.now()) + LEAST_GAP_MS
      try {
        const outcome = await attempts.next(queue.request())
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
        await sleep(wait, waiter, queue, tools, heldForMs, paidUntil - (FIRST_ATTEMPTS - 1) * LEAST_GAP_MS)
      } catch (error) {
        waiter.throwIfDismissed()
        failingSince ??= clock.now()
        const isPatienceOver = clock.now() - failingSince >= OUTAGE_PATIENCE_MS
        if (!wait.isTransient(error) || isPatienceOver || waiter.isTimeOver) throw error
        await waiter.pause(backoffMs(failures++, 50, 1_000, random))
        if (waiter.isTimeOver && !waiter.given) throw error
      }
    }
  } finally {
    queue.leave(waiter, takenUntil)
    attempts.end()
  }
}

function timeOver({ onTimeOver }: Wait<unknown>): undefined {
  onTimeOver?.()
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
): Promise<boolean> {
  waiter.throwIfDismissed()
  wait.onRefused?.()
  while (!queue.isHead(waiter)) {
    await waiter.pause(Number.POSITIVE_INFINITY)
    if (waiter.given) return true
    waiter.throwIfDismissed()
    if (waiter.isTimeOver) return false
    waiter.clearWakeUp()
  }
  const { takenUntil } = queue
  const now = tools.clock.now()
  if (takenUntil > now) await sleep(wait, waiter, queue, tools, takenUntil - now)
  return true
}

async function sleep<T>(
  wait: Wait<T>,
  waiter: Waiter<T>,
  queue: WaitQueue,
  { clock, random }: WaitTools,
  heldForMs: number,
  sleepsUntil?: number,
): Promise<void> {
  const longestMs = queue.isListening ? POLL_MS : UNSUBSCRIBED_POLL_MS
  const pollMs = wait.pace?.() ?? longestMs * (0.9 + random.fraction() / 10)
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
export async function tryOnce<T>(wait: Wait<T>, { clock }: WaitTools): Promise<T | undefined> {
  const attempts = new Attempts(wait, clock, Number.POSITIVE_INFINITY)
  const { waiter } = attempts
  try {
    for (;;) {
      waiter.throwIfDismissed()
      const outcome = await attempts.next()
      if (outcome.is === 'granted') return outcome.value
      const { heldForMs, retryUntil = 0 } = refusalOf(outcome)
      if (clock.now() >= retryUntil) return undefined
      await waiter.pause(heldForMs)
    }
  } finally {
    attempts.end()
  }
}

/**
 * The attempts of one wait, one at a time, and the rule for its end: once the caller has its result and no attempt is in
 * flight, `undo` gets every outcome that did not reach the caller. Exactly once, however the wait ends and however late
 * the last reply arrives.
 */
class Attempts<T> {
  readonly waiter: Waiter<T>
  readonly #attempt: Attempt<T>
  #left: readonly Outcome<T>[] = []
  #isInFlight = false
  #isOver = false

  constructor({ attempt, lockName, signal, takeOver }: Wait<T>, clock: Clock, deadlineAt: number) {
    this.#attempt = attempt
    this.waiter = new Waiter(clock, lockName, deadlineAt, signal, takeOver)
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
    return waiter.unlessDismissed(this.#attempt.run(waiter, turn), (outcome) => {
      this.#isInFlight = false
      if (outcome && (outcome.is !== 'granted' || waiter.hasLeft)) {
        this.#left = [...this.#left.filter(({ is }) => is !== outcome.is), outcome]
      }
      if (this.#isOver) this.#attempt.undo(this.#left)
    })
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
