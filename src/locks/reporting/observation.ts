/**
 * Reports what happens to requests, holds and leases: on channels of `node:diagnostics_channel`, for all
 * clients of the process, and as the events `acquired` and `released` of one client. Without a subscriber or listener it
 * costs a few property reads, and no message is built.
 */
import type { ForcedBy, LeaseLostError } from '../../errors.js'
import type { KnownHolder } from '../../holder-info.js'
import { channel } from '../../platform.js'
import type { AcquirePath, Context, ReleasePath } from '../context.js'
import type { Hold, HoldTerms } from '../hold.js'

/** The fields of every message about a lock. */
interface AboutLock {
  /** The `id` of the client. */
  readonly clientId: string
  /** As the program names it. */
  readonly lockName: string
  /** Such as `lock`, `fair lock`, `write lock`, `multi-lock`, `permit`. */
  readonly kind: string
  /** The `label` option of the call. */
  readonly label: string | undefined
}

/**
 * A call that takes a lock. The same object is published at its start, if it has to wait, and at its end. A multi-lock or a
 * red lock is one request and one hold, whose name lists its locks.
 */
export interface RequestMessage extends AboutLock {
  /** Longest wait, ms; 0: it tries once; undefined: no limit. */
  readonly waitTimeMs: number | undefined
  /** How long the call has taken so far, ms. */
  readonly waitedMs: number
  /** Whether it has had to wait, because another owner held the lock or another caller was first. */
  readonly hasWaited: boolean
  /** The holders at the time of the look-up: for `longWait`, and when the wait time ends. Empty: not known. */
  readonly holders: readonly KnownHolder[]
  /** `grant`: the same object as in the other messages about this hold. */
  readonly hold: Hold | undefined
  /** `grant`: how the call got it. */
  readonly path: AcquirePath | undefined
  /** `miss`: why it ended without the lock. */
  readonly reason: 'timeout' | 'aborted' | 'error' | undefined
  /** `miss`: what the call rejects with, except for a timeout. */
  readonly error: unknown
}

export interface HoldMessage extends AboutLock {
  readonly hold: Hold
}

/** The function of `withLock` or a similar call is about to run. */
export interface HoldRunMessage extends HoldMessage {
  /** A subscriber may set this, to run the function in a context of its own. It returns what `body` returns. */
  wrap?: (<T>(body: () => T) => T) | undefined
}

export interface HoldEndMessage extends HoldMessage {
  readonly heldMs: number
  readonly path: ReleasePath | 'lost'
  /** If it was lost: its `reason` says why. */
  readonly error: LeaseLostError | undefined
}

/**
 * An operator has ended a hold with `forceUnlock({ holder })`, of whatever client, and the end is over. Of a multi-lock, it is
 * about the one lock that was broken.
 */
export interface HoldForcedMessage extends HoldMessage {
  /** The operator, as in the audit. */
  readonly by: string
  /** The reason, as in the audit. */
  readonly reason: string | undefined
  readonly outcome: ForcedEnd
}

/**
 * The outcome of the work under a hold that an operator ended.
 * - `stopped`: it ended within the grace
 * - `overrun`: it was still running at the end of the grace, or when its client closed; the lock was released nevertheless
 * - `freed`: this client did not react in time, and the lock was freed without it; it found that out later
 */
export type ForcedEnd = 'stopped' | 'overrun' | 'freed'

/** The watchdog has renewed a lease, or has tried to. */
export interface RenewMessage extends AboutLock {
  /** The outermost hold of the lease; undefined: it has ended meanwhile. */
  readonly hold: Hold | undefined
  /** `gone`: Redis no longer knows the holder. `failed`: no useful reply for a third of the lease. */
  readonly result: RenewalResult
  /** The remaining lease when the reply arrived, ms. */
  readonly marginMs: number
  /** How late the timer of the watchdog fired, ms: for how long the event loop was blocked then. */
  readonly delayMs: number
}

export type RenewalResult = 'renewed' | 'gone' | 'failed'

/** As the event `warning`. */
export interface WarningMessage {
  readonly clientId: string
  readonly warning: Error
}

/** A command with a script failed: there was no reply, or an error reply. It may be repeated. */
export interface CommandErrorMessage {
  readonly clientId: string
  readonly error: unknown
}

/** The channels of `node:diagnostics_channel`, and what is published on them. */
export interface HoldfastChannels {
  'holdfast:request:start': RequestMessage
  'holdfast:request:wait': RequestMessage
  'holdfast:request:grant': RequestMessage
  'holdfast:request:miss': RequestMessage
  'holdfast:hold:run': HoldRunMessage
  'holdfast:hold:end': HoldEndMessage
  'holdfast:forced': HoldForcedMessage
  'holdfast:renew': RenewMessage
  'holdfast:warning': WarningMessage
  'holdfast:command:error': CommandErrorMessage
}

const open = (name: keyof HoldfastChannels) => channel(name)

const START = open('holdfast:request:start')
const WAIT = open('holdfast:request:wait')
const GRANT = open('holdfast:request:grant')
const MISS = open('holdfast:request:miss')
const RUN = open('holdfast:hold:run')
const END = open('holdfast:hold:end')
const FORCED = open('holdfast:forced')
const RENEW = open('holdfast:renew')
const WARNING = open('holdfast:warning')
const COMMAND_ERROR = open('holdfast:command:error')

/** The requested lock. */
interface Requested {
  readonly context: Context
  readonly name: string
  readonly title: string
}

const NOBODY: readonly KnownHolder[] = []

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** One request that somebody watches. */
export class ObservedRequest {
  readonly #context: Context
  readonly #startedAt: number
  readonly #message: Mutable<RequestMessage>

  constructor({ context, name: lockName, title }: Requested, { label }: HoldTerms, waitTimeMs: number | undefined) {
    const { clientId, clock } = context
    this.#context = context
    this.#startedAt = clock.now()
    this.#message = {
      clientId,
      lockName,
      kind: title,
      label,
      waitTimeMs,
      waitedMs: 0,
      hasWaited: false,
      holders: NOBODY,
      hold: undefined,
      path: undefined,
      reason: undefined,
      error: undefined,
    }
    START.publish(this.#message)
  }

  /** The caller has to wait. */
  refused(): void {
    if (this.#message.hasWaited) return
    this.#message.hasWaited = true
    this.#publish(WAIT)
  }

  setHolders(holders: readonly KnownHolder[]): void {
    if (holders.length > 0) this.#message.holders = holders
  }

  granted(hold: Hold): void {
    this.#message.hold = hold.hold
    const path = pathOf(hold.hold, this.#message.hasWaited)
    this.#message.path = path
    this.#publish(GRANT)
    const { waitedMs } = this.#message
    this.#context.emit('acquired', { hold, waitedMs, path })
  }

  missed(reason: 'timeout' | 'aborted' | 'error', error?: unknown): void {
    this.#message.reason = reason
    this.#message.error = error
    this.#publish(MISS)
  }

  #publish(to: typeof WAIT): void {
    this.#message.waitedMs = this.#context.clock.now() - this.#startedAt
    to.publish(this.#message)
  }
}

/** A call that takes a lock begins. @returns undefined: nobody watches */
export function observeRequest(
  lock: Requested,
  terms: HoldTerms,
  waitTimeMs: number | undefined,
): ObservedRequest | undefined {
  const isWatched = START.hasSubscribers || WAIT.hasSubscribers || GRANT.hasSubscribers || MISS.hasSubscribers
  if (!isWatched && !lock.context.hasListeners('acquired')) return undefined
  return new ObservedRequest(lock, terms, waitTimeMs)
}

/** Reports a request that fails. Grants are reported by `reportGranted`. */
export async function settled<H>(
  observed: ObservedRequest,
  acquiring: Promise<H | undefined>,
  signal?: AbortSignal,
): Promise<H | undefined> {
  try {
    return await acquiring
  } catch (error) {
    observed.missed(signal?.aborted && error === signal.reason ? 'aborted' : 'error', error)
    throw error
  }
}

/** The caller gets a hold: from here on its end is reported. A grant that comes too late for its caller never gets here. */
export function reportGranted<H extends Hold>(hold: H, observed: ObservedRequest | undefined): H {
  const held = hold.hold
  held.hasCaller = true
  observed?.granted(hold)
  const { lostError } = held
  if (lostError) holdEnded(held, 'lost', lostError)
  return hold
}

/** Whether anybody is told how a hold of this client ends. */
export function endIsObserved(context: Context): boolean {
  return END.hasSubscribers || context.hasListeners('released')
}

/** @param hold  the one that its lease knows */
export function holdEnded(hold: Hold, path: ReleasePath | 'lost', error?: LeaseLostError): void {
  const context = hold.lease.context as Context
  if (!hold.hasCaller) return
  if (path === 'lost') context.recentLosses.add(context.clock.now())
  const isListenedTo = path !== 'lost' && context.hasListeners('released')
  if (!END.hasSubscribers && !isListenedTo) return
  const heldMs = Math.max(0, context.clock.now() - hold.grantedAt)
  const { lockName, label, lease } = hold
  const message: HoldEndMessage = {
    clientId: context.clientId,
    lockName,
    kind: lease.kind.title,
    label,
    hold,
    heldMs,
    path,
    error,
  }
  END.publish(message)
  if (isListenedTo) context.emit('released', { hold: hold.callerHold, heldMs, path })
}

/** @param hold  the one that its lease knows */
export function holdForced(hold: Hold, { by, reason }: ForcedBy, outcome: ForcedEnd): void {
  if (!FORCED.hasSubscribers) return
  const { context, kind } = hold.lease
  const { clientId } = context as Context
  const { lockName, label } = hold
  FORCED.publish({
    clientId,
    lockName,
    kind: kind.title,
    label,
    hold,
    by,
    reason,
    outcome,
  } satisfies HoldForcedMessage)
}

/** Runs the function of `withLock`. */
export function runObserved<T>(hold: Hold, body: () => T): T {
  if (!RUN.hasSubscribers) return body()
  const { context, kind } = hold.lease
  const { clientId } = context as Context
  const { lockName, label } = hold
  const message: HoldRunMessage = { clientId, lockName, kind: kind.title, label, hold: hold.hold, wrap: undefined }
  return RUN.runStores(message, () => (message.wrap ? message.wrap(body) : body())) as T
}

interface RenewedLease {
  readonly context: Context
  readonly name: string
  readonly kind: { readonly title: string }
  readonly outermost: Hold | undefined
  readonly leaseEndsAt: number
}

/** Must be called before the lease processes the result. */
export function renewalEnded(lease: RenewedLease, result: RenewalResult): void {
  if (!RENEW.hasSubscribers) return
  const { context, name, kind, outermost: hold, leaseEndsAt } = lease
  const { clientId, clock, watchdog } = context
  RENEW.publish({
    clientId,
    lockName: name,
    kind: kind.title,
    label: hold?.label,
    hold,
    result,
    marginMs: Math.max(0, leaseEndsAt - clock.now()),
    delayMs: watchdog.delayMs,
  } satisfies RenewMessage)
}

export function warned(clientId: string, warning: Error): void {
  WARNING.publish({ clientId, warning } satisfies WarningMessage)
}

export function commandFailed(clientId: string, error: unknown): void {
  COMMAND_ERROR.publish({ clientId, error } satisfies CommandErrorMessage)
}

function pathOf({ lease }: Hold, hasWaited: boolean): AcquirePath {
  if (lease.count > 1) return 'reentry'
  if ((lease.handOffs ?? 0) > 0) return 'handoff'
  return hasWaited ? 'wait' : 'direct'
}
