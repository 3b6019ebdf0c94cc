import { createHash } from 'node:crypto'
import type { Script, ScriptCall } from './run.js'

/** So many calls go together: few enough to answer the first ones soon, and to let others have Redis in between. */
const MOST_CALLS = 32
/** Calls with more keys and arguments than this are batches already. */
const MOST_WORDS = 12

/** Somebody who waits for the reply of a call. */
export interface Caller {
  readonly call: ScriptCall
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
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

  takes({ script, keys, args }: ScriptCall, timeoutMs: number): boolean {
    const first = this.#first
    return (
      script === first.script &&
      keys.length === first.keys.length &&
      args.length === first.args.length &&
      timeoutMs === this.timeoutMs &&
      keys.length + args.length <= MOST_WORDS &&
      this.callers.length < MOST_CALLS
    )
  }

  /** Whether a call that is sent before this one might see another state. */
  touches(call: ScriptCall): boolean {
    return this.callers.some((caller) => caller.call.keys[0] === call.keys[0])
  }

  /** The command of all. */
  get call(): ScriptCall {
    const { callers } = this
    const { script, keys, args } = this.#first
    if (callers.length === 1) return this.#first
    return {
      script: forMany(script),
      keys: callers.flatMap((caller) => caller.call.keys),
      args: [keys.length, args.length, ...callers.flatMap((caller) => caller.call.args)],
    }
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

/** Replies which calls failed, and the replies of all. */
const FOR_MANY = `
local keys, args = ARGV[1], ARGV[2]
local failed, replies = {}, {}
for call = 0, #KEYS / keys - 1 do
  local ours = { unpack(KEYS, call * keys + 1, call * keys + keys) }
  local fine, reply = pcall(one, ours, { unpack(ARGV, call * args + 3, call * args + args + 2) })
  if not fine or type(reply) == 'table' and reply.err then
    failed[#failed + 1] = call
    reply = nil
  end
  replies[call + 1] = reply or false
end
return { failed, replies }
`

const forms = new Map<Script, Script>()

/** The form of a script that does many calls at once. */
export function forMany(script: Script): Script {
  const known = forms.get(script)
  if (known) return known
  const text = `local function one(KEYS, ARGV)\n${script.text}\nend\n${FOR_MANY}`
  const form = { name: script.name, text, sha1: createHash('sha1').update(text).digest('hex') }
  forms.set(script, form)
  return form
}
