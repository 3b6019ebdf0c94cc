// Idempotency keys: a repeated operation counts once.
import { idempotencyForget } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import type { Clock } from '../util/clock.js'
import { idempotencyKey } from '../wire/keys.js'
import { mayHaveRun, NoReplyError, toInteger } from './replies.js'
import type { Scripts } from './scripts.js'

/** How long to collect operations whose stored replies may be deleted, ms. */
const COLLECT_MS = 50
/** How many stored replies one command deletes. */
const BATCH_SIZE = 1_000
/** How long to wait for a reply at most, ms: an operation is sent again, or cancelled, well before it is too late. */
const MAX_TRY_MS = 20_000
/** Longer than Redis keeps a stored reply after the last operation, ms. */
const KEPT_MS = 1_300_000
/** Maximum number of consecutive refusals to explain by a changed clock of Redis. */
const MAX_CORRECTIONS = 3

/** An operation arrived too late and was refused. An earlier copy of it may have run in time. */
export class TooLate extends NoReplyError {}

/** One operation that has to run once. */
export interface Operation {
  /** The Redis key of the hash that stores its reply. */
  readonly key: string
  /** Its idempotency key: the field of that hash. */
  readonly number: number
  /** When it was opened by the clock of Redis, epoch ms; 0 if that was not known: then Redis refuses it. */
  openedAt: number
  /** How often the command connection had reconnected by then. */
  reconnects: number
  /** It was sent in time, and its reply was lost. */
  isInDoubt: boolean
}

/**
 * Semaphores and latches have no owner, and a forced release is not by the owner. So a command that Redis receives twice
 * (after a lost reply, or from a client that resends what it had in flight) would count twice. Hence each operation has an
 * idempotency key, a number under which its script stores the reply; copies return that reply. Once it has arrived here the
 * stored one is deleted, in batches; after a crash it expires.
 *
 * Copies may arrive late: TCP delivers what it has when the network is back. So an operation also carries the time at which
 * it was opened by the clock of Redis, and is refused more than 100 s after that. The client learns that clock from
 * replies. A bad estimate costs a round trip and nothing else: the script runs nothing whose stored reply could expire
 * before its copies are refused.
 */
export class IdempotencyKeys {
  readonly #clock: Clock
  readonly #clientId: string
  readonly #scripts: Scripts
  readonly #tryMs: number
  /** Whose stored replies may be deleted: numbers by key. */
  readonly #deletable = new Map<string, number[]>()
  /** Operations of which copies may be in flight, and until when Redis keeps their replies, on the clock. Oldest first. */
  readonly #doubtful: { readonly operation: Operation; readonly until: number }[] = []
  #operations = 0
  #cancelTimer: (() => void) | undefined
  #deleting = Promise.resolve()

  constructor(clock: Clock, clientId: string, scripts: Scripts, commandTimeoutMs: number) {
    this.#clock = clock
    this.#clientId = clientId
    this.#scripts = scripts
    this.#tryMs = Math.min(commandTimeoutMs, MAX_TRY_MS)
  }

  /** An operation that is about to be sent for the first time. @param counted  the key of what it changes */
  open(counted: string): Operation {
    const key = idempotencyKey(counted, this.#clientId)
    return { key, number: ++this.#operations, isInDoubt: false, ...this.#now(key) }
  }

  /**
   * Sends it once. An operation that arrived too late and certainly has not run is opened again.
   * @param parse  its reply, unless it arrived too late
   * @returns its reply, parsed
   * @throws {NoReplyError} no reply in time, or the connection failed
   * @throws {TooLate} it will not run any more, and may have run
   */
  async send<T = number>(
    operation: Operation,
    callOf: (operation: Operation) => ScriptCall,
    timeoutMs?: number,
    parse: (reply: unknown) => T = toInteger as (reply: unknown) => T,
  ): Promise<T> {
    for (let corrections = 0; corrections <= MAX_CORRECTIONS; corrections++) {
      let reply: unknown
      try {
        reply = await this.run(callOf(operation), timeoutMs)
      } catch (error) {
        operation.isInDoubt ||= operation.openedAt > 0 && mayHaveRun(error)
        throw error
      }
      if (!Array.isArray(reply) || reply.length > 1) return parse(reply)
      this.#scripts.learnTime(operation.key, toInteger(reply[0]) as number)
      if (this.mayHaveRun(operation)) break
      Object.assign(operation, this.#now(operation.key))
    }
    throw new TooLate('it arrived at Redis too late, and was refused')
  }

  /** Runs a script of an operation. */
  run(call: ScriptCall, timeoutMs = this.#tryMs): Promise<unknown> {
    return this.#scripts.run(call, timeoutMs)
  }

  /** Whether it may have run without a reply, or a copy of it may be in flight. */
  mayHaveRun({ isInDoubt, openedAt, reconnects }: Operation): boolean {
    // After a reconnect the Redis client may have sent it twice.
    return isInDoubt || (openedAt > 0 && reconnects !== this.#scripts.reconnects)
  }

  /** Its outcome is known, or never will be: its stored reply is needed only as long as copies may arrive. */
  close(operation: Operation): void {
    if (this.mayHaveRun(operation)) this.#doubtful.push({ operation, until: this.#clock.now() + KEPT_MS })
    else this.#mayDelete(operation)
  }

  /** Whether no stored reply is left to delete. */
  get isFlushed(): boolean {
    return this.#deletable.size === 0
  }

  /** Deletes the stored replies that are no longer needed, and resolves when that has ended. */
  async flush(): Promise<void> {
    this.#delete()
    await this.#deleting
  }

  #now(key: string): Pick<Operation, 'openedAt' | 'reconnects'> {
    return { openedAt: this.#scripts.timeAt(key) ?? 0, reconnects: this.#scripts.reconnects }
  }

  #mayDelete({ key, number }: Operation): void {
    const numbers = this.#deletable.get(key)
    if (numbers) numbers.push(number)
    else this.#deletable.set(key, [number])
    this.#cancelTimer ??= this.#clock.after(COLLECT_MS, () => this.#delete(), false)
  }

  #delete(): void {
    const now = this.#clock.now()
    const fresh = this.#doubtful.findIndex(({ until }) => until > now)
    const old = this.#doubtful.splice(0, fresh < 0 ? this.#doubtful.length : fresh)
    for (const { operation } of old) this.#mayDelete(operation)
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    for (const [key, numbers] of this.#deletable) {
      for (let start = 0; start < numbers.length; start += BATCH_SIZE) {
        const call = idempotencyForget(key, numbers.slice(start, start + BATCH_SIZE))
        // If it fails, the stored replies expire.
        const deleted = this.#scripts
          .run(call)
          .then((time) => this.#scripts.learnTime(key, toInteger(time) as number))
          .catch(() => {})
        this.#deleting = Promise.all([this.#deleting, deleted]).then(() => {})
      }
    }
    this.#deletable.clear()
  }
}
