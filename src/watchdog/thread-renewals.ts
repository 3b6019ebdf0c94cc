// The watchdog thread's side: renews while the event loop is blocked.
import type { RedisPort } from '../adapters/port.js'
import { Scripts } from '../delivery/scripts.js'
import type { Script, ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { retry } from '../util/retry.js'
import type { Renewable } from './renewable.js'
import { Renewer } from './renewer.js'
import {
  ALIVE_AT,
  type Failure,
  type FromThread,
  micros,
  type Registration,
  type Renewal,
  TAKE_OVER_AT,
  type ThreadStatus,
  type ToThread,
} from './thread-protocol.js'

const LONGEST_PAUSE_MS = 10_000
/** After this many lost connections in a row the failure is reported. */
const MAX_LOST_CONNECTIONS = 4

/** The tools of the thread; replaced by the simulation, which has no threads. */
export interface ThreadTools {
  readonly clock: Clock
  readonly random: Random
  open(connection: string | object): Promise<RedisPort>
  post(message: FromThread): void
}

/** A lease of a client, as a slot of the shared memory. */
class RenewalEntry implements Renewable {
  readonly id: bigint
  readonly #words: BigInt64Array
  readonly #slot: number
  readonly #script: Script
  call: Renewal
  /** The value of the slot while the lease is held; undefined: Redis no longer has it. */
  #word: bigint | undefined

  constructor(words: BigInt64Array, slot: number, id: bigint, script: Script, call: Renewal) {
    this.#words = words
    this.#slot = slot
    this.id = id
    this.#script = script
    this.call = call
    this.#word = -id
  }

  get isHeld(): boolean {
    return Atomics.load(this.#words, this.#slot) === this.#word
  }

  renewal(): ScriptCall {
    return { script: this.#script, keys: this.call.keys, args: this.call.args }
  }

  renewed(sentAt: number): void {
    const word = micros(sentAt)
    // The reply to an earlier renewal may arrive later.
    if (this.#word === undefined || word < this.#word) return
    // Unless it was released meanwhile: then the slot may belong to another lease.
    if (Atomics.compareExchange(this.#words, this.#slot, this.#word, word) === this.#word) this.#word = word
  }

  /** The watchdog of the client reports the loss. */
  markLost(): void {
    this.#word = undefined
  }
}

/** Renews for one client. */
class RegisteredClient {
  readonly #registration: Registration
  readonly #words: BigInt64Array
  readonly #report: (status: ThreadStatus) => void
  readonly #tools: ThreadTools
  readonly #scripts = new Map<string, Script>()
  readonly #entries = new Map<number, RenewalEntry>()
  #renewer: Renewer<RenewalEntry> | undefined
  #port: RedisPort | undefined
  #checkAt = Number.POSITIVE_INFINITY
  #cancelCheck: (() => void) | undefined
  #isClosed = false

  constructor(registration: Registration, report: (status: ThreadStatus) => void, tools: ThreadTools) {
    this.#tools = tools
    this.#registration = registration
    this.#words = new BigInt64Array(registration.memory)
    this.#report = report
    void this.#connect()
  }

  addScript(script: Script): void {
    this.#scripts.set(script.sha1, script)
  }

  watch(slot: number, id: bigint, renewal: Renewal): void {
    const known = this.#entries.get(slot)
    const script = this.#scripts.get(renewal.sha1) as Script
    if (known?.id === id) known.call = renewal
    else this.#entries.set(slot, new RenewalEntry(this.#words, slot, id, script, renewal))
    // If that time has passed, the renewals of this period are under way, and the next check is scheduled.
    const at = this.#takeOverAt
    if (this.#checkAt === Number.POSITIVE_INFINITY || at > this.#tools.clock.now()) this.#checkBy(at)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#entries.clear()
    this.#cancelCheck?.()
    await this.#port?.close()
  }

  /** Retries without end: whether to give up is up to the client. */
  async #connect(): Promise<void> {
    const attempt = async (): Promise<void> => {
      if (this.#isClosed) return
      const port = await this.#tools.open(this.#registration.connection)
      if (this.#isClosed) return await port.close()
      this.#port = port
      const scripts = new Scripts(port, this.#tools.clock, this.#registration.commandTimeoutMs)
      port.listen({ confirmsGrants: false, reconnected: () => scripts.reconnected(), resubscribed: () => {} })
      const isWanted = (one: RenewalEntry): boolean => one.isHeld
      const onRefused = (refused: unknown): void => this.#report({ refused: plain(refused) })
      this.#renewer = new Renewer(
        this.#tools.clock,
        this.#tools.random,
        scripts,
        this.#registration,
        isWanted,
        onRefused,
      )
      this.#report({ isReady: true })
    }
    let failed = 0
    await retry(attempt, {
      clock: this.#tools.clock,
      delayMs: (failures) => backoffMs(failures, 100, LONGEST_PAUSE_MS, this.#tools.random),
      isRetryable: (error) => {
        if (!wasLost(error) || failed >= MAX_LOST_CONNECTIONS) this.#report({ failure: plain(error) })
        failed++
        return true
      },
    })
  }

  get #takeOverAt(): number {
    return Number(Atomics.load(this.#words, TAKE_OVER_AT)) / 1_000
  }

  #checkBy(at: number): void {
    if (at >= this.#checkAt) return
    this.#cancelCheck?.()
    this.#checkAt = at
    this.#cancelCheck = this.#tools.clock.after(at - this.#tools.clock.now(), () => this.#renewIfDue())
  }

  /** Renews if the client's event loop is blocked. Runs again when that may be the case. */
  #renewIfDue(): void {
    this.#checkAt = Number.POSITIVE_INFINITY
    for (const [slot, entry] of this.#entries) if (!entry.isHeld) this.#entries.delete(slot)
    if (this.#entries.size === 0) return
    const { periodMs, maxBlockMs } = this.#registration
    const now = this.#tools.clock.now()
    let nextAt = this.#takeOverAt
    if (now >= nextAt) {
      nextAt = now + periodMs
      const silentForMs = now - Number(Atomics.load(this.#words, ALIVE_AT)) / 1_000
      if (silentForMs < maxBlockMs) {
        void this.#renewer?.renew([...this.#entries.values()].filter(({ call }) => now < call.until))
      }
    }
    this.#checkBy(nextAt)
  }
}

/** Whether a connection was established and then lost: the next attempt may succeed. */
function wasLost(error: unknown): boolean {
  const { message, code, cause } = error as { message?: unknown; code?: unknown; cause?: unknown }
  if (code === 'EPIPE' || code === 'ECONNRESET' || message === 'Connection is closed.') return true
  return cause instanceof Error && wasLost(cause)
}

/** The part of an error that can be sent: errors of Redis clients may have any properties. */
function plain(error: unknown): Failure {
  const { message, code } = error as { message?: unknown; code?: unknown }
  return { message: String(message ?? error), ...(code === undefined ? {} : { code: String(code) }) }
}

/** The thread's side of the watchdog thread. */
export class ThreadRenewals {
  readonly #tools: ThreadTools
  readonly #clients = new Map<number, RegisteredClient>()

  constructor(tools: ThreadTools) {
    this.#tools = tools
  }

  receive(message: ToThread): void {
    const { client: id } = message
    const client = this.#clients.get(id)
    if ('registration' in message) {
      const report = (status: ThreadStatus): void => this.#tools.post({ client: id, ...status })
      this.#clients.set(id, new RegisteredClient(message.registration, report, this.#tools))
    } else if ('script' in message) client?.addScript(message.script)
    else if ('renewal' in message) client?.watch(message.slot, message.id, message.renewal)
    else {
      this.#clients.delete(id)
      void client?.close()
    }
  }
}
