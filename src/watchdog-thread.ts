/*
 * What runs in the thread of the watchdog, `holdfast/watchdog-thread`: it renews what the clients of this process hold as long
 * as their own thread shows no life. See `StandIn`.
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
  type Answer,
  type Failure,
  micros,
  type Registration,
  type Renewal,
  TAKE_OVER_AT,
  type ToThread,
} from './watchdog/thread-client.js'

const LONGEST_PAUSE_MS = 10_000
/** So many connections that are cut at once, one after the other, are no accident: then the client is told. */
const CUTS = 4

/** A lease of a client. */
class RenewalEntry implements Renewable {
  readonly id: bigint
  readonly #words: BigInt64Array
  readonly #index: number
  readonly #script: Script
  call: Renewal
  /** What stands in its place of the memory as long as it is held; undefined: Redis says it is not. */
  #word: bigint | undefined

  constructor(words: BigInt64Array, index: number, id: bigint, script: Script, call: Renewal) {
    this.#words = words
    this.#index = index
    this.id = id
    this.#script = script
    this.call = call
    this.#word = -id
  }

  get isHeld(): boolean {
    return Atomics.load(this.#words, this.#index) === this.#word
  }

  renewal(): ScriptCall {
    return { script: this.#script, keys: this.call.keys, args: this.call.args }
  }

  renewed(sentAt: number): void {
    const word = micros(sentAt)
    // An earlier one may be answered later.
    if (this.#word === undefined || word < this.#word) return
    // Not if it was released meanwhile, and something else is in its place.
    if (Atomics.compareExchange(this.#words, this.#index, this.#word, word) === this.#word) this.#word = word
  }

  /** Its holder hears of it from its own watchdog. */
  markLost(): void {
    this.#word = undefined
  }
}

/** What is done for one client. */
class Guard {
  readonly #ward: Registration
  readonly #words: BigInt64Array
  readonly #answer: (answer: Answer) => void
  readonly #scripts = new Map<string, Script>()
  readonly #charges = new Map<number, RenewalEntry>()
  #renewer: Renewer<RenewalEntry> | undefined
  #port: RedisPort | undefined
  #lookAt = Number.POSITIVE_INFINITY
  #cancelLook: (() => void) | undefined
  #isClosed = false

  constructor(ward: Registration, answer: (answer: Answer) => void) {
    this.#ward = ward
    this.#words = new BigInt64Array(ward.memory)
    this.#answer = answer
    void this.#connect()
  }

  learn(script: Script): void {
    this.#scripts.set(script.sha1, script)
  }

  watch(index: number, id: bigint, renewal: Renewal): void {
    const known = this.#charges.get(index)
    const script = this.#scripts.get(renewal.sha1) as Script
    if (known?.id === id) known.call = renewal
    else this.#charges.set(index, new RenewalEntry(this.#words, index, id, script, renewal))
    // If that time has passed, what is to be done was done, and is looked at again.
    const at = this.#takeOverAt
    if (this.#lookAt === Number.POSITIVE_INFINITY || at > threadClock.now()) this.#lookBy(at)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#charges.clear()
    this.#cancelLook?.()
    await this.#port?.close()
  }

  /** For as long as it takes: the client gives up, or not. */
  async #connect(): Promise<void> {
    const attempt = async (): Promise<void> => {
      if (this.#isClosed) return
      const port = await open(this.#ward.connection)
      if (this.#isClosed) return await port.close()
      this.#port = port
      const scripts = new Scripts(port, threadClock, this.#ward.commandTimeoutMs)
      const isWanted = (one: RenewalEntry): boolean => one.isHeld
      const onRefused = (refused: unknown): void => this.#answer({ refused: plain(refused) })
      this.#renewer = new Renewer(threadClock, systemRandom, scripts, this.#ward, isWanted, onRefused)
      this.#answer({ isReady: true })
    }
    let failed = 0
    await retry(attempt, {
      clock: threadClock,
      delayMs: (failures) => backoffMs(failures, 100, LONGEST_PAUSE_MS, systemRandom),
      isRetryable: (error) => {
        if (!wasCut(error) || failed >= CUTS) this.#answer({ failure: plain(error) })
        failed++
        return true
      },
    })
  }

  get #takeOverAt(): number {
    return Number(Atomics.load(this.#words, TAKE_OVER_AT)) / 1_000
  }

  #lookBy(at: number): void {
    if (at >= this.#lookAt) return
    this.#cancelLook?.()
    this.#lookAt = at
    this.#cancelLook = threadClock.after(at - threadClock.now(), () => this.#look())
  }

  /** Is it time to stand in? Looked at again when it may be. */
  #look(): void {
    this.#lookAt = Number.POSITIVE_INFINITY
    for (const [index, charge] of this.#charges) if (!charge.isHeld) this.#charges.delete(index)
    if (this.#charges.size === 0) return
    const { periodMs, maxBlockMs } = this.#ward
    const now = threadClock.now()
    let nextAt = this.#takeOverAt
    if (now >= nextAt) {
      nextAt = now + periodMs
      const silentForMs = now - Number(Atomics.load(this.#words, ALIVE_AT)) / 1_000
      if (silentForMs < maxBlockMs) {
        void this.#renewer?.renew([...this.#charges.values()].filter(({ call }) => now < call.until))
      }
    }
    this.#lookBy(nextAt)
  }
}

async function open(connection: string | object): Promise<RedisPort> {
  if (typeof connection === 'string') return await openUrl(connection)
  const { describe } = await import('./config/deployment.js')
  const deployment = describe(connection as RedissonConfig)
  const port = await openDeployment(deployment)
  // Its first command may be too late to begin with that.
  if (deployment.isLazy) void port.send(['PING'], '').catch(() => {})
  return port
}

/** Whether the connection was there and was lost: that says nothing about the next one. */
function wasCut(error: unknown): boolean {
  const { message, code, cause } = error as { message?: unknown; code?: unknown; cause?: unknown }
  if (code === 'EPIPE' || code === 'ECONNRESET' || message === 'Connection is closed.') return true
  return cause instanceof Error && wasCut(cause)
}

/** What can be sent of an error: those of Redis clients may have anything about them. */
function plain(error: unknown): Failure {
  const { message, code } = error as { message?: unknown; code?: unknown }
  return { message: String(message ?? error), ...(code === undefined ? {} : { code: String(code) }) }
}

const guards = new Map<number, Guard>()

parentPort?.on('message', (told: ToThread) => {
  const { client } = told
  const guard = guards.get(client)
  if ('ward' in told) {
    const answer = (answer: Answer): void => parentPort?.postMessage({ client, ...answer })
    guards.set(client, new Guard(told.ward, answer))
  } else if ('script' in told) guard?.learn(told.script)
  else if ('renewal' in told) guard?.watch(told.index, told.id, told.renewal)
  else {
    guards.delete(client)
    void guard?.close()
  }
})
