import { EventEmitter } from 'node:events'
import type { RedisPort } from './adapters/port.js'
import { type Clock, SystemClock } from './clock.js'
import { ClientClosedError, impediment } from './errors.js'
import { Owners } from './holder.js'
import { Scripts } from './lua/run.js'
import type { ClientEvents, Context } from './primitives/context.js'
import type { Hold } from './primitives/hold.js'
import { type HoldOptions, Lock } from './primitives/lock.js'
import { runInNewScope, runOutside } from './primitives/ownership.js'
import type { Possession } from './primitives/possession.js'
import { type Random, systemRandom } from './random.js'
import { Settlements } from './settlements.js'
import { checkDuration, checkOptionalDuration, LEAST_LEASE_MS, ownOptions } from './validate.js'
import { Lines } from './waiting/lines.js'
import { Wakeups } from './waiting/wakeups.js'
import { Watchdog } from './watchdog.js'

export interface ClientOptions {
  /**
   * Lease of a hold without `leaseTimeMs`, ms; renewed every third of it. Default 30 000.
   * Redisson's `lockWatchdogTimeout`: use the same value on both sides.
   */
  lockWatchdogTimeoutMs?: number | undefined
  /** How long Redis may take to answer one command, ms. Default 3 000. Redisson's `timeout`. */
  commandTimeoutMs?: number | undefined
  /** Default of the option of the same name, ms. Default: no limit. */
  maxHoldMs?: number | undefined
  /** Default of the option of the same name, ms. Default: never. */
  warnAfterMs?: number | undefined
}

export interface CloseOptions {
  /** How long holds may go on before they are aborted and released, ms from the call; default 0. */
  drainMs?: number | undefined
}

/** @internal The seams that unit tests and the simulator replace. */
export interface Seams {
  clock: Clock
  random: Random
}

type CheckedOptions = Pick<Context, 'watchdogTimeoutMs' | 'commandTimeoutMs' | 'maxHoldMs' | 'warnAfterMs'>

export const CLIENT_OPTIONS = ['lockWatchdogTimeoutMs', 'commandTimeoutMs', 'maxHoldMs', 'warnAfterMs']

function checkDrain(options: CloseOptions, defaultMs: number): number {
  const { drainMs = defaultMs } = ownOptions(options, ['drainMs'])
  return checkDuration('drainMs', drainMs, 0)
}

/** @throws {ConfigError} a value that cannot work */
export function checkClientOptions(options: ClientOptions): CheckedOptions {
  const { lockWatchdogTimeoutMs = 30_000, commandTimeoutMs = 3_000, maxHoldMs, warnAfterMs } = options
  return {
    watchdogTimeoutMs: checkDuration('lockWatchdogTimeoutMs', lockWatchdogTimeoutMs, LEAST_LEASE_MS),
    commandTimeoutMs: checkDuration('commandTimeoutMs', commandTimeoutMs, 1),
    maxHoldMs: checkOptionalDuration('maxHoldMs', maxHoldMs, 1),
    warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1),
  }
}

/**
 * One member of the fleet: it has an id of its own, as each Redisson instance has, and hands out locks. One for each
 * process and Redis is enough.
 */
export class Client extends EventEmitter<ClientEvents> {
  /** A random UUID, made with the client: the first half of every holder. */
  readonly id: string
  readonly #port: RedisPort
  readonly #context: Context
  readonly #wakeups: Wakeups
  readonly #warned = new Set<string>()
  #onReleased: (() => void) | undefined
  #closing: Promise<void> | undefined
  #cutDrain: (() => void) | undefined
  #isDrained = false

  /** @internal Clients come from `connect`. */
  constructor(port: RedisPort, options: ClientOptions = {}, seams?: Partial<Seams>) {
    super()
    const clock = seams?.clock ?? new SystemClock()
    const random = seams?.random ?? systemRandom
    const checked = checkClientOptions(options)
    const scripts = new Scripts(port, clock, checked.commandTimeoutMs)
    this.id = random.uuid()
    this.#port = port
    this.#wakeups = new Wakeups(port, (channel, error) => this.#subscriptionRefused(channel, error))
    this.#context = {
      clientId: this.id,
      owners: new Owners(),
      clock,
      random,
      scripts,
      lines: new Lines(this.#wakeups),
      watchdog: new Watchdog(clock, random, scripts, checked.watchdogTimeoutMs, (error) => this.#renewalRefused(error)),
      settlements: new Settlements(clock, random, scripts),
      possessions: new Possessions(() => this.#onReleased?.()),
      ...checked,
      assertOpen: (lockName) => {
        if (this.#closing !== undefined) throw new ClientClosedError(lockName)
      },
      assertUsable: (lockName) => {
        if (this.#isDrained) throw new ClientClosedError(lockName)
      },
      emit: (event, ...details) => this.#tell(event, details),
    }
    port.listen({
      reconnected: () => {
        scripts.reconnects++
        this.#context.watchdog.audit()
      },
      resubscribed: (refused) => this.#wakeups.resubscribed(refused),
    })
  }

  /**
   * The re-entrant lock of this name. Costs nothing: no command is sent, and nothing is kept.
   * @param name  any non-empty text up to 1 MiB; the key in Redis is the name itself, as with Redisson
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getLock`
   */
  getLock(name: string): Lock {
    return new Lock(this.#context, name)
  }

  /**
   * Run `fn` so that its call chain is one owner, as a Java thread is one: inside it `lock.unlock()`,
   * `lock.isHeldByCurrentOwner()` and `lock.getHoldCount()` work as in Redisson, and `lock()` re-enters what the scope
   * holds, whichever of its tasks took it: give tasks that must exclude each other a scope each.
   * What is still held when `fn` ends stays held.
   * @returns what `fn` returned
   */
  runInScope<T>(fn: () => T): T {
    return runInNewScope(this.#context, fn)
  }

  /**
   * Go on with a hold that another client let go with `hold.handOver()`: a job passed on, a step of a saga. The lock is
   * not free for a moment. Only one can adopt a hold; it gets one hold, whatever the hold count was, with a lease from
   * now. Whoever still uses the old one is told that it is lost.
   * @param holder  what `handOver()` answered
   * @throws {NotHeldError} that holder does not hold the lock: its lease has ended, or it was adopted before
   * @throws {OutcomeUnknownError} Redis did not answer; what it may have done is released in the background
   */
  async adopt(lockName: string, holder: string, options: HoldOptions = {}): Promise<Hold> {
    return await this.getLock(lockName).adopt(holder, options)
  }

  /**
   * End the client: new work is refused and waiters are rejected with `ClientClosedError` at once; holds may go on for
   * `drainMs`, then they abort and are released; then the connections that the client opened are closed. Idempotent:
   * every call answers the same promise, and a later call with a shorter `drainMs` cuts the drain.
   * @see Redisson `RedissonClient.shutdown`, which leaves its locks to their leases
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const drainMs = checkDrain(options, 0)
    this.#closing ??= this.#close()
    const cancel = this.#context.clock.after(drainMs, () => this.#cutDrain?.())
    await this.#closing.finally(cancel)
  }

  /** Closes at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /**
   * Close on SIGTERM and SIGINT, then let the signal end the process as it would have. A second signal cuts the drain.
   * @param options  `drainMs` as for `close`; default 10 000
   * @returns how to take the handlers away again
   */
  closeOnSignals(options: CloseOptions = {}): () => void {
    const drainMs = checkDrain(options, 10_000)
    const signals = ['SIGTERM', 'SIGINT'] as const
    const stop = (): void => {
      for (const signal of signals) process.off(signal, onSignal)
    }
    let count = 0
    const onSignal = (signal: NodeJS.Signals): void => {
      const isFirst = count++ === 0
      const closed = this.close({ drainMs: isFirst ? drainMs : 0 })
      if (!isFirst) return void closed.catch(() => {})
      void closed
        .catch((error: unknown) => this.#tell('warning', [error as Error]))
        .then(() => {
          stop()
          // Somebody else may handle the signal, too; then ending the process is up to them.
          if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
        })
    }
    for (const signal of signals) process.on(signal, onSignal)
    return stop
  }

  async #close(): Promise<void> {
    const { clock, lines, possessions, scripts, settlements, watchdog } = this.#context
    lines.dismissAll((lockName) => new ClientClosedError(lockName))
    await this.#drained()
    this.#isDrained = true
    for (const possession of [...possessions]) {
      possession.loseAll('closed')
      possession.settle()
    }
    watchdog.close()
    // What is in flight may still bring a grant to give back: until all is quiet for one turn of the event loop.
    do {
      await settlements.close()
      await scripts.idle()
      await new Promise<void>((resolve) => void clock.after(0, resolve))
    } while (settlements.size > 0 || !scripts.isIdle)
    await this.#port.close()
  }

  async #drained(): Promise<void> {
    const { possessions } = this.#context
    await new Promise<void>((resolve) => {
      this.#cutDrain = resolve // `close` sets the time
      this.#onReleased = () => {
        if (possessions.size === 0) resolve()
      }
      this.#onReleased()
    })
    this.#onReleased = undefined
    this.#cutDrain = undefined
  }

  #subscriptionRefused(channel: string, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause)
    const message =
      `Redis refused to let this user listen on ${JSON.stringify(channel)} (${why}): waiters poll instead. ` +
      'Allow SUBSCRIBE and the channels &redisson_lock__channel:* in its ACL'
    this.#tell('warning', [impediment('SUBSCRIBE_REFUSED', message, { cause })])
  }

  #renewalRefused(cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause)
    const message = `Redis refuses to renew what this client holds (${why}): it will be lost when its lease ends`
    this.#tell('warning', [impediment('RENEWAL_REFUSED', message, { cause })])
  }

  /** A listener that throws is the user's bug: it must not stop a renewal, so it is reported as a process warning. */
  #tell<E extends keyof ClientEvents>(event: E, details: ClientEvents[E]): void {
    const { code } = details[0] as { code?: string }
    if (event === 'warning' && code?.endsWith('_REFUSED')) {
      if (this.#warned.has(code)) return
      this.#warned.add(code)
    }
    try {
      const emit = this.emit as (event: keyof ClientEvents, ...details: unknown[]) => boolean
      runOutside(() => emit.call(this, event, ...details))
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
    }
  }
}

/** What the client holds; tells when one is gone, for the drain. */
class Possessions extends Set<Possession> {
  readonly #onDeleted: () => void

  constructor(onDeleted: () => void) {
    super()
    this.#onDeleted = onDeleted
  }

  override delete(possession: Possession): boolean {
    const wasThere = super.delete(possession)
    if (wasThere) this.#onDeleted()
    return wasThere
  }
}
