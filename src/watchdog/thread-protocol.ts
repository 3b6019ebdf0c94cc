// Messages and memory that a client shares with its watchdog thread.
import type { Script, ScriptCall } from '../lua/script.js'
import type { RenewalTerms } from './renewer.js'

/*
 * The protocol between a client and the watchdog thread. Messages set things up; data that the thread needs while the event
 * loop of the client is blocked is in shared memory.
 *
 * The memory consists of words of 64 bits with times in µs on `threadClock`:
 * - `TAKE_OVER_AT`: when the thread starts to renew unless the client postpones that first
 * - `ALIVE_AT`: the client's last sign of life
 * - from `FIRST_SLOT` on, one slot for each lease: -id, then the time at which the thread last renewed it; 0: free
 */
export const TAKE_OVER_AT = 0
export const ALIVE_AT = 1
export const FIRST_SLOT = 2

/** In whole µs, rounded down. */
export function micros(ms: number): bigint {
  return BigInt(Math.floor(ms * 1_000))
}

/** A client, as the thread knows it. */
export interface Registration extends RenewalTerms {
  /** The URL or configuration to connect with, checked. */
  readonly connection: string | object
  readonly memory: SharedArrayBuffer
  /** For how long the thread renews without a sign of life from the client, ms. */
  readonly maxBlockMs: number
  readonly commandTimeoutMs: number
}

/** How to renew a lease. */
export interface Renewal extends Omit<ScriptCall, 'script'> {
  readonly sha1: string
  /** On `threadClock`, ms. */
  readonly until: number
}

/** From a client to the thread. */
export type ToThread = { readonly client: number } & (
  | { readonly registration: Registration }
  | { readonly script: Script }
  | { readonly slot: number; readonly id: bigint; readonly renewal: Renewal }
  | { readonly isClosed: true }
)

/** As it is sent: with when that was, on `threadClock` of the process, ms. */
export type SentToThread = ToThread & { readonly sentAt: number }

/**
 * The clock of a thread, set by that of the process. On Bun and Deno `hrtime` counts from the start of each thread, so the
 * thread's is behind; on Node all threads read the same. Set too early by as much as the fastest message took: a renewal
 * then counts from a little too early, never too late.
 * @param own  the clock of this thread
 */
export class SetClock {
  readonly #own: () => number
  #behindMs = 0

  constructor(own: () => number) {
    this.#own = own
  }

  readonly now = (): number => this.#own() + this.#behindMs

  /** @param sentAt  when a message was sent that has just arrived, by the clock of the process */
  received(sentAt: number): void {
    this.#behindMs = Math.max(this.#behindMs, sentAt - this.#own())
  }
}

/** From the thread: it is connected, it could not connect yet, or Redis refused a renewal. */
export type ThreadStatus = { readonly isReady: true } | { readonly failure: Failure } | { readonly refused: Failure }
export type FromThread = ThreadStatus & { readonly client: number }

/** An error of the thread. */
export interface Failure {
  readonly message: string
  readonly code?: string
}
