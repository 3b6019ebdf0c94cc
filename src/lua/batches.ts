import { forMany } from './forms.js'
import type { Argument, ScriptCall } from './run.js'

/** So many calls go together: few enough to answer the first ones soon, and to let others have Redis in between. */
const MOST_CALLS = 32
/** Calls with more keys and arguments than this are batches already. */
const MOST_WORDS = 12

/** Somebody who waits for the reply of a call. */
export interface Caller {
  readonly call: ScriptCall
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
  /** Told when it is about to be sent, on the clock. */
  readonly onSent?: ((at: number) => void) | undefined
}

/** Calls of one script that go to Redis as one command. Each has its own reply. */
export class Batch {
  readonly callers: Caller[]
  readonly timeoutMs: number
  readonly #first: ScriptCall

  constructor(caller: Caller, timeoutMs: number) {
    this.callers = [caller]
    this.#first = caller.call
    this.timeoutMs = timeoutMs
  }

  get isFull(): boolean {
    return this.callers.length === MOST_CALLS
  }

  /** Whether this call could go along. */
  fits({ script, keys, args }: ScriptCall, timeoutMs: number): boolean {
    const first = this.#first
    return (
      script === first.script &&
      keys.length === first.keys.length &&
      args.length === first.args.length &&
      timeoutMs === this.timeoutMs &&
      keys.length + args.length <= MOST_WORDS
    )
  }

  /** Whether a call that is sent before this one might see another state. */
  touches(call: ScriptCall): boolean {
    return this.callers.some((caller) => caller.call.keys.some((key) => call.keys.includes(key)))
  }

  /** The command of all. What is the same for all is sent once. */
  get call(): ScriptCall {
    const { callers } = this
    const { script, keys, args } = this.#first
    if (callers.length === 1) return this.#first
    const isShared = args.map((arg, index) => callers.every(({ call }) => call.args[index] === arg))
    const allKeys: string[] = []
    const allArgs: Argument[] = [keys.length, isShared.map(Number).join('')]
    for (let index = 0; index < args.length; index++) if (isShared[index]) allArgs.push(args[index] as Argument)
    for (const { call } of callers) {
      for (const key of call.keys) allKeys.push(key)
      for (let index = 0; index < args.length; index++) if (!isShared[index]) allArgs.push(call.args[index] as Argument)
    }
    return { script: forMany(script), keys: allKeys, args: allArgs }
  }

  /**
   * What Redis replied to `call`.
   * @returns those that failed: alone they get the error that is theirs. Undefined: it is no reply of ours
   */
  answer(reply: unknown): Caller[] | undefined {
    const { callers } = this
    if (callers.length === 1) {
      callers[0]?.resolve(reply)
      return []
    }
    const [failed, replies] = Array.isArray(reply) ? reply : []
    if (!Array.isArray(failed) || !Array.isArray(replies)) return undefined
    const isFailed = new Set(failed.map(Number))
    return callers.filter(({ resolve }, index) => isFailed.has(index) || resolve(replies[index]))
  }

  fail(error: unknown): void {
    for (const { reject } of this.callers) reject(error)
  }
}
