import type { RedisPort } from '../adapters/port.js'
import type { Clock } from '../clock.js'

export interface Script {
  readonly name: string
  readonly sha1: string
  readonly text: string
}

export type Argument = string | number

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
const NOT_NOW = /\b(LOADING|BUSY|READONLY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/

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
    const rest = [String(call.keys.length), ...call.keys, ...call.args.map(String)]
    const key = call.keys[0] as string
    try {
      return await this.#send(['EVALSHA', call.script.sha1, ...rest], key, timeoutMs)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw error
      return await this.#send(['EVAL', call.script.text, ...rest], key, timeoutMs)
    }
  }

  get isIdle(): boolean {
    return this.#inFlight === 0
  }

  /** Resolves when every command was answered or given up. */
  async idle(): Promise<void> {
    if (!this.isIdle) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  #send(command: readonly string[], key: string, timeoutMs: number): Promise<unknown> {
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
      this.#port.send(command, key).then(
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
