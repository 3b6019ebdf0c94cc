// The requests of client.locks, and its snapshots.
import { isErrorOf, toArray, toWords } from '../delivery/replies.js'
import { runOutside } from '../locks/call-chain.js'
import type { Hold } from '../locks/hold.js'
import { runScript } from '../locks/inspection.js'
import type { LeaseContext } from '../locks/lease.js'
import type { Lock } from '../locks/lock.js'
import { FIRST_PRIORITY, type Request } from '../locks/options.js'
import { ReadWriteLock } from '../locks/read-write-lock.js'
import { reportGranted, settled } from '../locks/reporting/observation.js'
import { webLocksRead } from '../lua/generated.js'
import { onAbort } from '../util/abort.js'
import { sleep } from '../util/sleep.js'
import { clientIdOf } from '../wire/holder.js'
import { isWriter, orderedQueue, readHoldPrefix } from '../wire/keys.js'
import { type Named, unmappedName } from '../wire/names.js'
import type { WebLockRequest } from './arguments.js'
import { NameIndex } from './name-index.js'
import { lockOf, requestedName } from './names.js'
import { RequestOrder } from './order.js'
import { runCallback } from './run-callback.js'
import { freeForThief } from './steal.js'
import type { newWebLock, WebLockInfo, WebLockSnapshot } from './web-lock.js'

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
  readonly #order: RequestOrder
  #isListening = false

  /** @param newWebLock  in the module that every program loads, where the class is */
  constructor(context: LeaseContext, keyOf: (name: string) => string, newWebLock: NewWebLock) {
    this.#context = context
    this.#newWebLock = newWebLock
    this.#keyOf = keyOf
    this.#names = new NameIndex(context)
    this.#order = new RequestOrder(context.clock)
  }

  /** @returns what the callback returned @throws as `WebLockManager.request` */
  async request(request: WebLockRequest): Promise<unknown> {
    const { name, key } = lockOf(request.name, this.#keyOf)
    this.#context.assertOpen(name)
    this.#listen()
    const sides = this.#sidesOf({ name, key }, request.steal ? undefined : request.maxWaiters)
    this.#names.begin(key)
    const place = this.#order.enter()
    try {
      const hold = await this.#acquire(sides, request, request.ifAvailable ? () => {} : place.leave)
      await place.turn()
      const result = this.#call(hold, request)
      place.leave()
      return await result
    } finally {
      place.leave()
      this.#names.end(key)
    }
  }

  /** Calls back before it returns. */
  #call(hold: Hold | undefined, { name, mode, callback }: WebLockRequest): unknown {
    if (!hold) return callback(null)
    const lock = this.#newWebLock(hold, name, mode)
    return runCallback(this.#context, hold, () => this.#order.run(() => callback(lock)))
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
    await this.#order.settled
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
      mode: isWriter(holder) ? 'exclusive' : 'shared',
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
   * @param onWaiting  called when it has to wait
   * @returns undefined: it is not available, and `ifAvailable` was set
   * @throws the reason of the signal, as soon as that aborts
   */
  async #acquire(sides: Sides, request: WebLockRequest, onWaiting: () => void): Promise<Hold | undefined> {
    const { mode, signal, steal } = request
    if (steal) return await this.#steal(sides, request, onWaiting)
    const acquiring = this.#wait(mode === 'shared' ? sides.read : sides.write, request, signal, onWaiting)
    if (!signal) return await acquiring
    return await new Promise((resolve, reject) => {
      const stopListening = onAbort(signal, () => reject(signal.reason))
      void acquiring.then(resolve, reject).finally(stopListening)
    })
  }

  /** Waits in front of all others, and frees the lock from its holders until it is granted. */
  async #steal(sides: Sides, request: WebLockRequest, onWaiting: () => void): Promise<Hold | undefined> {
    const { clock } = this.#context
    const failed = new AbortController()
    const over = new AbortController()
    const free = async (thief: string): Promise<void> => {
      while (!over.signal.aborted) {
        await freeForThief(this.#context, sides, thief)
        await sleep(STEAL_AGAIN_MS, { clock, signal: over.signal })
      }
    }
    let freeing: Promise<void> | undefined
    const onRefused = (thief: string): void => {
      onWaiting()
      freeing ??= free(thief).catch((error: unknown) => failed.abort(error))
    }
    try {
      return await this.#wait(sides.write, request, failed.signal, onRefused)
    } finally {
      over.abort()
      await freeing
    }
  }

  /** Asks for the lock. Each request is an owner of its own, whatever its call chain holds. */
  async #wait(
    lock: Lock,
    { ifAvailable, steal, priority, leaseTimeMs }: WebLockRequest,
    signal: AbortSignal | undefined,
    onRefused: (holder: string) => void,
  ): Promise<Hold | undefined> {
    const waitTimeMs = ifAvailable ? 0 : this.#context.waitTimeMs
    const asked: Request = {
      ...runOutside(() => lock.request({ leaseTimeMs, signal }, waitTimeMs, !ifAvailable)),
      priority: steal ? FIRST_PRIORITY : priority,
      onRefused,
    }
    const { observed } = asked
    const acquiring = runOutside(() => lock.acquire(asked))
    const hold = await (observed ? settled(observed, acquiring, signal) : acquiring)
    if (hold && signal?.aborted) {
      void hold.unlock().catch(() => {}) // the caller has its reason already
      observed?.missed('aborted')
      throw signal.reason
    }
    if (hold) return reportGranted(hold, observed)
    return ifAvailable ? lock.missed(asked, undefined) : await lock.timeOut(asked)
  }
}
