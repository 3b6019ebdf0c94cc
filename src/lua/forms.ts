import { createHash } from 'node:crypto'
import type { Script } from './script.js'

/** Another form of scripts, each made once. */
function formOf(write: (text: string) => string): (script: Script) => Script {
  const forms = new Map<Script, Script>()
  return (script) => {
    const known = forms.get(script)
    if (known) return known
    const text = write(script.text)
    const form =
      text === script.text ? script : { name: script.name, text, sha1: createHash('sha1').update(text).digest('hex') }
    forms.set(script, form)
    return form
  }
}

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

/** The form for clusters: the same, unless it publishes. */
export const forCluster = formOf((text) =>
  text.includes(PUBLISH) ? PUBLISH_BOTH_WAYS + text.replaceAll(PUBLISH, 'publish(') : text,
)

/**
 * Arguments: how many keys each call has; for each of its arguments, 1 if all calls share it; those that are shared; those
 * of each call. Replies which calls failed, and the replies of all.
 */
const FOR_MANY = `
local keys, shared, args, own, word = tonumber(ARGV[1]), ARGV[2], {}, {}, 3
for index = 1, #shared do
  if shared:sub(index, index) == '1' then
    args[index] = ARGV[word]
    word = word + 1
  else
    own[#own + 1] = index
  end
end
local failed, replies = {}, {}
for call = 1, #KEYS / keys do
  for _, index in ipairs(own) do
    args[index] = ARGV[word]
    word = word + 1
  end
  local fine, reply = pcall(one, { unpack(KEYS, (call - 1) * keys + 1, call * keys) }, args)
  if not fine or type(reply) == 'table' and reply.err then
    failed[#failed + 1] = call - 1
    reply = nil
  end
  replies[call] = reply or false
end
return { failed, replies }
`

/** The form that does many calls at once. */
export const forMany = formOf((text) => `local function one(KEYS, ARGV)\n${text}\nend\n${FOR_MANY}`)
