/*
 * The watchdog thread, `holdfast/watchdog-thread`: it renews the leases of the clients of this process while their event loop
 * is blocked. See `ThreadClient`.
 */
import { parentPort } from 'node:worker_threads'
import type { RedisPort } from './adapters/port.js'
import { openDeployment, openUrl } from './config/ports.js'
import type { RedissonConfig } from './config/schema.js'
import { Scripts } from './delivery/scripts.js'
import type { Script, ScriptCall } from './lua/script.js'
import { backoffMs } from './util/backoff.js'
import { threadClock } from './util/clock.js'
import { systemRandom } from './util/random.js'
import { retry } from './util/retry.js'
import type { Renewable } from './watchdog/renewable.js'
import { Renewer } from './watchdog/renewer.js'
import {
  ALIVE_AT,
  type Failure,
  micros,
  type Registration,
  type Renewal,
  TAKE_OVER_AT,
  type ThreadStatus,
  type ToThread,
} from './watchdog/thread-protocol.js'

const LONGEST_PAUSE_MS = 10_000
/** After this many lost connections in a row the failure is reported. */
const MAX_LOST_CONNECTIONS = 4

/** A lease of a client, as a slot of the shared memory. */
class RenewalEntry implements Renewable {
  readonly id: bigint
  readonly #words: BigInt64Array
  readonly #slot: number
  readonly #script: Script
  call: Renewal
  /** What the slot contains while the lease is held; undefined: Redis no longer has it. */
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
  readonly #scripts = new Map<string, Script>()
  readonly #entries = new Map<number, RenewalEntry>()
  #renewer: Renewer<RenewalEntry> | undefined
  #port: RedisPort | undefined
  #checkAt = Number.POSITIVE_INFINITY
  #cancelCheck: (() => void) | undefined
  #isClosed = false

  constructor(registration: Registration, report: (status: ThreadStatus) => void) {
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
    if (this.#checkAt === Number.POSITIVE_INFINITY || at > threadClock.now()) this.#checkBy(at)
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
      const port = await open(this.#registration.connection)
      if (this.#isClosed) return await port.close()
      this.#port = port
      const scripts = new Scripts(port, threadClock, this.#registration.commandTimeoutMs)
      port.listen({ confirmsGrants: false, reconnected: () => scripts.reconnected(), resubscribed: () => {} })
      const isWanted = (one: RenewalEntry): boolean => one.isHeld
      const onRefused = (refused: unknown): void => this.#report({ refused: plain(refused) })
      this.#renewer = new Renewer(threadClock, systemRandom, scripts, this.#registration, isWanted, onRefused)
      this.#report({ isReady: true })
    }
    let failed = 0
    await retry(attempt, {
      clock: threadClock,
      delayMs: (failures) => backoffMs(failures, 100, LONGEST_PAUSE_MS, systemRandom),
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
    this.#cancelCheck = threadClock.after(at - threadClock.now(), () => this.#renewIfDue())
  }

  /** Renews if the client's event loop is blocked. Runs again when that may be the case. */
  #renewIfDue(): void {
    this.#checkAt = Number.POSITIVE_INFINITY
    for (const [slot, entry] of this.#entries) if (!entry.isHeld) this.#entries.delete(slot)
    if (this.#entries.size === 0) return
    const { periodMs, maxBlockMs } = this.#registration
    const now = threadClock.now()
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

async function open(connection: string | object): Promise<RedisPort> {
  if (typeof connection === 'string') return await openUrl(connection)
  const { describe } = await import('./config/deployment.js')
  const deployment = describe(connection as RedissonConfig)
  const port = await openDeployment(deployment)
  // Without this it would connect with the first renewal, which may be too late.
  if (deployment.isLazy) void port.send(['PING'], '').catch(() => {})
  return port
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

const clients = new Map<number, RegisteredClient>()

parentPort?.on('message', (message: ToThread) => {
  const { client: id } = message
  const client = clients.get(id)
  if ('registration' in message) {
    const report = (status: ThreadStatus): void => parentPort?.postMessage({ client: id, ...status })
    clients.set(id, new RegisteredClient(message.registration, report))
  } else if ('script' in message) client?.addScript(message.script)
  else if ('renewal' in message) client?.watch(message.slot, message.id, message.renewal)
  else {
    clients.delete(id)
    void client?.close()
  }
})
