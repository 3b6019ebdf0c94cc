import type { Clock } from './clock.js'
import { receiptsKey } from './keys.js'
import { receiptsForget } from './lua/generated.js'
import type { Scripts } from './lua/run.js'

/** How long to gather what Redis may forget, ms. */
const GATHER_MS = 50
/** How many operations one command forgets. */
const BATCH_SIZE = 1_000

/** Names one operation in Redis. */
export interface Receipt {
  readonly key: string
  readonly operation: number
  /** How often the command connection had been lost before the operation was sent. */
  readonly reconnects: number
}

/**
 * Counters have no owner, so a command that Redis gets twice (a reply that was lost, a client that sends again what it had
 * in flight) would count twice. Each operation has a number, under which its script keeps what it answered, and answers the
 * same again. Once the reply is here it is forgotten, in batches; after a crash it ends by itself.
 */
export class Receipts {
  readonly #clock: Clock
  readonly #clientId: string
  readonly #scripts: Scripts
  readonly #answered = new Map<string, number[]>()
  #operations = 0
  #cancelTimer: (() => void) | undefined
  #pending = Promise.resolve()

  constructor(clock: Clock, clientId: string, scripts: Scripts) {
    this.#clock = clock
    this.#clientId = clientId
    this.#scripts = scripts
  }

  /** For an operation that is about to be sent for the first time. */
  open(name: string): Receipt {
    const { reconnects } = this.#scripts
    return { key: receiptsKey(name, this.#clientId), operation: ++this.#operations, reconnects }
  }

  /** It was answered, and no attempt at it went without an answer. */
  close({ key, operation, reconnects }: Receipt): void {
    if (reconnects !== this.#scripts.reconnects) return // the client may have sent it twice
    const operations = this.#answered.get(key)
    if (operations) operations.push(operation)
    else this.#answered.set(key, [operation])
    this.#cancelTimer ??= this.#clock.after(GATHER_MS, () => this.#forget(), false)
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

  #forget(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    for (const [key, operations] of this.#answered) {
      for (let start = 0; start < operations.length; start += BATCH_SIZE) {
        const call = receiptsForget(key, operations.slice(start, start + BATCH_SIZE))
        // If it fails they end by themselves.
        const forgotten = this.#scripts.run(call).catch(() => {})
        this.#pending = Promise.all([this.#pending, forgotten]).then(() => {})
      }
    }
    this.#answered.clear()
  }
}
