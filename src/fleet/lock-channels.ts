/** The channels of locks, semaphores and latches, and who listens on them. */
import { toArray } from '../delivery/replies.js'
import type { Scripts } from '../delivery/scripts.js'
import { INBOX_PREFIX, latchChannel, lockChannel, readWriteChannel, semaphoreChannel } from '../wire/keys.js'

const CHANNELS = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel]
/** What each of them begins with. */
const PREFIXES = CHANNELS.map((channel) => channel('{@').split('{@')[0] as string)

/** Where waiters for a name may listen. A waiter of a fair lock has a channel of its own. */
export function channelsOf(name: string): string[] {
  return CHANNELS.map((channel) => channel(name))
}

/** How many connections listen on the channels of each name, at all masters together. */
export async function countListeners(scripts: Scripts, names: readonly string[]): Promise<Map<string, number>> {
  const nameOf = new Map(names.flatMap((name) => channelsOf(name).map((channel) => [channel, name])))
  const counts = new Map(names.map((name) => [name, 0]))
  for (const reply of await pubsub(scripts, 'NUMSUB', [...nameOf.keys()])) {
    const words = toArray(reply).map(String)
    for (let at = 0; at + 1 < words.length; at += 2) {
      const name = nameOf.get(words[at] as string)
      if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + Number(words[at + 1]))
    }
  }
  return counts
}

/** The ids of all clients that can be asked. */
export async function listInboxes(scripts: Scripts): Promise<string[]> {
  const found = await channelsLike(scripts, `${INBOX_PREFIX}*`)
  return found.map((channel) => channel.slice(INBOX_PREFIX.length))
}

/** The names that somebody may be waiting for: those with a listener. */
export async function listContended(scripts: Scripts): Promise<string[]> {
  const found = await Promise.all(PREFIXES.map(async (prefix) => await channelsLike(scripts, `${prefix}*`)))
  const names = found.flatMap((channels, at) =>
    channels.flatMap((channel) => namesBehind(channel.slice((PREFIXES[at] as string).length))),
  )
  return [...new Set(names)]
}

/** @param tagged  a channel without its prefix: `{order}`, perhaps with a waiter of a fair lock behind it */
function namesBehind(tagged: string): string[] {
  return untagged(tagged.replace(/:[\w-]{1,64}:-?\d+$/, ''))
}

/** The names that a key or channel may be of: names with braces of their own are used as they are. */
export function untagged(tagged: string): string[] {
  const [, inner] = /^\{([^{]*)\}$/.exec(tagged) ?? []
  return inner === undefined ? [tagged] : [inner, tagged]
}

async function channelsLike(scripts: Scripts, pattern: string): Promise<string[]> {
  const replies = await pubsub(scripts, 'CHANNELS', [pattern])
  return [...new Set(replies.flatMap((reply) => toArray(reply).map(String)))]
}

/** Asks every master, in a cluster also for sharded channels, which Redis has from version 7. */
async function pubsub(scripts: Scripts, what: 'CHANNELS' | 'NUMSUB', words: readonly string[]): Promise<unknown[]> {
  const masters = await scripts.masters()
  const sharded = scripts.isCluster ? masters : []
  return await Promise.all([
    ...masters.map((master) => scripts.askAt(master, ['PUBSUB', what, ...words])),
    ...sharded.map((master) => scripts.askAt(master, ['PUBSUB', `SHARD${what}`, ...words]).catch(() => [])),
  ])
}
