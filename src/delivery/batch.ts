import { forMany } from '../lua/forms.js'
import type { Argument, ScriptCall } from '../lua/script.js'

/** So many calls go together: few enough to answer the first ones soon, and to let others have Redis in between. */
const MOST_CALLS = 32
/** Calls with more keys and arguments than this are batches already. */
const MOST_WORDS = 12
/** Names may be long: nobody else is served while Redis reads them. In UTF-16 units, as counting bytes would cost more. */
const MOST_LENGTH = 65_536

/** Somebody who waits for the reply of a call. */
export interface Caller {
  readonly call: ScriptCall
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
  /** Told when it is about to be sent, on the clock. */
  readonly onSent?: ((at: number) => void) | undefined
}

/** How long the keys and arguments of a call are. */
function lengthOf({ keys, args }: ScriptCall): number {
  let length = 0
  for (const key of keys) length += key.length
  for (const arg of args) if (typeof arg === 'string') length += arg.length
  return length
}

/**
 * What goes into one command when each goes together with those before it.
 * @param most  how many, if they are not too long for that
 */
export function inBatches<T extends { readonly call: ScriptCall }>(all: readonly T[], most: number): T[][] {
  const batches: T[][] = []
  let length = Number.POSITIVE_INFINITY
  for (const one of all) {
    const batch = batches.at(-1)
    length += lengthOf(one.call)
    if (batch && batch.length < most && length <= MOST_LENGTH) batch.push(one)
    else {
      batches.push([one])
      length = lengthOf(one.call)
    }
  }
  return batches
}

/** Calls of one script that go to Redis as one command. Each has its own reply. */
export class Batch {
  readonly callers: Caller[]
  readonly timeoutMs: number
  readonly #first: ScriptCall
  #length: number

  constructor(caller: Caller, timeoutMs: number) {
    this.callers = [caller]
    this.#first = caller.call
    this.#length = lengthOf(caller.call)
    this.timeoutMs = timeoutMs
  }

  /** @returns false: it is full */
  add(caller: Caller): boolean {
    const length = this.#length + lengthOf(caller.call)
    if (this.callers.length === MOST_CALLS || length > MOST_LENGTH) return false
    this.#length = length
    this.callers.push(caller)
    return true
  }

  /** Whether this call could go along if there is room. */
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
