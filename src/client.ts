import { EventEmitter } from 'node:events'
import type { RedisPort } from './adapters/port.js'
import { type ClientOptions, checkClientOptions } from './client-options.js'
import { Durability } from './delivery/durability.js'
import { IdempotencyKeys } from './delivery/idempotency.js'
import { BackgroundRetries } from './delivery/lost-replies.js'
import { Replication } from './delivery/replica-acks.js'
import { Scripts } from './delivery/scripts.js'
import { ClientClosedError, ConfigError, clientWarning } from './errors.js'
import type { HoldOptions } from './locks/base-lock.js'
import { runOutside } from './locks/call-chain.js'
import type { ClientEvents } from './locks/context.js'
import type { Hold } from './locks/hold.js'
import { FairKind, NonReentrantFairKind } from './locks/kinds/fair.js'
import { FasterMultiKind } from './locks/kinds/faster-multi.js'
import { FencedKind, FencedLock } from './locks/kinds/fenced.js'
import { NON_REENTRANT, REENTRANT } from './locks/kinds/plain.js'
import { ReadWriteLock } from './locks/kinds/read-write.js'
import { SpinKind, type SpinLockOptions } from './locks/kinds/spin.js'
import { STRING } from './locks/kinds/string.js'
import type { Lease, LeaseContext } from './locks/lease.js'
import { LeaseRegistry } from './locks/lease-registry.js'
import { Lock } from './locks/lock.js'
import { runInNewScope } from './locks/ownership.js'
import { CountDownLatch } from './synchronizers/count-down-latch.js'
import { PermitExpirableSemaphore } from './synchronizers/permit-expirable-semaphore.js'
import { Semaphore } from './synchronizers/semaphore.js'
import { type Clock, SystemClock } from './util/clock.js'
import { DenseSet } from './util/collections.js'
import { type Random, systemRandom } from './util/random.js'
import { checkDuration, ownOptions } from './util/validate.js'
import { WaitQueues } from './waiting/wait-queue.js'
import { Wakeups } from './waiting/wakeups.js'
import { type StandInTerms, ThreadClient } from './watchdog/thread-client.js'
import { Watchdog } from './watchdog/watchdog.js'
import { markedId, Owners } from './wire/holder.js'
import { checkSlots, mappedName } from './wire/names.js'

export interface CloseOptions {
  /** How long holds may go on before they are aborted and released, ms from the call; default 0. */
  drainMs?: number | undefined
}

/** @internal The seams that unit tests and the simulator replace. */
export interface Seams {
  clock: Clock
  random: Random
}

function checkDrain(options: CloseOptions, defaultMs: number): number {
  const { drainMs = defaultMs } = ownOptions(options, ['drainMs'])
  return checkDuration('drainMs', drainMs, 0)
}

/**
 * One member of the fleet: it has an id of its own, as each Redisson instance has, and hands out locks. One for each
 * process and Redis is enough.
 */
export class Client extends EventEmitter<ClientEvents> {
  /** A random UUID, made with the client: the first half of every holder. Its last eight digits are the same for all clients. */
  readonly id: string
  readonly #port: RedisPort
  readonly #context: LeaseContext
  readonly #fenced = new FencedKind()
  readonly #fair: FairKind
  readonly #nonReentrantFair: NonReentrantFairKind
  readonly #warned = new Set<string>()
  readonly #renewalTerms: Omit<StandInTerms, 'connection' | 'maxBlockMs' | 'file'>
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
    const scripts = new Scripts(port, clock, checked.commandTimeoutMs, (error) => this.#crossSlotRefused(error))
    this.id = markedId(random.uuid())
    this.#fair = new FairKind(checked.fairWaitMs)
    this.#nonReentrantFair = new NonReentrantFairKind(checked.fairWaitMs)
    this.#port = port
    this.#renewalTerms = {
      leaseTimeMs: checked.watchdogTimeoutMs,
      periodMs: checked.watchdogTimeoutMs / 3,
      batchSize: checked.watchdogBatchSize,
      commandTimeoutMs: checked.commandTimeoutMs,
    }
    const wakeups = new Wakeups(port, (channel, error) => this.#subscriptionRefused(channel, error))
    this.#context = {
      clientId: this.id,
      owners: new Owners(),
      clock,
      random,
      scripts,
      waitQueues: new WaitQueues(clock, wakeups, this.id),
      watchdog: new Watchdog(
        clock,
        random,
        scripts,
        checked.watchdogTimeoutMs,
        (error) => this.#renewalRefused(error),
        checked.watchdogBatchSize,
      ),
      backgroundRetries: new BackgroundRetries(clock, random, scripts),
      idempotencyKeys: new IdempotencyKeys(clock, this.id, scripts, checked.commandTimeoutMs),
      replication: new Replication(
        clock,
        scripts,
        (checked.checkLockSyncedSlaves ?? port.isReplicated) ? checked.slavesSyncTimeoutMs : undefined,
        (warning) => this.#tell('warning', [warning]),
        checked.checkLockFsynced ? new Durability(scripts, checked.commandTimeoutMs) : undefined,
      ),
      leases: new LeaseRegistry<Lease>(() => this.#onReleased?.()),
      attempts: new DenseSet(),
      hasTurnQueue: !scripts.isCluster,
      sections: new DenseSet(() => this.#onReleased?.()),
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
      confirmsGrants: this.#context.replication.isWanted,
      reconnected: () => {
        scripts.reconnects++
        this.#context.watchdog.audit()
      },
      subscriptionLost: (channel) => wakeups.subscriptionLost(channel),
      resubscribed: (channel, refusal) => wakeups.resubscribed(channel, refusal),
      warning: (warning) => this.warnSoon(warning),
    })
  }

  /**
   * The re-entrant lock of this name. Costs nothing: no command is sent, and nothing is kept.
   * @param name  any non-empty text up to 1 MiB; the key in Redis is the name itself, as with Redisson
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getLock`
   */
  getLock(name: string): Lock {
    return new Lock(this.#context, REENTRANT, this.#key(name))
  }

  /**
   * The re-entrant lock that serves in the order of asking, across clients and languages. Each waiter has its place in
   * Redis; one that died costs the others a few seconds when its turn comes. Choose it where nobody may be passed over.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getFairLock`
   */
  getFairLock(name: string): Lock {
    return new Lock(this.#context, this.#fair, this.#key(name))
  }

  /**
   * The lock that nobody can take again: asking inside its own call chain is a `SelfDeadlockError` at once. Choose it
   * where a nested call would be a mistake. Others see a plain lock.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getNonReentrantLock`
   */
  getNonReentrantLock(name: string): Lock {
    return new Lock(this.#context, NON_REENTRANT, this.#key(name))
  }

  /**
   * The fair lock that nobody can take again.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getNonReentrantFairLock`
   */
  getNonReentrantFairLock(name: string): Lock {
    return new Lock(this.#context, this.#nonReentrantFair, this.#key(name))
  }

  /**
   * Many readers or one writer.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getReadWriteLock`
   */
  getReadWriteLock(name: string): ReadWriteLock {
    return new ReadWriteLock(this.#context, this.#key(name))
  }

  /**
   * The re-entrant lock whose holds carry a number that only rises: `hold.fencingToken`. Choose it where the resource can
   * check that number, which protects it even from a holder that was paused beyond its lease.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getFencedLock`
   */
  getFencedLock(name: string): FencedLock {
    return new FencedLock(this.#context, this.#fenced, this.#key(name))
  }

  /**
   * The re-entrant lock that is waited for by asking again and again, without any subscription. Choose it for very many
   * names that are held for a moment each, where subscriptions would cost more than they save.
   * @throws {ConfigError} the name cannot be a key, or the back-off cannot work
   * @see Redisson `RedissonClient.getSpinLock`
   */
  getSpinLock(name: string, options?: SpinLockOptions): Lock {
    return new Lock(this.#context, new SpinKind(name, options), this.#key(name))
  }

  /**
   * The lock of `SET key value NX PX` and compare-and-delete, to share with services that use node-redlock, redis-py,
   * redsync and the like while they are moved one by one. They poll and publish nothing, so waiting for them is polling.
   * @throws {ConfigError} the name cannot be a key
   */
  getStringLock(name: string): Lock {
    return new Lock(this.#context, STRING, this.#key(name))
  }

  /**
   * Several values of one group as one lock, all or none, at the price of one: `('order:1001', ['line 1', 'line 2'])`.
   * Those with a value in common exclude each other.
   * @param values  any texts; their order and repetitions do not count
   * @throws {ConfigError} the group cannot be a key, or there are no values
   * @see Redisson `RedissonClient.getMultiLock(group, values)`, with `StringCodec` in its configuration
   */
  getFasterMultiLock(group: string, values: readonly string[]): Lock {
    return new Lock(this.#context, new FasterMultiKind(group, values), this.#key(group))
  }

  /**
   * Permits that anybody may take and give back. Who crashes takes them along: mostly you want
   * `getPermitExpirableSemaphore`.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getSemaphore`
   */
  getSemaphore(name: string): Semaphore {
    return new Semaphore(this.#context, this.#key(name, 'semaphore name'))
  }

  /**
   * Permits with ids and leases: at most so many at once across the fleet. What a crashed holder had comes back when its
   * lease ends.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getPermitExpirableSemaphore`
   */
  getPermitExpirableSemaphore(name: string): PermitExpirableSemaphore {
    return new PermitExpirableSemaphore(this.#context, this.#key(name, 'semaphore name'))
  }

  /**
   * A latch that opens when so many things are done, for everybody who waits for that.
   * @throws {ConfigError} the name cannot be a key
   * @see Redisson `RedissonClient.getCountDownLatch`
   */
  getCountDownLatch(name: string): CountDownLatch {
    return new CountDownLatch(this.#context, this.#key(name, 'latch name'))
  }

  /**
   * Run `fn` so that its call chain is one owner, as a Java thread is one: inside it `lock.unlock()`,
   * `lock.isHeldByCurrentOwner()` and `lock.getHoldCount()` work as in Redisson, and `lock()` re-enters what the scope
   * holds, whichever of its tasks took it: give tasks that must exclude each other a scope each.
   * What is still held when `fn` ends stays held.
   * @returns what `fn` returned
   * @throws {ConfigError} the client has `implicitReentry: false`
   */
  runInScope<T>(fn: () => T): T {
    if (!this.#context.implicitReentry) {
      throw new ConfigError(
        'runInScope',
        undefined,
        'a client without implicitReentry: false, which follows no call chain',
      )
    }
    return runInNewScope(this.#context, fn)
  }

  /**
   * Go on with a hold that another client let go with `hold.handOver()`: a job passed on, a step of a saga. The lock is
   * not free for a moment. Only one can adopt a hold; it gets one hold, whatever the hold count was, with a lease from
   * now. Whoever still uses the old one is told that it is lost.
   * The same for another kind of lock: `client.getFairLock(lockName).adopt(holder)`.
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

  /** @internal Tell of what was found before anybody could listen. */
  warnSoon(warning: Error): void {
    this.#context.clock.after(0, () => this.#tell('warning', [warning]), false)
  }

  /**
   * @internal Let a thread renew what is held while this one is busy; resolves when it is connected.
   * @throws as `StandIn.start`; then this client is closed
   */
  async protect(terms: Pick<StandInTerms, 'connection' | 'maxBlockMs' | 'file'>): Promise<void> {
    const { clock, random, watchdog } = this.#context
    const onWarning = (warning: Error): void => this.#tell('warning', [warning])
    const onRefused = (error: unknown): void => this.#renewalRefused(error)
    try {
      const standIn = new ThreadClient(clock, random, { ...this.#renewalTerms, ...terms }, onWarning, onRefused)
      await standIn.start()
      watchdog.threadClient = standIn
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /** What an object of this name is called in Redis. */
  #key(name: string, noun?: string): string {
    const key = mappedName(this.#context.nameMapper, name, noun)
    return this.#port.isCluster ? checkSlots(key, noun) : key
  }

  async #close(): Promise<void> {
    const {
      clock,
      waitQueues: lines,
      leases,
      idempotencyKeys: receipts,
      scripts,
      sections,
      backgroundRetries: settlements,
      watchdog,
    } = this.#context
    lines.dismissAll((lockName) => new ClientClosedError(lockName))
    await this.#drained()
    for (const section of sections) section.giveUp()
    this.#isDrained = true
    for (const lease of leases) {
      lease.loseAll('closed')
      lease.settle()
    }
    watchdog.close()
    lines.close()
    // What is in flight may still bring a grant to give back: until all is quiet for one turn of the event loop.
    do {
      await settlements.close()
      await receipts.flush()
      await scripts.idle()
      await new Promise<void>((resolve) => void clock.after(0, resolve))
    } while (settlements.size > 0 || !receipts.isFlushed || !scripts.isIdle)
    await watchdog.threadClient?.close()
    await this.#port.close()
  }

  async #drained(): Promise<void> {
    const { leases, sections } = this.#context
    await new Promise<void>((resolve) => {
      this.#cutDrain = resolve // `close` sets the time
      this.#onReleased = () => {
        if (leases.size + sections.size === 0) resolve()
      }
      this.#onReleased()
    })
    this.#onReleased = undefined
    this.#cutDrain = undefined
  }

  #subscriptionRefused(channel: string, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause)
    const message =
      `Nobody can listen on ${JSON.stringify(channel)} (${why}): waiters are woken later, or poll. ` +
      'If it is Redis that refuses, allow this user SUBSCRIBE and the channels &redisson_* and &holdfast_inbox:* in its ACL'
    this.#tell('warning', [clientWarning('SUBSCRIBE_REFUSED', message, { cause })])
  }

  #renewalRefused(cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause)
    const message = `Redis refuses to renew what this client holds (${why}): it will be lost when its lease ends`
    this.#tell('warning', [clientWarning('RENEWAL_REFUSED', message, { cause })])
  }

  #crossSlotRefused(cause: unknown): void {
    const message =
      'Redis refuses keys of different slots in one command (CROSSSLOT): this is a node of a cluster, or a proxy before one. ' +
      'From now on each lock is sent by itself, and renewals by slot. Connect with clusterServersConfig, or a cluster client, ' +
      'unless the proxy is the only way in'
    this.#tell('warning', [clientWarning('CROSSSLOT_REFUSED', message, { cause })])
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
