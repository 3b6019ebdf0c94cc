// lock.watch(): whether a lock is held, as an iterator.
import { isRetryable } from '../delivery/replies.js'
import { OutcomeUnknownError } from '../errors.js'
import { onAbort } from '../util/abort.js'
import type { Clock } from '../util/clock.js'
import { type Outcome, waitFor } from '../waiting/wait-loop.js'
import { watchChannel } from '../wire/keys.js'
import type { Named } from '../wire/names.js'
import type { Context } from './context.js'
import { inspect } from './inspection.js'
import type { Holder, LockKind } from './kinds/lock-kind.js'

/** What a lock was like when Redis was asked. */
export interface LockState {
  readonly state: 'held' | 'free'
  /** As `getHolders()` returns them; of very many readers some. Empty if it is free. */
  readonly holders: readonly Holder[]
}

export interface WatchOptions {
  /** Ends the iterator: it throws the signal's reason. */
  signal?: AbortSignal | undefined
}

/** Minimum time between two samples of the locks that a client watches, ms, however many messages arrive. */
const SAMPLE_MS = 50
/** The same without messages, ms, in the end: how late a grant may be seen, and a release that has no message. */
const POLL_MS = 5_000

/** As `Lock.watch`. Nothing is subscribed to, and nothing sent, before the first `next()`. */
export function watchLock(
  context: Context,
  kind: LockKind,
  lock: Named,
  signal: AbortSignal | undefined,
): AsyncIterableIterator<LockState> {
  const watcher = new Watcher(context, kind, lock, signal)
  const states = watcher.states()
  return {
    next: () => states.next(),
    // That of a generator waits for a `next()` in progress, which may last for as long as nothing changes.
    return: () => {
      watcher.leave()
      return states.return(undefined)
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

class Watcher {
  readonly #context: Context
  readonly #kind: LockKind
  readonly #lock: Named
  readonly #signal: AbortSignal | undefined
  readonly #end = new AbortController()
  /** Where every release is published. Those of a fair lock go to its next waiter alone. */
  readonly #channel: string | undefined
  readonly #sampling: Sampling
  #hasLeft = false
  #seen: LockState | undefined
  /** Until the next sample, if there is no message: what follows a change often follows soon. */
  #pauseMs = SAMPLE_MS

  constructor(context: Context, kind: LockKind, lock: Named, signal: AbortSignal | undefined) {
    this.#context = context
    this.#kind = kind
    this.#lock = lock
    this.#signal = signal
    this.#channel = kind.isQueuedInRedis && !kind.isOrdered ? undefined : kind.channel(lock.key, '')
    this.#sampling = samplingOf(context)
  }

  /** Asks Redis only while a `next()` waits, and then for the state of that moment: nothing is kept for a slow reader. */
  async *states(): AsyncGenerator<LockState, undefined> {
    const stop = this.#start()
    try {
      for (;;) {
        this.#end.signal.throwIfAborted()
        this.#context.assertOpen(this.#lock.name)
        yield await this.#nextState()
      }
    } catch (error) {
      if (!this.#hasLeft) throw error
      return undefined
    } finally {
      stop()
    }
  }

  /** The reader has left: a `next()` in progress is the last. */
  leave(): void {
    this.#hasLeft = true
    this.#end.abort()
  }

  /** @returns leaves nothing behind; more than one call is harmless */
  #start(): () => void {
    const signal = this.#signal
    const end = this.#end
    if (signal?.aborted) end.abort(signal.reason)
    const stopListening = signal && onAbort(signal, () => end.abort(signal.reason))
    const unsubscribe = end.signal.aborted ? () => {} : this.#subscribe()
    const leaveSampling = this.#sampling.enter()
    const stop = (): void => {
      stopListening?.()
      stopOnEnd()
      unsubscribe()
      leaveSampling()
    }
    // Also if the reader is busy, and does not come back.
    const stopOnEnd = onAbort(end.signal, () => stop())
    return stop
  }

  /** From the first sample to the end, so that the messages between two waits cost no subscription each. */
  #subscribe(): () => void {
    const channel = this.#channel
    if (channel === undefined) return () => {}
    const { wakeups } = this.#context
    const subscriptions = [
      wakeups.listen(watchChannel(channel), () => {}),
      wakeups.listen(channel, () => (this.#pauseMs = SAMPLE_MS)),
    ]
    return () => {
      for (const subscription of subscriptions) subscription.leave()
    }
  }

  async #nextState(): Promise<LockState> {
    const { name: lockName } = this.#lock
    const attempt = { untilReady: () => this.#sampling.next(), run: () => this.#sample(), undo: () => {} }
    const wait = {
      lockName,
      attempt,
      isTransient: (error: unknown) => error instanceof OutcomeUnknownError || isRetryable(error),
      queue: Symbol(lockName),
      channel: this.#channel,
      pace: () => {
        const pauseMs = this.#pauseMs
        this.#pauseMs = Math.min(2 * pauseMs, POLL_MS)
        return pauseMs
      },
      deadlineAt: Number.POSITIVE_INFINITY,
      signal: this.#end.signal,
    }
    return (await waitFor(wait, this.#context)) as LockState // without a deadline it ends with one
  }

  async #sample(): Promise<Outcome<LockState>> {
    const { holders, remainingLeaseMs } = await inspect(this.#context, this.#kind, this.#lock, { operation: 'watch' })
    const found: LockState = { state: holders.length > 0 ? 'held' : 'free', holders }
    if (this.#isNew(found)) {
      this.#seen = found
      this.#pauseMs = SAMPLE_MS
      return { is: 'granted', value: found, leaseMs: 0 }
    }
    return { is: 'refused', heldForMs: found.state === 'held' ? remainingLeaseMs : -1 }
  }

  /** Whether this differs from the last state. For a shared lock, a change among its holders does not count. */
  #isNew({ state, holders }: LockState): boolean {
    if (this.#seen?.state !== state) return true
    return !this.#kind.isShared && idsOf(holders) !== idsOf(this.#seen.holders)
  }
}

function idsOf(holders: readonly Holder[]): string {
  return holders.map(({ holder }) => holder).join()
}

/**
 * When a client samples the locks that it watches: at once, but not again for `SAMPLE_MS`. Samples that become due meanwhile are
 * sent together, many in a command, so that the commands do not grow with the locks and their messages.
 */
class Sampling {
  readonly #clock: Clock
  #watchers = 0
  #due: Promise<void> | undefined
  #notBefore = 0
  #cancel: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @returns call it once, when the watcher leaves */
  enter(): () => void {
    this.#watchers++
    let isInside = true
    return () => {
      if (!isInside) return
      isInside = false
      if (--this.#watchers > 0) return
      this.#cancel?.()
      this.#due = undefined
    }
  }

  /** Resolves when the next samples are sent. */
  next(): Promise<void> {
    this.#due ??= new Promise((resolve) => {
      const leave = (): void => {
        this.#due = undefined
        this.#notBefore = this.#clock.now() + SAMPLE_MS
        resolve()
      }
      const restMs = this.#notBefore - this.#clock.now()
      this.#cancel = this.#clock.after(Math.max(0, restMs), leave)
    })
    return this.#due
  }
}

const samplings = new WeakMap<Context, Sampling>()

function samplingOf(context: Context): Sampling {
  const known = samplings.get(context) ?? new Sampling(context.clock)
  samplings.set(context, known)
  return known
}
