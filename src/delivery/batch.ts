// Calls of one event loop turn as one command.
import type { Argument, ScriptCall } from '../lua/script.js'
import { forMany } from '../lua/variants.js'

/** The most calls of a batch: few enough that the first ones get their replies soon, and that Redis serves others in between. */
const MAX_CALLS = 32
/** Fewer of scripts that read much. */
const FEWER_CALLS: Readonly<Record<string, number>> = { 'fleet/read': 4, 'web-locks/read': 4, 'web-locks/list': 4 }
/** Calls with more keys and arguments than this are already batches. */
const MAX_WORDS = 12
/** Names may be long, and Redis serves nobody else while it reads them. In UTF-16 units, since counting bytes costs more. */
const MAX_LENGTH = 32_768

/** The reply of a script that has more to do than Redis should do in one go: the same call continues it. */
const UNFINISHED = 'unfinished'

/** A call and what receives its reply. */
export interface Caller {
  readonly call: ScriptCall
  resolve(reply: unknown): void
  reject(error: unknown): void
  /** Called when it is about to be sent, with the time on the clock. */
  onSent?(at: number): void
}

/** The length of a call's keys and arguments. */
function lengthOf({ keys, args }: ScriptCall): number {
  let length = 0
  for (const key of keys) length += key.length
  for (const arg of args) if (typeof arg === 'string') length += arg.length
  return length
}

/**
 * Splits calls into those that go together in one command.
 * @param maxCalls  per command; fewer if they are long
 */
export function inBatches<T extends { readonly call: ScriptCall }>(all: readonly T[], maxCalls: number): T[][] {
  const batches: T[][] = []
  let length = 0
  for (const one of all) {
    const batch = batches.at(-1)
    length += lengthOf(one.call)
    if (batch && batch.length < maxCalls && length <= MAX_LENGTH) batch.push(one)
    else {
      batches.push([one])
      length = lengthOf(one.call)
    }
  }
  return batches
}

/** Calls of one script that are sent as one command. Each gets its own reply. */
export class Batch {
  readonly callers: Caller[]
  readonly timeoutMs: number
  /** On the clock. */
  readonly madeAt: number
  /** How often it was sent again. */
  sends = 0
  readonly #first: ScriptCall
  /** Whether all have the same first key, since others may be on other servers. */
  readonly #isOfOneKey: boolean
  /** Of all calls; 0 as long as there is one. */
  #length = 0

  constructor(caller: Caller, timeoutMs: number, madeAt = 0, isOfOneKey = false) {
    this.callers = [caller]
    this.#first = caller.call
    this.timeoutMs = timeoutMs
    this.madeAt = madeAt
    this.#isOfOneKey = isOfOneKey
  }

  /** @returns false if it is full */
  add(caller: Caller): boolean {
    const length = (this.#length || lengthOf(this.#first)) + lengthOf(caller.call)
    const most = FEWER_CALLS[this.#first.script.name] ?? MAX_CALLS
    if (this.callers.length === most || length > MAX_LENGTH) return false
    this.#length = length
    this.callers.push(caller)
    return true
  }

  /**
   * Whether this call can be added if there is room.
   * @param isOfOneKey  only to calls with the same first key
   */
  fits({ script, keys, args }: ScriptCall, timeoutMs: number, isOfOneKey = false): boolean {
    const first = this.#first
    return (
      script === first.script &&
      isOfOneKey === this.#isOfOneKey &&
      (!isOfOneKey || keys[0] === first.keys[0]) &&
      keys.length === first.keys.length &&
      args.length === first.args.length &&
      timeoutMs === this.timeoutMs &&
      keys.length + args.length <= MAX_WORDS
    )
  }

  /** Whether they have keys in common, so that their order matters. */
  touches(call: ScriptCall): boolean {
    return this.callers.some((caller) => caller.call.keys.some((key) => call.keys.includes(key)))
  }

  /** The one call that makes them all. Arguments that are the same for all are sent once. */
  get call(): ScriptCall {
    const { callers } = this
    const { script, keys, args } = this.#first
    if (callers.length === 1) return this.#first
    const isShared = args.map((arg, index) => callers.every(({ call }) => call.args[index] === arg))
    const allKeys: string[] = []
    const shared = args.filter((_, index) => isShared[index])
    const allArgs: Argument[] = [keys.length, isShared.map(Number).join(''), ...shared]
    for (const { call } of callers) {
      for (const key of call.keys) allKeys.push(key)
      for (let index = 0; index < args.length; index++) if (!isShared[index]) allArgs.push(call.args[index] as Argument)
    }
    return { script: forMany(script), keys: allKeys, args: allArgs }
  }

  /**
   * Gives each caller its own reply.
   * @param reply  Redis's reply to `call`
   * @returns the callers whose calls are to be repeated alone: to finish, or to get their own error. Undefined: it is not a
   *   reply of our script
   */
  resolve(reply: unknown): Caller[] | undefined {
    const { callers } = this
    if (callers.length === 1) {
      if (reply === UNFINISHED) return callers
      callers[0]?.resolve(reply)
      return []
    }
    if (!Array.isArray(reply)) return undefined
    const [failed, replies] = reply
    if (!Array.isArray(failed) || !Array.isArray(replies)) return undefined
    const isFailed = new Set(failed.map(Number))
    const again: Caller[] = []
    for (const [index, caller] of callers.entries()) {
      if (isFailed.has(index) || replies[index] === UNFINISHED) again.push(caller)
      else caller.resolve(replies[index])
    }
    return again
  }

  reject(error: unknown): void {
    for (const caller of this.callers) caller.reject(error)
  }
}
