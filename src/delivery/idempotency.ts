import { receiptsForget } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import type { Clock } from '../util/clock.js'
import { receiptsKey } from '../wire/keys.js'
import { NoReplyError, toInteger } from './replies.js'
import type { Scripts } from './scripts.js'

/** How long to gather what Redis may forget, ms. */
const GATHER_MS = 50
/** How many operations one command forgets. */
const BATCH_SIZE = 1_000
/** How long to wait for one reply at most, ms: an operation is sent again, or cancelled, well before it is too late for it. */
const LONGEST_TRY_MS = 20_000
/** Longer than Redis keeps a reply after the last operation, ms. */
const KEPT_MS = 1_300_000
/** How often in a row to believe Redis that its clock was set. */
const MOST_CORRECTIONS = 3

/** An operation came too late to be done now. An earlier copy of it may have been in time. */
export class TooLate extends NoReplyError {}

/** One operation on a counter. */
export interface Operation {
  /** Where its reply is kept, and under which number. */
  readonly key: string
  readonly number: number
  /** When it was opened by the clock of Redis, epoch ms; 0 if that was not known. Then Redis does not do it. */
  openedAt: number
  /** How often the command connection had been lost by then. */
  reconnects: number
  /** It was sent in time, and no reply said what became of it. */
  isInDoubt: boolean
}

/**
 * Counters have no owner, so a command that Redis gets twice (a reply that was lost, a client that sends again what it had
 * in flight) would count twice. So each operation has a number, under which its script keeps its reply, and replies the
 * same again. Once the reply is here Redis may forget it, in batches; after a crash it expires.
 *
 * Copies may arrive late: TCP delivers what it has when the network is back. So an operation also says when it was opened by
 * the clock of Redis, and is not done more than 100 s after that. We learn that clock from replies. A bad estimate costs a
 * round trip and nothing else: the script does nothing whose kept reply could expire before its copies do.
 */
export class IdempotencyKeys {
  readonly #clock: Clock
  readonly #clientId: string
  readonly #scripts: Scripts
  readonly #tryMs: number
  readonly #answered = new Map<string, number[]>()
  /** Those of which copies may be under way, and until when Redis keeps their replies, on the clock. Oldest first. */
  readonly #doubtful: { readonly operation: Operation; readonly until: number }[] = []
  /** How far the clock of Redis is ahead of ours, ms; undefined before the first reply. */
  #aheadMs: number | undefined
  #operations = 0
  #cancelTimer: (() => void) | undefined
  #pending = Promise.resolve()

  constructor(clock: Clock, clientId: string, scripts: Scripts, commandTimeoutMs: number) {
    this.#clock = clock
    this.#clientId = clientId
    this.#scripts = scripts
    this.#tryMs = Math.min(commandTimeoutMs, LONGEST_TRY_MS)
  }

  /** For an operation that is about to be sent for the first time. */
  open(name: string): Operation {
    return { key: receiptsKey(name, this.#clientId), number: ++this.#operations, isInDoubt: false, ...this.#now() }
  }

  /**
   * Send it once. One that surely was not done, and comes too late for that, is opened again.
   * @returns its reply
   * @throws {NoReplyError} no reply in time, or the connection failed
   * @throws {TooLate} it will not be done any more, and may have been done
   */
  async send(operation: Operation, callOf: (operation: Operation) => ScriptCall, timeoutMs?: number): Promise<number> {
    for (let corrections = 0; corrections <= MOST_CORRECTIONS; corrections++) {
      const reply = await this.run(callOf(operation), timeoutMs).catch((error: unknown) => {
        operation.isInDoubt ||= operation.openedAt > 0 && error instanceof NoReplyError
        throw error
      })
      if (!Array.isArray(reply)) return toInteger(reply) as number
      this.#learn(reply[0])
      if (this.mayHaveRun(operation)) break
      Object.assign(operation, this.#now())
    }
    throw new TooLate('Redis received it too late, and will not do it any more')
  }

  /** Run a script of an operation. */
  run(call: ScriptCall, timeoutMs = this.#tryMs): Promise<unknown> {
    return this.#scripts.run(call, timeoutMs)
  }

  /** Whether it may have been done without a reply, or a copy of it may be under way. */
  mayHaveRun({ isInDoubt, openedAt, reconnects }: Operation): boolean {
    // The client may have sent it twice.
    return isInDoubt || (openedAt > 0 && reconnects !== this.#scripts.reconnects)
  }

  /** Its outcome is known, or will never be: its reply need not be kept for longer than copies may come. */
  close(operation: Operation): void {
    if (this.mayHaveRun(operation)) this.#doubtful.push({ operation, until: this.#clock.now() + KEPT_MS })
    else this.#answer(operation)
  }

  /** Whether there is nothing that Redis should be told to forget. */
  get isFlushed(): boolean {
    return this.#answered.size === 0
  }

  /** Resolves when Redis was told all that it may forget. */
  async flush(): Promise<void> {
    this.#forget()
    await this.#pending
  }

  #now(): Pick<Operation, 'openedAt' | 'reconnects'> {
    const openedAt = this.#aheadMs === undefined ? 0 : Math.floor(this.#clock.now() + this.#aheadMs)
    return { openedAt, reconnects: this.#scripts.reconnects }
  }

  /** @param time  of Redis, epoch ms, when it replied: it is later now, so that operations never look younger than they are */
  #learn(time: unknown): void {
    this.#aheadMs = (toInteger(time) as number) - this.#clock.now()
  }

  #answer({ key, number }: Operation): void {
    const numbers = this.#answered.get(key)
    if (numbers) numbers.push(number)
    else this.#answered.set(key, [number])
    this.#cancelTimer ??= this.#clock.after(GATHER_MS, () => this.#forget(), false)
  }

  #forget(): void {
    const now = this.#clock.now()
    const fresh = this.#doubtful.findIndex(({ until }) => until > now)
    const old = this.#doubtful.splice(0, fresh < 0 ? this.#doubtful.length : fresh)
    for (const { operation } of old) this.#answer(operation)
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    for (const [key, numbers] of this.#answered) {
      for (let start = 0; start < numbers.length; start += BATCH_SIZE) {
        const call = receiptsForget(key, numbers.slice(start, start + BATCH_SIZE))
        // If it fails they expire.
        const forgotten = this.#scripts
          .run(call)
          .then((time) => this.#learn(time))
          .catch(() => {})
        this.#pending = Promise.all([this.#pending, forgotten]).then(() => {})
      }
    }
    this.#answered.clear()
  }
}
