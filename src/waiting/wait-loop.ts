import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import type { TurnRequest } from './turn-queue.js'
import type { Refusal, WaitQueues, WakeUpSource } from './wait-queue.js'
import { Waiter } from './waiter.js'

/** What one attempt answered: the thing waited for, or for how long it is surely taken. */
export type Attempted<T> = { readonly granted: T; readonly leaseMs: number } | Refusal

export interface Wait<T> extends WakeUpSource {
  readonly lockName: string
  /**
   * Ask Redis once. Must be safe to repeat after an attempt without an answer.
   * @param turn  how to use the turn queue
   */
  readonly attempt: (turn?: TurnRequest) => Promise<Attempted<T>>
  /** Whether another attempt may do better than the one that failed with this. */
  readonly isWorthRetrying: (error: unknown) => boolean
  /** Make of what a caller in the same line lets go what is waited for, without asking Redis; undefined: it does not fit. */
  readonly takeOver?: ((offered: unknown) => T | undefined) | undefined
  /** Called whenever somebody else has it, or waits for it before this caller. */
  readonly onRefused?: (() => void) | undefined
  /** Undo a grant that arrives when the caller is gone. */
  readonly giveBack: (granted: T) => void
  /** With whom of this client to stand in line: those who give the same. */
  readonly line: PropertyKey
  /** The pace of a wait that cannot rely on messages: how long to sleep before the next attempt, ms. */
  readonly pace?: (() => number) | undefined
  /** Whether several may have it at once, so that a grant says nothing about the next one in line. */
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
/** The same while the channel is not heard: connecting, or refused by an ACL. */
const DEAF_POLL_MS = 250
/** However many messages come, a waiter makes no more than one attempt in so many ms ... */
const LEAST_GAP_MS = 10
/** ... apart from the first few, which it makes while it begins to listen. */
const FIRST_ATTEMPTS = 5
/** How long an attempt that fails is repeated while Redis does not answer or says "not now". */
export const OUTAGE_PATIENCE_MS = 15_000

/**
 * The only wait loop: attempt → listen → attempt again → sleep until a wake-up, the end of the lease, the caller's
 * deadline, the caller's signal, or a bounded poll → attempt. Who sleeps may also be given what another caller of this
 * client lets go.
 *
 * A wake-up is a hint, never a grant. An attempt in flight at the deadline is waited for: a late success is answered, not
 * dropped. Errors that may pass are retried inside the deadline, for 15 s at most.
 *
 * @returns what was granted, or undefined when the wait time ended first
 * @throws the reason of the signal, at once
 * @throws what the last attempt failed with
 */
export async function waitFor<T>(
  wait: Wait<T>,
  { clock, random, waitQueues: lines }: WaitTools,
): Promise<T | undefined> {
  wait.signal?.throwIfAborted()
  const waiter = new Waiter(clock, wait.lockName, wait.deadlineAt, wait.signal, wait.takeOver)
  const line = lines.join(wait.line, wait, waiter)
  let takenUntil: number | undefined
  try {
    if (!line.isHead(waiter) || line.takenUntil > clock.now()) wait.onRefused?.()
    while (!line.isHead(waiter)) {
      await waiter.pause(Number.POSITIVE_INFINITY)
      if (waiter.given) return waiter.given.granted
      waiter.throwIfDismissed()
      if (waiter.isTimeOver) return undefined
      waiter.clearWakeUp()
    }
    const takenForMs = line.takenUntil > 0 ? line.takenUntil - clock.now() : 0
    if (takenForMs > 0) await sleep(takenForMs)

    /** Attempts are paid for in advance. */
    let paidUntil = 0
    let failingSince: number | undefined
    for (let failures = 0; ; ) {
      if (waiter.given) return waiter.given.granted
      waiter.throwIfDismissed()
      waiter.clearWakeUp()
      paidUntil = Math.max(paidUntil, clock.now()) + LEAST_GAP_MS
      try {
        const attempted = await attemptFor(waiter, wait, line.request())
        if ('granted' in attempted) {
          if (!wait.isShared) takenUntil = clock.now() + attempted.leaseMs
          return attempted.granted
        }
        failingSince = undefined
        failures = 0
        wait.onRefused?.()
        if (waiter.isTimeOver) return undefined
        line.refused(attempted.place)
        await sleep(attempted.heldForMs, paidUntil - (FIRST_ATTEMPTS - 1) * LEAST_GAP_MS)
      } catch (error) {
        waiter.throwIfDismissed()
        failingSince ??= clock.now()
        const isPatienceOver = clock.now() - failingSince >= OUTAGE_PATIENCE_MS
        if (!wait.isWorthRetrying(error) || isPatienceOver || waiter.isTimeOver) throw error
        await waiter.pause(backoffMs(failures++, 50, 1_000, random))
        if (waiter.isTimeOver && !waiter.given) throw error
      }
    }
  } finally {
    line.leave(waiter, takenUntil)
    waiter.end()
  }

  async function sleep(heldForMs: number, sleepsUntil?: number): Promise<void> {
    const pollMs = wait.pace?.() ?? (line.isListening ? POLL_MS : DEAF_POLL_MS) * (0.9 + random.fraction() / 10)
    // A lease has ended only after its last millisecond; and a key that says 0 again and again must not make us spin.
    const untilFreeMs = heldForMs < 0 ? pollMs : Math.max(heldForMs + 1, 20)
    const pollsAt = clock.now() + pollMs
    await waiter.pause(Math.min(untilFreeMs, pollMs), sleepsUntil)
    const isPoll = pollMs < untilFreeMs && clock.now() >= pollsAt
    if (isPoll && !waiter.isWoken && !waiter.isTimeOver) line.markPoll()
  }
}

/**
 * One attempt, outside the line: it never waits for anybody.
 * @returns what was granted, or undefined when it was refused
 * @throws as `waitFor`, without retries
 */
export async function tryOnce<T>(wait: Wait<T>, { clock }: WaitTools): Promise<T | undefined> {
  wait.signal?.throwIfAborted()
  const waiter = new Waiter(clock, wait.lockName, wait.deadlineAt, wait.signal)
  try {
    const attempted = await attemptFor(waiter, wait)
    return 'granted' in attempted ? attempted.granted : undefined
  } finally {
    waiter.end()
  }
}

function attemptFor<T>(waiter: Waiter, wait: Wait<T>, turn?: TurnRequest): Promise<Attempted<T>> {
  return waiter.unlessDismissed(wait.attempt(turn), (late) => {
    if ('granted' in late) wait.giveBack(late.granted)
  })
}
