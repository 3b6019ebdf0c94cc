// Opens when its count reaches 0.
import { isRetryable, toInteger } from '../delivery/replies.js'
import type { Context } from '../locks/context.js'
import { asLockError, runScript } from '../locks/inspection.js'
import { checkWait } from '../locks/options.js'
import { LongWait } from '../locks/reporting/long-wait.js'
import { waitBegan } from '../locks/reporting/waiting-calls.js'
import { NOT_KNOWN } from '../locks/reporting/who-holds.js'
import { runOnce } from '../locks/run-once.js'
import { latchCountDown, latchDelete, latchInspect, latchSetCount } from '../lua/generated.js'
import { checkCount, ownOptions } from '../util/validate.js'
import { type Outcome, waitFor } from '../waiting/wait-loop.js'
import { Waiter } from '../waiting/waiter.js'
import { publishRefused } from '../warnings.js'
import { LATCH_CLOSED_MESSAGE, LATCH_OPEN_MESSAGE, latchChannel } from '../wire/keys.js'
import { countOnce } from './count-once.js'

export interface AwaitOptions {
  /** Longest wait, ms, from this call; 0 asks once. Default: the client's `waitTimeMs`, which is no limit by default. */
  waitTimeMs?: number | undefined
  /** Aborts the wait: the call rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** Reports a longer wait as `longWait`, ms. Default: that of the client, which is 60 000 unless set. */
  warnAfterMs?: number | undefined
  /** Describes the call; shown in events. */
  label?: string | undefined
}

/**
 * The waiters of one client for one latch. One wait asks and subscribes for all, and all are woken together. A reply counts
 * only for the waiters present when it was requested: the latch may have been closed before the others came.
 */
class Gate {
  readonly #waiters = new Set<Waiter>()
  readonly #abort = new AbortController()
  readonly #onEmpty: () => void

  constructor(onEmpty: () => void) {
    this.#onEmpty = onEmpty
  }

  /** Aborts when all waiters have left. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  get waiters(): readonly Waiter[] {
    return [...this.#waiters]
  }

  enter(waiter: Waiter): void {
    this.#waiters.add(waiter)
  }

  leave(waiter: Waiter): void {
    if (this.#waiters.delete(waiter) && this.#isEmpty()) this.#abort.abort()
  }

  /** @returns whether no waiter is left */
  open(waiters: readonly Waiter[]): boolean {
    for (const waiter of waiters) if (this.#waiters.delete(waiter)) waiter.wake()
    return this.#isEmpty()
  }

  #isEmpty(): boolean {
    if (this.#waiters.size > 0) return false
    this.#onEmpty()
    return true
  }
}

const gates = new WeakMap<Context, Map<string, Gate>>()

/**
 * A latch that is closed with a count and opens when the count reaches zero, for all current and later waiters: Node
 * processes, and Java processes that use Redisson. It has no lease: if a process that was to count down crashes, it stays
 * closed, so wait with a `waitTimeMs`.
 * @see Redisson `RCountDownLatch`
 */
export class CountDownLatch {
  readonly name: string
  /** @internal What Redis has: the name, or what `nameMapper` makes of it. */
  readonly key: string
  readonly #context: Context

  /** @internal Latches come from a client. */
  constructor(context: Context, name: string, key: string) {
    this.name = name
    this.key = key
    this.#context = context
  }

  /**
   * Closes the latch with a count if it is open.
   * @param count  at least 1
   * @returns false if it is already closed, with whatever count
   * @throws {OutcomeUnknownError} Redis did not reply; the call is retried in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @example `await latch.trySetCount(3)`
   * @see Redisson `RCountDownLatch.trySetCount`
   */
  async trySetCount(count: number): Promise<boolean> {
    const { name, key: latch } = this
    checkCount('count', count, 1, name)
    const reply = await countOnce(this.#context, this, 'trySetCount', ({ key, number, openedAt }) =>
      latchSetCount(latch, key, count, latchChannel(latch), LATCH_CLOSED_MESSAGE, number, openedAt),
    )
    return reply === 1
  }

  /**
   * Counts down by one. At zero the latch opens; an open one stays open.
   * @throws as `trySetCount`
   * @example `await latch.countDown()`
   * @see Redisson `RCountDownLatch.countDown`
   */
  async countDown(): Promise<void> {
    const { name, key: latch } = this
    const reply = await countOnce(this.#context, this, 'countDown', ({ key, number, openedAt }) =>
      latchCountDown(latch, key, latchChannel(latch), LATCH_OPEN_MESSAGE, number, openedAt),
    )
    if (reply === -1) this.#context.emit('warning', publishRefused(name))
  }

  /**
   * The current count; 0: it is open. The result may be outdated when it arrives.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `console.log(await latch.getCount())`
   * @see Redisson `RCountDownLatch.getCount`
   */
  async getCount(): Promise<number> {
    return (await runScript(this.#context, this, 'getCount', latchInspect(this.key), toInteger)) ?? 0
  }

  /**
   * Waits until the latch is open.
   * @returns false if `waitTimeMs` ended first
   * @throws {OutcomeUnknownError} Redis did not reply for 15 s
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @example `const isOpen = await latch.await({ waitTimeMs: 60_000 })`
   * @see Redisson `RCountDownLatch.await`
   */
  async await(options: AwaitOptions = {}): Promise<boolean> {
    const { name } = this
    const context = this.#context
    const own = ownOptions(options, { waitTimeMs: 1, signal: 1, warnAfterMs: 1, label: 1 }, name)
    const { waitTimeMs: wanted = context.waitTimeMs, warnAfterMs, signal, label } = checkWait(context, name, own)
    const waitTimeMs = wanted ?? Number.POSITIVE_INFINITY
    context.assertOpen(name)
    signal?.throwIfAborted()
    if (waitTimeMs === 0) return (await this.getCount()) === 0

    const gate = this.#gate()
    const deadlineAt = context.clock.now() + waitTimeMs
    const waiter = new Waiter(context.clock, name, deadlineAt, signal)
    const endWait = waitBegan(context, this.key, label, deadlineAt)
    const longWait = new LongWait(context, name, { warnAfterMs, label }, async () => NOT_KNOWN)
    longWait.refused()
    gate.enter(waiter)
    try {
      await waiter.pause(Number.POSITIVE_INFINITY)
      waiter.throwIfDismissed()
      return waiter.isWoken
    } finally {
      longWait.end()
      endWait()
      waiter.end()
      gate.leave(waiter)
    }
  }

  /**
   * Deletes the latch, which opens it for its waiters.
   * @returns whether it was closed
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `await latch.delete()`
   * @see Redisson `RCountDownLatch.delete`, which does not wake the waiters
   */
  async delete(): Promise<boolean> {
    const call = latchDelete(this.key, latchChannel(this.key), LATCH_OPEN_MESSAGE)
    return (await runOnce(this.#context, this, 'delete', call)) === 1
  }

  #gate(): Gate {
    const context = this.#context
    const { key } = this
    const ours = gates.get(context) ?? new Map<string, Gate>()
    gates.set(context, ours)
    const present = ours.get(key)
    if (present) return present
    const gate = new Gate(() => {
      if (ours.get(key) === gate) ours.delete(key) // later waiters ask again
    })
    ours.set(key, gate)
    void this.#watch(gate)
    return gate
  }

  async #watch(gate: Gate): Promise<void> {
    const context = this.#context
    const { name, key } = this
    const run = async (): Promise<Outcome<true>> => {
      const { waiters } = gate
      const count = toInteger(await context.scripts.run(latchInspect(key)))
      if (count !== 0) return { is: 'refused', heldForMs: -1 }
      return gate.open(waiters) ? { is: 'granted', value: true, leaseMs: 0 } : { is: 'refused', heldForMs: 0 }
    }
    const wait = {
      lockName: name,
      attempt: { run, undo: () => {} },
      isTransient: isRetryable,
      queue: `latch/${key}`,
      channel: latchChannel(key),
      isShared: true,
      deadlineAt: Number.POSITIVE_INFINITY,
      signal: gate.signal,
    }
    try {
      await null // one request for all waiters of a turn
      context.assertOpen(name)
      await waitFor(wait, context)
    } catch (error) {
      const reason = await asLockError(context, this, 'await', error)
      for (const waiter of gate.waiters) {
        waiter.dismiss(reason)
        gate.leave(waiter)
      }
    }
  }
}
