// The requests of client.locks, and its snapshots.
import { isErrorOf, toArray, toWords } from '../delivery/replies.js'
import { runOutside } from '../locks/call-chain.js'
import type { Hold } from '../locks/hold.js'
import { runScript } from '../locks/inspection.js'
import type { LeaseContext } from '../locks/lease.js'
import type { Lock } from '../locks/lock.js'
import type { Request } from '../locks/options.js'
import { ReadWriteLock } from '../locks/read-write-lock.js'
import { observeRequest, reportGranted, settled } from '../locks/reporting/observation.js'
import { webLocksRead } from '../lua/generated.js'
import { onAbort } from '../util/abort.js'
import { sleep } from '../util/sleep.js'
import { clientIdOf } from '../wire/holder.js'
import { orderedQueue, readHoldPrefix } from '../wire/keys.js'
import { type Named, unmappedName } from '../wire/names.js'
import type { WebLockRequest } from './arguments.js'
import { NameIndex } from './name-index.js'
import { lockOf, requestedName } from './names.js'
import { runCallback } from './run-callback.js'
import { freeForThief } from './steal.js'
import type { newWebLock, WebLockInfo, WebLockSnapshot } from './web-lock.js'

/** Before all that a caller can choose. */
const STEAL_PRIORITY = 1_001
/** Time between two attempts to steal, ms: another thief may be ahead. */
const STEAL_AGAIN_MS = 25
/** The most waiters that a snapshot has of one name. */
const MAX_WAITERS = 10_000

interface Sides {
  readonly read: Lock
  readonly write: Lock
}

type NewWebLock = typeof newWebLock

/** The requests of one client. */
export class Requests {
  readonly #context: LeaseContext
  readonly #keyOf: (name: string) => string
  readonly #newWebLock: NewWebLock
  readonly #names: NameIndex
  /** Those that Redis may not have received yet. Each resolves when it has been granted or refused. */
  readonly #arriving = new Set<Promise<void>>()
  #isListening = false

  /** @param newWebLock  in the module that every program loads, where the class is */
  constructor(context: LeaseContext, keyOf: (name: string) => string, newWebLock: NewWebLock) {
    this.#context = context
    this.#newWebLock = newWebLock
    this.#keyOf = keyOf
    this.#names = new NameIndex(context)
  }

  /** @returns what the callback returned @throws as `WebLockManager.request` */
  async request(request: WebLockRequest): Promise<unknown> {
    const { name, key } = lockOf(request.name, this.#keyOf)
    this.#context.assertOpen(name)
    this.#listen()
    const sides = this.#sidesOf({ name, key }, request.steal ? undefined : request.maxWaiters)
    this.#names.begin(key)
    try {
      const hold = await this.#acquire(sides, request)
      if (!hold) return await request.callback(null)
      const lock = this.#newWebLock(hold, request.name, request.mode)
      return await runCallback(this.#context, hold, lock, request)
    } finally {
      this.#names.end(key)
    }
  }

  /** Thieves notify the clients of holders, if those can be asked what they hold. */
  #listen(): void {
    if (this.#isListening || !this.#context.ownInfo()) return
    this.#isListening = true
    this.#context.inbox.keepOpen()
  }

  /** @throws as `WebLockManager.query` */
  async query(): Promise<WebLockSnapshot> {
    this.#context.assertUsable('client.locks')
    await Promise.all(this.#arriving)
    const keys = await this.#names.list()
    const found = await Promise.all([...keys].map((key) => this.#read(key)))
    return { held: found.flatMap(({ held }) => held), pending: found.flatMap(({ pending }) => pending) }
  }

  /** Without what this user of Redis may not read. */
  async #read(key: string): Promise<WebLockSnapshot> {
    const name = requestedName(unmappedName(this.#context.nameMapper, key))
    const call = webLocksRead(key, orderedQueue(key), readHoldPrefix(key), MAX_WAITERS)
    const infoOf = (holder: string): WebLockInfo => ({
      name,
      mode: holder.endsWith(':write') ? 'exclusive' : 'shared',
      clientId: clientIdOf(holder),
    })
    try {
      const [fields, waiting] = await runScript(this.#context, { name, key }, 'query', call, toArray)
      const holders = toWords(fields).filter((field, at) => at % 2 === 0 && field !== 'mode')
      return { held: holders.map(infoOf), pending: toWords(waiting).map(infoOf) }
    } catch (error) {
      if (isErrorOf(error, 'NOPERM')) return { held: [], pending: [] }
      throw error
    }
  }

  /** The sides of the lock: all requests go through its queue, in order. */
  #sidesOf({ name, key }: Named, maxWaiters: number | undefined): Sides {
    const lock = new ReadWriteLock(this.#context, name, key, { order: 'fifo', maxWaiters })
    return { read: lock.readLock(), write: lock.writeLock() }
  }

  /**
   * @returns undefined: it is not available, and `ifAvailable` was set
   * @throws the reason of the signal, as soon as that aborts
   */
  async #acquire(sides: Sides, request: WebLockRequest): Promise<Hold | undefined> {
    const { signal, steal } = request
    if (steal) return await this.#steal(sides, request)
    const acquiring = this.#ask(sides, request, signal).granted
    if (!signal) return await acquiring
    return await new Promise((resolve, reject) => {
      const stopListening = onAbort(signal, () => reject(signal.reason))
      void acquiring.then(resolve, reject).finally(stopListening)
    })
  }

  /** Waits in front of all others, and frees the lock from its holders until it is granted. */
  async #steal(sides: Sides, request: WebLockRequest): Promise<Hold | undefined> {
    const { clock } = this.#context
    const failed = new AbortController()
    const { granted, arrived } = this.#ask(sides, request, failed.signal)
    const over = new AbortController()
    const end = (): void => over.abort()
    void granted.then(end, end)
    const free = async (): Promise<void> => {
      await arrived
      while (!over.signal.aborted) {
        await freeForThief(this.#context, sides)
        await sleep(STEAL_AGAIN_MS, { clock, signal: over.signal })
      }
    }
    await free().catch((error: unknown) => failed.abort(error))
    return await granted
  }

  /**
   * Asks for the lock. Each request is an owner of its own, whatever its call chain holds.
   * @returns the hold, undefined if it is not available; and when Redis has granted or queued the request
   */
  #ask(
    sides: Sides,
    request: WebLockRequest,
    signal: AbortSignal | undefined,
  ): { granted: Promise<Hold | undefined>; arrived: Promise<void> } {
    const lock = request.mode === 'shared' ? sides.read : sides.write
    let onRefused = (): void => {}
    const refused = new Promise<void>((resolve) => {
      onRefused = resolve
    })
    const granted = this.#wait(lock, request, signal, onRefused)
    const arrived = Promise.race([refused, granted]).then(
      () => {},
      () => {},
    )
    this.#arriving.add(arrived)
    void arrived.then(() => this.#arriving.delete(arrived))
    return { granted, arrived }
  }

  async #wait(
    lock: Lock,
    { ifAvailable, steal, priority, leaseTimeMs }: WebLockRequest,
    signal: AbortSignal | undefined,
    onRefused: () => void,
  ): Promise<Hold | undefined> {
    const waitTimeMs = ifAvailable ? 0 : this.#context.waitTimeMs
    const terms = lock.terms({ leaseTimeMs })
    const observed = observeRequest(lock, terms, waitTimeMs)
    const asked: Request = {
      terms,
      waitTimeMs,
      signal,
      within: undefined,
      isOutside: true,
      isRequired: !ifAvailable,
      observed,
      priority: steal ? STEAL_PRIORITY : priority,
      onRefused,
    }
    const acquiring = runOutside(() => lock.acquire(asked))
    const hold = await (observed ? settled(observed, acquiring, signal) : acquiring)
    if (hold && signal?.aborted) {
      void hold.unlock().catch(() => {}) // the caller has its reason already
      observed?.missed('aborted')
      throw signal.reason
    }
    if (hold) return reportGranted(hold, observed)
    observed?.missed('timeout')
    if (ifAvailable) return undefined
    throw lock.waitTimeout(waitTimeMs ?? 0, await (asked.details ?? lock.whoHolds(waitTimeMs ?? 0)))
  }
}
