// Client: creates locks and synchronizers.
import type { RedisPort } from './adapters/port.js'
import { type ContextOwner, newContext, type Seams } from './client-context.js'
import { ClientEmitter } from './client-events.js'
import { type ClientOptions, checkClientOptions } from './client-options.js'
import { ConfigError } from './errors.js'
import { Fleet } from './fleet/fleet.js'
import { Presence } from './fleet/presence.js'
import { runOutside } from './locks/call-chain.js'
import type { ClientEvents } from './locks/context.js'
import { Election, type ElectionOptions } from './locks/election.js'
import { FencedLock } from './locks/fenced-lock.js'
import type { Hold } from './locks/hold.js'
import { FairKind } from './locks/kinds/fair.js'
import { FasterMultiKind } from './locks/kinds/faster-multi.js'
import { FencedKind } from './locks/kinds/fenced.js'
import { orderedKind } from './locks/kinds/ordered.js'
import { NON_REENTRANT, REENTRANT } from './locks/kinds/plain.js'
import { SpinKind, type SpinLockOptions } from './locks/kinds/spin.js'
import { STRING } from './locks/kinds/string.js'
import { KINDS, type NamedKindId } from './locks/kinds/table.js'
import type { LeaseContext } from './locks/lease.js'
import { Lock } from './locks/lock.js'
import { getMultiLock } from './locks/multi-lock.js'
import {
  checkOrder,
  checkQueue,
  type HoldOptions,
  type LockedCallback,
  type OrderOptions,
  type QueueOptions,
  type WithLockOptions,
} from './locks/options.js'
import { runInNewScope } from './locks/ownership.js'
import { ReadWriteLock } from './locks/read-write-lock.js'
import { warned } from './locks/reporting/observation.js'
import { clientClosed, clientOpened } from './locks/reporting/waiting-calls.js'
import { checkNames } from './locks/with-lock.js'
import { emitWarning } from './platform.js'
import { type CloseOptions, closeOnSignals, Shutdown, type SignalOptions } from './shutdown.js'
import { CountDownLatch } from './synchronizers/count-down-latch.js'
import { PermitExpirableSemaphore } from './synchronizers/permit-expirable-semaphore.js'
import { Semaphore } from './synchronizers/semaphore.js'
import { SystemClock } from './util/clock.js'
import { systemRandom } from './util/random.js'
import { checkDuration, ownOptions } from './util/validate.js'
import { renewalRefused, subscriptionRefused } from './warnings.js'
import type { ThreadSeams, ThreadTerms } from './watchdog/thread-client.js'
import { newWebLockManager, type WebLockManager } from './web-locks/manager.js'
import { markedId } from './wire/client-id.js'
import { checkSlots, keyOf } from './wire/names.js'

/**
 * Creates locks and synchronizers. Each client has its own id, as each Redisson instance does. One client per process and
 * Redis is enough.
 */
export class Client extends ClientEmitter {
  /** The first half of every holder: a random UUID, created with the client. All clients' ids end in the same 8 digits. */
  readonly id: string
  readonly #port: RedisPort
  readonly #context: LeaseContext
  readonly #fenced = new FencedKind()
  readonly #fair: FairKind
  readonly #nonReentrantFair: FairKind
  readonly #warned = new Set<string>()
  readonly #renewalTerms: Omit<ThreadTerms, 'connection' | 'maxBlockMs' | 'file'>
  readonly #shutdown = new Shutdown()
  readonly #presence: Presence | undefined
  /** All locks in Redis, and all clients: who holds what, and who is waiting. */
  readonly fleet: Fleet
  #locks: WebLockManager | undefined

  /** @internal Clients come from `connect`. */
  constructor(port: RedisPort, options: ClientOptions = {}, seams?: Partial<Seams>) {
    super()
    if (typeof (port as Partial<RedisPort> | undefined)?.isErrorReply !== 'function') {
      throw new ConfigError(
        'Client',
        undefined,
        'a client from connect(): write `await connect(url)`, not `new Client()`',
      )
    }
    const { clock = new SystemClock(), random = systemRandom } = seams ?? {}
    const checked = checkClientOptions(options)
    this.id = markedId(random.uuid())
    this.#fair = new FairKind('fair', checked.fairLockWaitTimeoutMs)
    this.#nonReentrantFair = new FairKind('nonReentrantFair', checked.fairLockWaitTimeoutMs)
    this.#port = port
    this.#renewalTerms = {
      leaseTimeMs: checked.lockWatchdogTimeoutMs,
      periodMs: checked.lockWatchdogTimeoutMs / 3,
      batchSize: checked.lockWatchdogBatchSize,
      commandTimeoutMs: checked.commandTimeoutMs,
    }
    this.#context = newContext(port, checked, { clock, random }, this.#asOwner())
    clientOpened(this.#context)
    this.fleet = new Fleet(
      this.#context,
      (name) => this.#key(name),
      () => this.#presence,
    )
    const { scripts, replication, watchdog, wakeups } = this.#context
    if (checked.inspection) this.#presence = new Presence(this.#context, checked.inspection)
    port.listen({
      confirmsGrants: replication.isWanted,
      reconnected: () => {
        scripts.reconnected()
        watchdog.audit()
        this.#presence?.renew()
      },
      subscriptionLost: (channel) => wakeups.subscriptionLost(channel),
      resubscribed: (channel, refusal) => wakeups.resubscribed(channel, refusal),
      warning: (warning) => this.warnSoon(warning),
    })
  }

  /**
   * The Web Locks API, as `navigator.locks`, across all clients of this Redis: requests are granted in order.
   * @example `await client.locks.request('lock:order:1001', async () => await charge('1001'))`
   */
  get locks(): WebLockManager {
    this.#locks ??= newWebLockManager(this.#context, (name) => this.#key(name))
    return this.#locks
  }

  /**
   * The re-entrant lock with this name. It costs nothing: no command is sent, and nothing is stored.
   * @param name  any non-empty text up to 1 MiB; the key in Redis is the name itself, as with Redisson
   * @param options  for a lock that is granted in order
   * @throws {ConfigError} the name cannot be a key, or an option cannot work
   * @example `await client.getLock('lock:order:1001').withLock(async () => await charge('1001'))`
   * @see Redisson `RedissonClient.getLock`
   */
  getLock(name: string, options?: OrderOptions): Lock {
    const key = this.#key(name)
    const ordered = options && checkOrder(options, name)
    return new Lock(this.#context, ordered ? orderedKind(ordered.maxWaiters) : REENTRANT, name, key)
  }

  /**
   * The re-entrant lock that is granted in the order of requests, across clients and languages. Each waiter has its place
   * in Redis; a dead one costs the others a few seconds when its turn comes. Choose it where no waiter may be overtaken.
   * @param options  how many may wait
   * @throws {ConfigError} the name cannot be a key, or an option cannot work
   * @example `await client.getFairLock('lock:ticket-desk').withLock(async () => await serve())`
   * @see Redisson `RedissonClient.getFairLock`
   */
  getFairLock(name: string, options?: QueueOptions): Lock {
    return this.#fairLock(this.#fair, name, options)
  }

  /**
   * The lock that cannot be re-entered: a request inside its own call chain is a `SelfDeadlockError` at once. Choose it
   * where a nested call would be a mistake. To other clients it is a plain lock.
   * @throws {ConfigError} the name cannot be a key
   * @example `await client.getNonReentrantLock('lock:import').withLock(async () => await runImport())`
   * @see Redisson `RedissonClient.getNonReentrantLock`
   */
  getNonReentrantLock(name: string): Lock {
    return new Lock(this.#context, NON_REENTRANT, name, this.#key(name))
  }

  /**
   * The fair lock that cannot be re-entered.
   * @param options  as of `getFairLock`
   * @throws {ConfigError} the name cannot be a key, or an option cannot work
   * @example `await client.getNonReentrantFairLock('lock:import').withLock(async () => await runImport())`
   * @see Redisson `RedissonClient.getNonReentrantFairLock`
   */
  getNonReentrantFairLock(name: string, options?: QueueOptions): Lock {
    return this.#fairLock(this.#nonReentrantFair, name, options)
  }

  /**
   * Many readers or one writer.
   * @param options  for a lock that is granted in order
   * @throws {ConfigError} the name cannot be a key, or an option cannot work
   * @example `await client.getReadWriteLock('lock:prices').readLock().withLock(async () => await readPrices())`
   * @see Redisson `RedissonClient.getReadWriteLock`
   */
  getReadWriteLock(name: string, options?: OrderOptions): ReadWriteLock {
    return new ReadWriteLock(this.#context, name, this.#key(name), options)
  }

  /**
   * The re-entrant lock whose holds carry a fencing token, an ever-increasing number: `hold.fencingToken`. Choose it where
   * the resource can check the token: that protects it even from a holder that was paused beyond its lease.
   * @throws {ConfigError} the name cannot be a key
   * @example `await client.getFencedLock('lock:ledger').withLock(async ({ fencingToken }) => await write(fencingToken))`
   * @see Redisson `RedissonClient.getFencedLock`
   */
  getFencedLock(name: string): FencedLock {
    return new FencedLock(this.#context, this.#fenced, name, this.#key(name))
  }

  /**
   * The re-entrant lock whose waiters poll, without subscriptions. Choose it for very many names that are held for a moment
   * each, where subscriptions would cost more than they save.
   * @throws {ConfigError} the name cannot be a key, or the back-off cannot work
   * @example `await client.getSpinLock('lock:session:7').withLock(async () => await touch())`
   * @see Redisson `RedissonClient.getSpinLock`
   */
  getSpinLock(name: string, options?: SpinLockOptions): Lock {
    const key = this.#key(name)
    return new Lock(this.#context, new SpinKind(name, options), name, key)
  }

  /**
   * The lock of `SET key value NX PX` and compare-and-delete, to share with services that use node-redlock, redis-py,
   * redsync and the like while they are migrated one by one. Those poll and publish nothing, so waiting for them is polling.
   * @throws {ConfigError} the name cannot be a key
   * @example `await client.getStringLock('lock:order:1001').withLock({ leaseTimeMs: 10_000 }, async () => await charge('1001'))`
   */
  getStringLock(name: string): Lock {
    return new Lock(this.#context, STRING, name, this.#key(name))
  }

  /**
   * Several values of one group as one lock, all or none, at the price of one: `('lock:order:1001', ['line 1', 'line 2'])`.
   * Locks with a value in common exclude each other.
   * @param values  any texts; order and duplicates do not matter
   * @throws {ConfigError} the group cannot be a key, or there are no values
   * @example `await client.getFasterMultiLock('lock:order:1001', ['line 1', 'line 2']).withLock(async () => await pack())`
   * @see Redisson `RedissonClient.getMultiLock(group, values)`, with `StringCodec` in its configuration
   */
  getFasterMultiLock(group: string, values: readonly string[]): Lock {
    const key = this.#key(group)
    return new Lock(this.#context, new FasterMultiKind(group, values), group, key)
  }

  /**
   * Permits without holders or leases: what a crashed process acquired is never returned. You probably want
   * `getPermitExpirableSemaphore`.
   * @throws {ConfigError} the name cannot be a key, or an option cannot work
   * @example `await client.getSemaphore('lock:printers').withPermit(async () => await print())`
   * @see Redisson `RedissonClient.getSemaphore`
   */
  getSemaphore(name: string, options?: OrderOptions): Semaphore {
    return new Semaphore(this.#context, name, this.#key(name, 'semaphore name'), options)
  }

  /**
   * Permits with ids and leases, which limit how many holders there are across all processes. The permits of a crashed
   * holder come back when their leases end.
   * @throws {ConfigError} the name cannot be a key, or an option cannot work
   * @example `await client.getPermitExpirableSemaphore('lock:api').withPermit(async () => await callApi())`
   * @see Redisson `RedissonClient.getPermitExpirableSemaphore`
   */
  getPermitExpirableSemaphore(name: string, options?: OrderOptions): PermitExpirableSemaphore {
    return new PermitExpirableSemaphore(this.#context, name, this.#key(name, 'semaphore name'), options)
  }

  /**
   * A latch that opens, for every waiter, once it was counted down to zero.
   * @throws {ConfigError} the name cannot be a key
   * @example `await client.getCountDownLatch('lock:workers-ready').await({ waitTimeMs: 60_000 })`
   * @see Redisson `RedissonClient.getCountDownLatch`
   */
  getCountDownLatch(name: string): CountDownLatch {
    return new CountDownLatch(this.#context, name, this.#key(name, 'latch name'))
  }

  /**
   * Run `fn` with the lock of one name held, or with the locks of several, all or none: the short form of
   * `getLock(name).withLock(fn)` and `getMultiLock(…).withLock(fn)`.
   * @param names  a name, or several in any order; a name given twice counts once
   * @returns what `fn` returned
   * @throws as `Lock.withLock`
   * @example
   * await client.withLock(['lock:account:1', 'lock:account:2'], { waitTimeMs: 5_000 }, async () => await transfer())
   * @see Redisson `RLock`, `RedissonMultiLock`: same locks
   */
  withLock<T>(names: string | readonly string[], fn: LockedCallback<T>): Promise<T>
  withLock<T>(names: string | readonly string[], options: WithLockOptions, fn: LockedCallback<T>): Promise<T>
  async withLock<T>(
    names: string | readonly string[],
    ...rest: [LockedCallback<T>] | [WithLockOptions, LockedCallback<T>]
  ): Promise<T> {
    const [first, ...more] = checkNames(names, rest)
    const one = this.getLock(first)
    const lock = more.length === 0 ? one : getMultiLock(one, ...more.map((name) => this.getLock(name)))
    return await (lock.withLock as (...rest: unknown[]) => Promise<T>).call(lock, ...rest)
  }

  /**
   * Take part in the election of a leader: one of all processes that call this with the same name. It campaigns until this
   * process is elected, and again after leadership was lost. If a leader dies, the next one is elected when its lease ends,
   * `lockWatchdogTimeoutMs` after its last renewal; if it resigns, at once. The election is the fenced lock of that name.
   * @returns the election: `isLeader`, `finished`, `resign()`. Closing the client also resigns
   * @throws {ConfigError} the name or an option cannot work
   * @throws {ClientClosedError} the client is closed
   * @example
   * client.elect('lock:leader:invoices', {
   *   onElected: async (signal, { fencingToken }) => await sendInvoices({ signal, fencingToken }),
   *   onLost: (error) => console.error(error),
   * })
   * @see Redisson `RedissonClient.getFencedLock`: same keys
   */
  elect(name: string, options: ElectionOptions): Election {
    return new Election(this.getFencedLock(name), options)
  }

  /**
   * Run `fn` so that its call chain is one owner, like a Java thread: inside it `lock.unlock()`,
   * `lock.isHeldByCurrentOwner()` and `lock.getHoldCount()` work as in Redisson, and `lock()` re-enters what the scope
   * holds, whichever of its tasks acquired it. Tasks that must exclude each other need a scope each.
   * Locks that are still held when `fn` ends stay held.
   * @returns what `fn` returned
   * @throws {ConfigError} the client has `implicitReentry: false`, or `fn` is not a function
   * @example `await client.runInScope(async () => { await lock.lock(); await lock.unlock() })`
   */
  runInScope<T>(fn: () => T): T {
    if (typeof fn !== 'function') throw new ConfigError('fn', fn, 'a function')
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
   * Continue a hold that another client transferred with `hold.handOver()`, such as a job that moves on or a step of a
   * saga. The lock is never free in between. A hold can be adopted once; that returns one hold, whatever the hold count was,
   * with a lease from now. The old hold counts as lost.
   * The same for another kind of lock: `client.getFairLock(lockName).adopt(holder)`.
   * @param holder  the return value of `handOver()`
   * @throws {NotHeldError} that holder does not hold the lock: its lease has ended, or it was adopted before
   * @throws {OutcomeUnknownError} Redis did not reply; what it may have adopted is released in the background
   * @example `const hold = await client.adopt('lock:order:1001', job.holder)`
   */
  async adopt(lockName: string, holder: string, options: HoldOptions = {}): Promise<Hold> {
    return await this.getLock(lockName).adopt(holder, options)
  }

  /**
   * End the client: new work and waiters are rejected with `ClientClosedError` at once; holds may continue for `drainMs`,
   * then they abort and are released; then the connections that the client opened are closed. Idempotent: every call
   * resolves when the client is closed, and a later call with a shorter `drainMs` cuts the drain.
   * @example `await client.close({ drainMs: 10_000 })`
   * @see Redisson `RedissonClient.shutdown`, which leaves its locks to their leases
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { drainMs = 0 } = ownOptions(options, { drainMs: 1 })
    await this.#close(checkDuration('drainMs', drainMs, 0))
  }

  /** Closes at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /**
   * Close on SIGTERM and SIGINT, then let the signal end the process as it would have, unless the process has other handlers
   * of that signal: then ending it is up to them. A second signal cuts the drain.
   *
   * In a server, pass `before`: without it, locks are refused from the signal on, and requests in flight are cut off.
   * @param options  `before` finishes what is under way. `drainMs`, from the signal, default 10 000, is the time for that
   *   and for the holds that are left; then those are released, and calls are rejected with `ClientClosedError`
   * @returns how to remove the handlers
   * @throws {ConfigError} an option cannot work
   * @example
   * client.closeOnSignals({ before: () => new Promise((resolve) => server.close(resolve)) })
   * @see Redisson `RedissonClient.shutdown(quietPeriod, timeout, unit)`
   */
  closeOnSignals(options: SignalOptions = {}): () => void {
    return closeOnSignals(
      () => this.#shutdown.begin(this.#context),
      (drainMs, why) => this.#close(drainMs, why),
      options,
      (error) => this.#warn(error),
      (callback) => this.whenClosed(callback),
    )
  }

  /**
   * @internal Emits a warning once the caller has had time to add a listener.
   * @param isForProcess  if nobody listens, it is a warning of the process
   */
  warnSoon(warning: Error, isForProcess = false): void {
    const warn = (): void => {
      if (!this.#emit('warning', [warning]) && isForProcess) emitWarning(warning)
    }
    this.#context.clock.after(0, warn, false)
  }

  /** @internal Calls it when this client is closed; at once if it is. */
  whenClosed(callback: () => void): void {
    this.#shutdown.whenClosed(callback)
  }

  /**
   * @internal Lets a thread renew what is held while this one is blocked; resolves when that thread is connected.
   * @throws as `ThreadClient.start`; then this client is closed
   */
  async protect(
    { ThreadClient }: typeof import('./watchdog/thread-client.js'),
    terms: Pick<ThreadTerms, 'connection' | 'maxBlockMs' | 'file'>,
    seams?: ThreadSeams,
  ): Promise<void> {
    const { clock, random, watchdog } = this.#context
    const onWarning = (warning: Error): void => this.#warn(warning)
    const onRefused = (error: unknown): void => this.#warn(renewalRefused(error))
    try {
      const threadClient = new ThreadClient(
        clock,
        random,
        { ...this.#renewalTerms, ...terms },
        onWarning,
        onRefused,
        seams,
      )
      await threadClient.start()
      watchdog.threadClient = threadClient
    } catch (error) {
      await this.close()
      throw error
    }
  }

  #fairLock(kind: FairKind, name: string, options: QueueOptions | undefined): Lock {
    const key = this.#key(name)
    const limited = options && kind.withMaxWaiters(checkQueue(options, name))
    return new Lock(this.#context, limited ?? kind, name, key)
  }

  /** The key in Redis. */
  #key(name: string, noun?: string): string {
    const key = keyOf(this.#context.nameMapper, name, noun)
    return this.#port.isCluster ? checkSlots({ name, key }, noun) : key
  }

  #asOwner(): ContextOwner {
    return {
      id: this.id,
      shutdown: this.#shutdown,
      presence: () => this.#presence,
      subscriptionRefused: (channel, error) => this.#subscriptionRefused(channel, error),
      hasListeners: (event) => this.listenerCount(event) > 0,
      emit: (event, details) => this.#emit(event, details),
    }
  }

  async #close(drainMs: number, why?: string): Promise<void> {
    await this.#shutdown.close(this.#context, this.#port, drainMs, why, () => this.#presence?.close())
    clientClosed(this.#context)
  }

  /** Without its inbox the client gets no turns, if it waits for any, and nobody can ask it. */
  #subscriptionRefused(channel: string, error: unknown): void {
    const { inbox } = this.#context
    const isForTurns = !inbox.is(channel) || inbox.hasTickets
    if (isForTurns) this.#warn(subscriptionRefused(channel, error))
    // A client that can subscribe to nothing says so once.
    if (inbox.is(channel)) this.#presence?.refused(this.#warned.has('SUBSCRIBE_REFUSED') ? undefined : error)
  }

  #warn(warning: Error): void {
    this.#emit('warning', [warning])
  }

  /** A listener that throws is a bug of the user's, and must stop neither a renewal nor the others: it is a process warning. */
  #emit<E extends keyof ClientEvents>(event: E, details: ClientEvents[E]): boolean {
    const { code } = details[0] as { code?: unknown } // an error of a callback: its code may be a number
    if (typeof code === 'string' && code.endsWith('_REFUSED')) {
      if (this.#warned.has(code)) return true
      this.#warned.add(code)
    }
    if (event === 'warning') warned(this.id, details[0] as Error)
    const listeners = this.rawListeners(event)
    return runOutside(() => {
      for (const listener of listeners) {
        try {
          Reflect.apply(listener, this, details)
        } catch (error) {
          emitWarning(error instanceof Error ? error : String(error))
        }
      }
      return listeners.length > 0
    })
  }
}

type ByOptions = (this: Client, name: string, options: OrderOptions) => Lock | ReadWriteLock

/** @internal A lock of any kind that needs nothing but a name. */
export function lockOfKind(client: Client, kind: NamedKindId, name: string, options?: OrderOptions): Lock {
  const { getter, side } = KINDS[kind]
  const lock = options === undefined ? client[getter](name) : (client[getter] as ByOptions).call(client, name, options)
  return (side ? (lock as ReadWriteLock)[side]() : lock) as Lock
}
