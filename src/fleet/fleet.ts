// `client.fleet`: inspects and lists locks of all clients.
import type { AuditEntry } from '../locks/breaking/audit.js'
import type { ForceUnlockOptions, ForceUnlockResult } from '../locks/breaking/interrupt.js'
import type { LeaseContext } from '../locks/lease.js'
import {
  checkCount,
  checkDuration,
  checkName,
  checkOptionalBoolean,
  checkSignal,
  ownOptions,
} from '../util/validate.js'
import { AUDIT_KEY, JOBS_KEY } from '../wire/keys.js'
import type { Deadlocks } from './deadlocks.js'
import type { Doubt } from './doubts.js'
import type { Inspector, ListRequest } from './inspector.js'
import type { JobInfo } from './job-info.js'
import type { JobReport } from './jobs.js'
import { type LockListening, subscribeToLock } from './lock-channels.js'
import type { ClientState, LockInfo, LockList } from './lock-info.js'
import type { Presence } from './presence.js'

/** How long to wait for clients' replies, ms. */
const TIMEOUT_MS = 300

export interface InspectOptions {
  /** How long to wait for the replies of clients, ms. Default 300. A client that does not reply in time is `silent`. */
  timeoutMs?: number | undefined
}

export interface ListOptions extends InspectOptions {
  /**
   * A pattern of keys in Redis, such as `lock:order:*`. Default: all, but of string locks, which look like any text, only
   * those that clients report.
   */
  match?: string | undefined
  /** Only locks that somebody waits for, found by their channels: no SCAN. Default false. */
  contended?: boolean | undefined
  /** Maximum number of locks to return. Default: all. */
  limit?: number | undefined
  /** Ends the list: the iteration throws its reason. */
  signal?: AbortSignal | undefined
}

/** All locks, semaphores and latches in Redis, of this client and of others, Redisson's too: `client.fleet`. */
export class Fleet {
  readonly #context: LeaseContext
  readonly #keyOf: (name: string) => string
  readonly #presence: () => Presence | undefined
  #loading: Promise<Inspector> | undefined
  #inspector: Inspector | undefined

  /**
   * @internal
   * @param keyOf  returns the key in Redis
   * @param presence  undefined: the client has `inspection: false`
   */
  constructor(context: LeaseContext, keyOf: (name: string) => string, presence: () => Presence | undefined) {
    this.#context = context
    this.#keyOf = keyOf
    this.#presence = presence
  }

  /**
   * Who holds a lock, since when and for what, and who is waiting for it. The keys say who; the clients add the rest, if they
   * reply. Takes no lock, and changes nothing.
   * @param name  of any kind of lock, semaphore or latch
   * @throws {ConfigError} the name cannot be a key
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ClientClosedError} the client is closed
   * @example `const { holders, waiters } = await client.fleet.inspect('lock:order:1001')`
   * @see Redisson `RLock.isLocked`, `RLock.remainTimeToLive`
   */
  async inspect(name: string, options: InspectOptions = {}): Promise<LockInfo> {
    const { timeoutMs = TIMEOUT_MS } = ownOptions(options, { timeoutMs: 1 })
    checkDuration('timeoutMs', timeoutMs, 0)
    const key = this.#keyOf(name)
    return await (await this.#load(name)).inspect({ name, key }, timeoutMs)
  }

  /** @internal Describes this client with all that it holds at once, instead of after a second. */
  describe(): void {
    this.#presence()?.describe(0)
  }

  /**
   * @internal Listens to the messages of a lock, without being counted as a waiter.
   * @param onHint  called when something may have changed. Grants have no messages, nor have the ends of leases
   */
  subscribeToLock(name: string, onHint: () => void): LockListening {
    this.#context.assertUsable(name)
    return subscribeToLock(this.#context.wakeups, this.#keyOf(name), onHint)
  }

  /**
   * The locks in Redis, read with SCAN while the caller iterates: on every master, never with KEYS. Those that are taken or
   * released meanwhile may be missing. A plain number in Redis is listed only if it is known to be a semaphore, and without
   * `match` a string lock only if the client that holds it reports it.
   * @throws {ConfigError} an option cannot work
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ClientClosedError} the client is closed
   * @throws the abort reason of `signal`
   * @example `for await (const { name, holders } of client.fleet.locks({ match: 'lock:*' })) console.log(name, holders)`
   * @see Redisson `RKeys.getKeysByPattern`
   */
  locks(options: ListOptions = {}): LockList {
    const { match, contended, limit, signal, timeoutMs } = ownOptions(options, {
      match: 1,
      contended: 1,
      limit: 1,
      signal: 1,
      timeoutMs: 1,
    })
    const most = limit === undefined ? Number.POSITIVE_INFINITY : checkCount('limit', limit, 1)
    const request = {
      match: match === undefined ? undefined : checkName(match, 'match'),
      contended: checkOptionalBoolean('contended', contended) ?? false,
      timeoutMs: checkDuration('timeoutMs', timeoutMs ?? TIMEOUT_MS, 0),
      signal: checkSignal(signal, match ?? '*'),
    }
    let doubts: readonly Doubt[] = []
    const locks = this.#locks(most, request, (all) => (doubts = all))
    return {
      [Symbol.asyncIterator]: () => locks,
      get doubts() {
        return doubts
      },
    }
  }

  /**
   * The clients of Holdfast that can be asked: those that have waited, or have held something for a second. What is not known
   * about a client is empty.
   * @throws {ClientClosedError} the client is closed
   * @example `const silent = (await client.fleet.clients()).filter(({ status }) => status === 'silent')`
   */
  async clients(options: InspectOptions = {}): Promise<ClientState[]> {
    const { timeoutMs = TIMEOUT_MS } = ownOptions(options, { timeoutMs: 1 })
    checkDuration('timeoutMs', timeoutMs, 0)
    return await (await this.#load('')).clients(timeoutMs)
  }

  /**
   * Call chains of any processes that wait for each other, found among the locks that somebody waits for. The clients are
   * asked twice: a hold and a wait that are there both times have lasted in between. What only looks like a deadlock is
   * `suspected`.
   * @throws {ClientClosedError} the client is closed
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `for (const { locks } of (await client.fleet.deadlocks()).cycles) console.error('deadlock', locks)`
   */
  async deadlocks(options: InspectOptions = {}): Promise<Deadlocks> {
    const { timeoutMs = TIMEOUT_MS } = ownOptions(options, { timeoutMs: 1 })
    checkDuration('timeoutMs', timeoutMs, 0)
    return await (await this.#load('')).deadlocks(timeoutMs)
  }

  /**
   * Interrupts one holder of a lock, of whatever kind Redis shows it to be: see `forceUnlock({ holder })` of a lock.
   * @throws {ConfigError} an option cannot work, or it is a semaphore or a lock on values
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ClientClosedError} the client is closed
   * @example
   * const { holders: [first] } = await client.fleet.inspect('lock:nightly')
   * if (first) await client.fleet.forceUnlock('lock:nightly', { holder: first.holder, reason: 'INC-4711' })
   */
  async forceUnlock(name: string, options: ForceUnlockOptions): Promise<ForceUnlockResult> {
    const key = this.#keyOf(name)
    return await (await this.#load(name)).forceUnlock({ name, key }, options)
  }

  /** @internal Whether the Redis user of this client may break this lock; undefined: Redis before 7 does not say. */
  async mayForceUnlock(name: string): Promise<boolean | undefined> {
    const key = this.#keyOf(name)
    return await (await this.#load(name)).mayForceUnlock(key)
  }

  /**
   * Who broke which lock and why: the newest 1,000 calls of `forceUnlock({ holder })` of any client, the latest first.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ClientClosedError} the client is closed
   * @example `for (const { time, lock, by } of await client.fleet.audit()) console.log(time, lock, by)`
   */
  async audit(): Promise<AuditEntry[]> {
    return await (await this.#load(AUDIT_KEY)).audit()
  }

  /**
   * The jobs that `holdfast run` has recorded, by name: the last 1,000, each for a week after its last run, or a month if it
   * is expected (`--every`). Those that this Redis user may not read are `hidden`.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ClientClosedError} the client is closed
   * @example `const overdue = (await client.fleet.jobs()).filter(({ overdueMs }) => overdueMs > 0)`
   */
  async jobs(): Promise<JobInfo[]> {
    return await (await this.#load(JOBS_KEY)).jobs()
  }

  /** @internal Records a run for `jobs()`. @throws the error of Redis */
  async recordJob({ name, ...report }: Omit<JobReport, 'key'> & { name: string }, timeoutMs?: number): Promise<void> {
    this.#context.assertUsable(name)
    const { recordJob } = await import('./jobs.js')
    await recordJob(this.#context.scripts, { key: this.#keyOf(name), ...report }, timeoutMs)
  }

  /** Number of holds that clients have reported and no key confirmed: releases that were under way, or forged messages. */
  get unconfirmedClaims(): number {
    return this.#inspector?.unconfirmedClaims ?? 0
  }

  async *#locks(
    limit: number,
    request: ListRequest,
    doubt: (doubts: readonly Doubt[]) => void,
  ): AsyncGenerator<LockInfo> {
    yield* (await this.#load(request.match ?? '')).locks(limit, request, doubt)
  }

  /** What inspects is loaded by the first inspection: most programs never look at the locks of others. */
  async #load(name: string): Promise<Inspector> {
    this.#context.assertUsable(name)
    this.#loading ??= import('./inspector.js').then(
      ({ Inspector }) => new Inspector(this.#context, () => this.#presence()?.info),
    )
    this.#inspector = await this.#loading
    return this.#inspector
  }
}
