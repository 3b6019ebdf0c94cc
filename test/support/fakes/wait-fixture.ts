import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import type { Random } from '../../../src/util/random.js'
import { Inbox } from '../../../src/waiting/inbox.js'
import { type Attempt, type Wait, type WaitTools, waitFor } from '../../../src/waiting/wait-loop.js'
import { WaitQueues } from '../../../src/waiting/wait-queue.js'
import { Wakeups } from '../../../src/waiting/wakeups.js'
import { FakeClock } from './fake-clock.js'
import { FakePort } from './fake-port.js'

export const CHANNEL = 'redisson_lock__channel:{a}'
/** What a grant takes the lock for, ms. */
export const LEASE_MS = 30_000

/** An error after which a wait makes another attempt. */
export class TransientError extends Error {}

export interface WaitOptions {
  readonly waitTimeMs?: number
  readonly signal?: AbortSignal
}

/** A wait in progress. */
export interface Waiting {
  readonly promise: Promise<string | undefined>
  /** When it settled, by the fake clock. */
  at: number | undefined
  /** What it resolved to or rejected with. */
  value: unknown
}

/** Waits for one lock, on a fake clock and a fake port. Each test has its own. */
export class WaitFixture {
  readonly clock = new FakeClock()
  readonly port = new FakePort(this.clock)
  readonly tools = this.#newTools()
  /** What random pauses are computed from, in [0, 1). */
  fraction = 0.5
  /** The channels that Redis refused, as reported. */
  readonly refused: string[] = []
  readonly signals: AbortSignal[] = []
  /** Until when the lock is held by another process, by the fake clock: attempts are refused until then. */
  takenUntil = 0
  /** How long an attempt takes, ms: half of it until Redis executes it, half until the reply arrives. */
  attemptMs = 0
  failure: Error | undefined
  /** The callers of the attempts so far, and when each attempt was made. */
  readonly attempts: { caller: string; at: number }[] = []
  /** The grants that came too late for their callers. */
  readonly undone: string[] = []

  expectNothingLeft(): void {
    assert.equal(this.tools.waitQueues.size, 0, 'no waiter is left in a queue')
    assert.equal(this.tools.waitQueues.at('a'), undefined, 'no queue is left')
    assert.equal(this.clock.pending, 0, 'no timer is left')
    assert.deepEqual(this.port.channels, [], 'no subscription is left')
    assert.equal(this.port.count('SUBSCRIBE'), this.port.count('UNSUBSCRIBE'))
    for (const signal of this.signals) assert.deepEqual(getEventListeners(signal, 'abort'), [], 'no listener is left')
  }

  waitOf(caller: string, { waitTimeMs = Number.POSITIVE_INFINITY, signal }: WaitOptions = {}): Wait<string> {
    if (signal) this.signals.push(signal)
    return {
      lockName: 'a',
      queue: 'a',
      channel: CHANNEL,
      deadlineAt: this.clock.now() + waitTimeMs,
      signal,
      isTransient: (error) => error instanceof TransientError,
      attempt: this.attemptOf(caller),
    }
  }

  attemptOf(caller: string): Attempt<string> {
    return {
      run: async () => {
        this.attempts.push({ caller, at: this.clock.now() })
        await this.travel(this.attemptMs / 2)
        const leftMs = this.takenUntil - this.clock.now()
        if (leftMs <= 0 && !this.failure) this.takenUntil = this.clock.now() + LEASE_MS
        await this.travel(this.attemptMs / 2)
        if (this.failure) throw this.failure
        if (leftMs <= 0) return { is: 'granted', value: caller, leaseMs: LEASE_MS }
        return { is: 'refused', heldForMs: leftMs === Number.POSITIVE_INFINITY ? -1 : leftMs }
      },
      undo: (left) => {
        for (const outcome of left) {
          if (outcome.is !== 'granted') continue
          this.undone.push(outcome.value)
          this.takenUntil = 0
        }
      },
    }
  }

  async travel(ms: number): Promise<void> {
    if (ms > 0) await new Promise<void>((resolve) => void this.clock.after(ms, resolve))
  }

  start(caller: string, options: WaitOptions = {}): Waiting {
    const { clock, tools } = this
    const waiting: Waiting = { promise: waitFor(this.waitOf(caller, options), tools), at: undefined, value: undefined }
    const settled = (value: unknown): void => {
      waiting.at = clock.now()
      waiting.value = value
    }
    waiting.promise.then(settled, settled)
    return waiting
  }

  /** The other process releases the lock. */
  release(): void {
    this.takenUntil = 0
    this.port.redis.publish(CHANNEL, '0')
  }

  /** When the attempts were made, ms after `since`. */
  attemptsSince(since: number): number[] {
    return this.attempts.map(({ at }) => at - since)
  }

  /** Ends waits that the test no longer needs. */
  async end(...waits: Waiting[]): Promise<void> {
    this.tools.waitQueues.dismissAll(() => new Error('the test is over'))
    await Promise.allSettled(waits.map(({ promise }) => promise))
  }

  #newTools(): WaitTools {
    const { clock, port } = this
    const random: Random = { uuid: () => 'id', fraction: () => this.fraction }
    const wakeups = new Wakeups(port, clock, random, { onRefused: (channel) => this.refused.push(channel) })
    port.listen({
      reconnected: () => {},
      subscriptionLost: (name) => wakeups.subscriptionLost(name),
      resubscribed: (name, refusal) => wakeups.resubscribed(name, refusal),
    })
    return { clock, random, waitQueues: new WaitQueues(clock, wakeups, new Inbox('id', wakeups)) }
  }
}
