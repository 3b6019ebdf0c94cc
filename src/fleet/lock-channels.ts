/** The channels of locks, semaphores and latches, and who listens on them. */
import { toArray } from '../delivery/replies.js'
import type { Scripts } from '../delivery/scripts.js'
import type { Subscription, Wakeups } from '../waiting/wakeups.js'
import {
  INBOX_PREFIX,
  latchChannel,
  lockChannel,
  readWriteChannel,
  semaphoreChannel,
  watchChannel,
} from '../wire/keys.js'

const CHANNELS = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel]
/** The prefixes of these channels. */
const PREFIXES = CHANNELS.map((channel) => channel('@').split('{@')[0] as string)

/** Where waiters for a key may listen. A waiter of a fair lock has a channel of its own. */
export function channelsOf(key: string): string[] {
  return CHANNELS.map((channel) => channel(key))
}

/** Listens to the channels of one key. */
export interface LockListening {
  /** Whether Redis has confirmed all of them. */
  readonly isLive: boolean
  leave(): void
}

/**
 * Listens to the channels of a key, to watch it. If Redis denies one of them, it leaves all.
 * @param onHint  called when something may have changed: with each message, and when messages may have been missed
 */
export function subscribeToLock(wakeups: Wakeups, key: string, onHint: () => void): LockListening {
  const subscriptions: Subscription[] = []
  const leave = (): void => {
    for (const subscription of subscriptions.splice(0)) subscription.leave()
  }
  const listener = (): void => {
    if (subscriptions.some(({ isRefused }) => isRefused)) leave()
    onHint()
  }
  const channels = channelsOf(key)
  for (const channel of [...channels, ...channels.map(watchChannel)])
    subscriptions.push(wakeups.listen(channel, listener))
  return {
    get isLive() {
      return subscriptions.length > 0 && subscriptions.every(({ isLive }) => isLive)
    },
    leave,
  }
}

/** Connections that listen on the channels of a key without only watching it. */
export interface Listeners {
  readonly count: number
  /** What it is, if they say so. */
  readonly as: 'semaphore' | 'latch' | undefined
}

/** Those of each key, at all masters together. */
export async function countListeners(scripts: Scripts, keys: readonly string[]): Promise<Map<string, Listeners>> {
  const channels = keys.flatMap(channelsOf)
  const counts = new Map<string, number>()
  for (const reply of await pubsub(scripts, 'NUMSUB', [...new Set([...channels, ...channels.map(watchChannel)])])) {
    const words = toArray(reply).map(String)
    for (let at = 0; at + 1 < words.length; at += 2) {
      const channel = words[at] as string
      counts.set(channel, (counts.get(channel) ?? 0) + Number(words[at + 1]))
    }
  }
  const countOf = (channel: string): number => counts.get(channel) ?? 0
  const waitersAt = (channel: string): number => Math.max(0, countOf(channel) - countOf(watchChannel(channel)))
  return new Map(
    keys.map((key) => {
      const count = channelsOf(key).reduce((sum, channel) => sum + waitersAt(channel), 0)
      const isSemaphore = waitersAt(semaphoreChannel(key)) > 0
      const as = isSemaphore ? 'semaphore' : waitersAt(latchChannel(key)) > 0 ? 'latch' : undefined
      return [key, { count, as }]
    }),
  )
}

/** The ids of all clients that can be asked. */
export async function listInboxes(scripts: Scripts): Promise<string[]> {
  const found = await channelsLike(scripts, `${INBOX_PREFIX}*`)
  return found.map((channel) => channel.slice(INBOX_PREFIX.length))
}

/** The keys that somebody may be waiting for: those with a listener. */
export async function listContended(scripts: Scripts): Promise<string[]> {
  const found = await Promise.all(PREFIXES.map(async (prefix) => await channelsLike(scripts, `${prefix}*`)))
  const keys = found.flatMap((channels, at) =>
    channels.flatMap((channel) => {
      const tagged = channel.slice((PREFIXES[at] as string).length)
      return CHANNELS[at] === latchChannel ? [tagged.slice(1, -1)] : keysBehind(tagged)
    }),
  )
  return [...new Set(keys)]
}

/** @param tagged  a channel without its prefix: `{order}`, perhaps with a waiter of a fair lock behind it */
function keysBehind(tagged: string): string[] {
  return untagged(tagged.replace(/:[\w-]{1,64}:-?\d+$/, ''))
}

/** The locks that a key or channel may be of: keys with braces of their own are used as they are. */
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
    ...masters.map((master) => scripts.commandAt(master, ['PUBSUB', what, ...words])),
    ...sharded.map((master) => scripts.commandAt(master, ['PUBSUB', `SHARD${what}`, ...words]).catch(() => [])),
  ])
}
