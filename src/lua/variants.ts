// Variants of a script: for clusters, for batches, with a deadline, run once.
import { sha1Of } from '../platform.js'
import { ONCE, SCRIPTS } from './generated.js'
import type { Script, ScriptCall } from './script.js'

// Here, since generated.ts imports nothing of Node.
for (const script of SCRIPTS) withSha1(script)

/** Computes it when it is first needed: edge runtimes count the time that an import takes. */
function withSha1(script: Script): Script {
  const get = (): string => {
    const value = sha1Of(script.text)
    Object.defineProperty(script, 'sha1', { value, enumerable: true })
    return value
  }
  return Object.defineProperty(script, 'sha1', { get, enumerable: true, configurable: true })
}

/** Returns a function that makes a variant of a script, once for each script. */
function variantOf(write: (text: string) => string, traits: Partial<Script> = {}): (script: Script) => Script {
  const variants = new Map<Script, Script>()
  return (script) => {
    const known = variants.get(script)
    if (known) return known
    const text = write(script.text)
    const variant = text === script.text ? script : withSha1({ ...script, ...traits, text })
    variants.set(script, variant)
    return variant
  }
}

/** How our scripts publish. */
const PUBLISH = "redis.pcall('publish', "

/** How they publish in a cluster, where some waiters subscribe to the sharded channel and some to the plain one. */
const PUBLISH_BOTH_WAYS = `local function publish(channel, message)
  local plain = redis.pcall('publish', channel, message)
  local sharded = redis.pcall('spublish', channel, message)
  if type(plain) == 'number' and type(sharded) == 'number' then
    return plain + sharded
  end
  return type(plain) == 'number' and plain or sharded
end
`

/** How a script learns that it runs in a cluster. */
const IS_CLUSTER = 'local IS_CLUSTER='

/** The variant for clusters: the same, unless it publishes. */
export const forCluster = variantOf((text) =>
  text.includes(PUBLISH)
    ? PUBLISH_BOTH_WAYS + text.replaceAll(PUBLISH, 'publish(').replace(`${IS_CLUSTER}false`, `${IS_CLUSTER}true`)
    : text,
)

/**
 * Arguments: how many keys each call has; for each of its arguments, 1 if all calls share it, otherwise 0; the shared ones;
 * those of each call. Replies with the indexes of the calls that failed, and the replies of all.
 */
const FOR_MANY = `
local keys, shared, args, own, at = tonumber(ARGV[1]), ARGV[2], {}, {}, 3
for index = 1, #shared do
  if shared:sub(index, index) == '1' then
    args[index] = ARGV[at]
    at = at + 1
  else
    own[#own + 1] = index
  end
end
local failed, replies = {}, {}
for call = 1, #KEYS / keys do
  for _, index in ipairs(own) do
    args[index] = ARGV[at]
    at = at + 1
  end
  local isOk, reply = pcall(one, { unpack(KEYS, (call - 1) * keys + 1, call * keys) }, args)
  if not isOk or type(reply) == 'table' and reply.err then
    failed[#failed + 1] = call - 1
    reply = nil
  end
  replies[call] = reply or false
end
return { failed, replies }
`

/** The variant that makes many calls at once. */
export const forMany = variantOf((text) => `local function one(KEYS, ARGV)\n${text}\nend\n${FOR_MANY}`)

/**
 * Two more arguments: when the command was sent by the clock of the server, epoch ms, and how long after that it may still
 * run, ms. It may be up to a second early, since clocks drift. Replies with `TOO_LATE` and the time if it does not run.
 */
const DEADLINE = `
local limitMs = tonumber(table.remove(ARGV))
local sentAt = tonumber(table.remove(ARGV))
local clock = redis.call('time')
local arrivedAt = clock[1] * 1000 + math.floor(clock[2] / 1000)
if arrivedAt > sentAt + limitMs or arrivedAt < sentAt - 1000 then
  return { 'TOOLATE', arrivedAt }
end
`

/** First word of the reply of a script that arrived too late; the time follows. */
export const TOO_LATE = 'TOOLATE'

/** By how much a command may seem to arrive before it was sent, ms. */
export const CLOCK_TOLERANCE_MS = 1_000

/** The variant that does nothing if it arrives late. */
export const inTime = variantOf((text) => DEADLINE + text)

/** The variant that runs once, however many copies arrive, and never late. An integer reply stays what it is; nil is -2. */
export const forOnce = variantOf(
  (text) => `${ONCE}local function one(KEYS, ARGV)\n${text}\nend\nreturn once(KEYS, ARGV, one)\n`,
  { expires: true },
)

/** A call that runs once, under the number of an operation. */
export function once(
  { script, keys, args }: ScriptCall,
  operation: { readonly key: string; readonly number: number; readonly openedAt: number },
): ScriptCall {
  const { key, number, openedAt } = operation
  return { script: forOnce(script), keys: [...keys, key], args: [...args, number, openedAt] }
}
