import { createHash } from 'node:crypto'
import type { Acknowledgement, RedisPort } from '../adapters/port.js'
import type { Clock } from '../clock.js'
import { slotOf } from '../slots.js'

export interface Script {
  readonly name: string
  readonly sha1: string
  readonly text: string
}

export type Argument = string | number

/** How our scripts publish. */
const PUBLISH = "redis.pcall('publish', "

/** How they do in a cluster, where some of those who wait listen on the sharded channel, and some on the plain one. */
const PUBLISH_BOTH_WAYS = `local function publish(channel, message)
  local plain = redis.pcall('publish', channel, message)
  local sharded = redis.pcall('spublish', channel, message)
  if type(plain) == 'number' and type(sharded) == 'number' then
    return plain + sharded
  end
  return type(plain) == 'number' and plain or sharded
end
`

/** The forms for clusters of scripts that publish. */
const forClusters = new Map<Script, Script>()

function forCluster(script: Script): Script {
  if (!script.text.includes(PUBLISH)) return script
  const known = forClusters.get(script)
  if (known) return known
  const text = PUBLISH_BOTH_WAYS + script.text.replaceAll(PUBLISH, 'publish(')
  const form = { name: script.name, text, sha1: createHash('sha1').update(text).digest('hex') }
  forClusters.set(script, form)
  return form
}

/** One call of a script, as the functions of `generated.ts` make them. */
export interface ScriptCall {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}

/** A command that Redis did not answer: it may have run, may still run, or may never have been sent. */
export class Unanswered extends Error {}

/**
 * An array reply.
 * @throws {Unanswered} anything else
 */
export function toArray(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw notOurs(reply)
}

/**
 * An array reply, each element as text; nil elements are empty.
 * @throws {Unanswered} anything else
 */
export function toWords(reply: unknown): string[] {
  return toArray(reply).map((word) => (word === null ? '' : String(word)))
}

/** Error replies that mean "not now": nothing ran, and trying again later may succeed. */
const NOT_NOW = /\b(LOADING|BUSY|READONLY|NOREPLICAS|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/

/** Whether trying the same call again later may succeed. All our scripts may run twice. */
export function isWorthRetrying(error: unknown): boolean {
  return error instanceof Unanswered || (error instanceof Error && NOT_NOW.test(error.message))
}

/** Runs scripts: EVALSHA, EVAL when Redis forgot the script, and an answer within the command time-out in any case. */
export class Scripts {
  /** Counts the reconnects of the command connection. A client may then have sent a command twice. */
  reconnects = 0
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #timeoutMs: number
  #inFlight = 0
  #onIdle: (() => void) | undefined

  constructor(port: RedisPort, clock: Clock, timeoutMs: number) {
    this.#port = port
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  /**
   * @param timeoutMs  how long to wait for each reply, ms, from now; default the client's `commandTimeoutMs`
   * @throws {Unanswered} no reply in time, or the connection failed
   * @throws Redis' own error reply as the client gave it
   */
  async run(call: ScriptCall, timeoutMs = this.#timeoutMs): Promise<unknown> {
    const script = this.#port.isCluster ? forCluster(call.script) : call.script
    const rest = [String(call.keys.length), ...call.keys, ...call.args.map(String)]
    const key = call.keys[0] as string
    try {
      return await this.#send(['EVALSHA', script.sha1, ...rest], key, timeoutMs)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw error
      return await this.#send(['EVAL', script.text, ...rest], key, timeoutMs)
    }
  }

  /**
   * Let replicas acknowledge what was written where `key` is.
   * @returns undefined if they can not be asked
   * @throws {Unanswered} no reply in time, or the connection failed
   */
  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement | undefined> {
    const port = this.#port
    if (!port.acknowledge) return undefined
    // Another WAIT may be ahead.
    return await this.#within(2 * timeoutMs + this.#timeoutMs, async () => await port.acknowledge?.(key, timeoutMs))
  }

  get isCluster(): boolean {
    return this.#port.isCluster ?? false
  }

  /** Keys of one script must have the same. Without a cluster all have. */
  slotOf(key: string): number {
    return this.#port.isCluster ? slotOf(key) : 0
  }

  get isIdle(): boolean {
    return this.#inFlight === 0
  }

  /** Resolves when every command was answered or given up. */
  async idle(): Promise<void> {
    if (!this.isIdle) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  #send(command: readonly string[], key: string, timeoutMs: number): Promise<unknown> {
    return this.#within(timeoutMs, () => this.#port.send(command, key))
  }

  #within<T>(timeoutMs: number, ask: () => Promise<T>): Promise<T> {
    this.#inFlight++
    return new Promise((resolve, reject) => {
      const settled = (): void => {
        cancel()
        if (--this.#inFlight === 0) this.#onIdle?.()
      }
      let isTimedOut = false
      const cancel = this.#clock.after(timeoutMs, () => {
        isTimedOut = true
        settled()
        reject(new Unanswered(`no reply within ${timeoutMs} ms`))
      })
      ask().then(
        (reply) => {
          if (isTimedOut) return
          settled()
          resolve(reply)
        },
        (error: unknown) => {
          if (isTimedOut) return
          settled()
          if (this.#port.isErrorReply(error)) reject(error)
          else reject(new Unanswered(error instanceof Error ? error.message : String(error), { cause: error }))
        },
      )
    })
  }
}

/**
 * An integer reply, in whatever form the client library gives it; null stays null.
 * @throws {Unanswered} anything else, such as `QUEUED` in a transaction: then it is not known what became of the script
 */
export function toInteger(reply: unknown): number | null {
  if (reply === null) return null
  const integer = typeof reply === 'object' ? Number(String(reply)) : reply === undefined ? Number.NaN : Number(reply)
  if (!Number.isInteger(integer)) {
    throw notOurs(reply)
  }
  return integer
}

function notOurs(reply: unknown): Unanswered {
  return new Unanswered(`the Redis client answered ${String(reply)}, which is no reply of the script`)
}
