import {
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  generationKey,
  INBOX_PREFIX,
  idempotencyKey,
  latchChannel,
  lockChannel,
  permitLeases,
  readHoldPrefix,
  readWriteChannel,
  semaphoreChannel,
  turnQueueKey,
} from '../wire/keys.js'
import { isBefore } from './server.js'

/** The commands in the scripts, with valid arguments after the key. A test compares them with `src/lua`. */
export const SCRIPT_COMMANDS = {
  exists: '',
  type: '',
  del: '',
  pexpire: '1',
  pttl: '',
  hexists: 'f',
  hget: 'f',
  hset: 'f v',
  hdel: 'f',
  hgetall: '',
  hlen: '',
  get: '',
  set: 'v',
  incr: '',
  incrby: '1',
  decr: '',
  decrby: '1',
  lindex: '0',
  lpos: 'v',
  lrange: '0 0',
  rpush: 'v',
  lpop: '',
  lrem: '0 v',
  zscore: 'm',
  zadd: '1 m',
  zrem: 'm',
  zrange: '0 0',
  zrangebyscore: '0 0',
  zcard: '',
} as const

/** The commands that plain locks need. */
export const PLAIN_COMMANDS = ['type', 'del', 'pexpire', 'pttl', 'hexists', 'hset', 'hdel', 'hgetall', 'hlen']

/** Sent by Holdfast and its Redis client, with arguments. */
export const CLIENT_COMMANDS = ['evalsha x 0', 'eval x 0', 'publish {} x', 'subscribe {}', 'unsubscribe {}', 'time']
/** For messages in a cluster. */
export const SHARDED_COMMANDS = ['spublish {} x', 'ssubscribe {}', 'sunsubscribe {}']
/** For finding nodes and slots in a cluster. */
export const CLUSTER_COMMANDS = ['cluster slots', 'cluster info', 'asking']
/** For acknowledgements by replicas, and to see whether Redis is loading. */
export const REPLICA_COMMANDS = ['wait 0 0', 'info']
/**
 * In this order: for node-redis with `pingInterval`; for valkey-glide, to tell connections apart; for clients with a name
 * (valkey-glide does not connect without it); for every client, which reports its name and version; for a URL with a
 * database.
 */
export const EXTRA_COMMANDS = ['ping', 'client info', 'client setname', 'client setinfo', 'select']

const ALL_COMMANDS = [
  ...CLIENT_COMMANDS.filter((command) => command !== 'time'),
  ...REPLICA_COMMANDS,
  ...EXTRA_COMMANDS,
  ...SHARDED_COMMANDS,
  ...CLUSTER_COMMANDS,
  'time',
]

/** The name in ACL SETUSER of a command with its arguments: `cluster|slots`, `eval`. */
export function rightTo(command: string): string {
  const [name = '', sub] = command.split(' ')
  return name === 'cluster' || name === 'client' ? `${name}|${sub}` : name
}

/** Newer than any other: used if the version is unknown. */
const NEWEST: readonly number[] = [Number.POSITIVE_INFINITY]

/** The rights that this version knows: it rejects a rule with others. */
function rightsFor(version: readonly number[]): string[] {
  const rights = [...ALL_COMMANDS.map(rightTo), ...Object.keys(SCRIPT_COMMANDS)]
  if (isBefore(version, 7)) {
    const sharded = SHARDED_COMMANDS.map(rightTo)
    // Accepts any subcommand, and logs a denial of those it does not have, such as this one of node-redis.
    return [...rights.filter((right) => !sharded.includes(right)), 'client|maint_notifications']
  }
  return isBefore(version, 7, 2) ? rights.filter((right) => right !== 'client|setinfo') : rights
}

/** Makes a key or channel from the name of a lock or a synchronizer. */
type NameFormat = (name: string) => string

const KEYS: readonly NameFormat[] = [
  (name) => name,
  readHoldPrefix, // also the beginning of `permitLeases`
  turnQueueKey,
  fairQueue,
  fairDeadlines,
  fencingTokenKey,
  (name) => idempotencyKey(name, ''),
  generationKey,
]
const CHANNELS: readonly NameFormat[] = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel]
/** Clients' inboxes, which do not depend on lock names. Their messages are hints that neither grant nor end a lock. */
const INBOXES = `&${INBOX_PREFIX}*`

/**
 * All that Holdfast needs, on any deployment, for all kinds of locks and synchronizers with this prefix, and nothing for
 * others.
 * @param prefix   of their names; a Redis pattern, with or without a `*` at the end
 * @param version  of Redis, or the one that another product claims to be compatible with
 * @returns one line for redis-cli. The user has to replace `secret` in it
 */
export function aclRule(user: string, prefix: string, version = NEWEST): string {
  const pattern = prefix.endsWith('*') ? prefix : `${prefix}*`
  // Redis 6.0 cannot limit channels. Later versions need a reset before channels can be listed.
  const channels = isBefore(version, 6, 2)
    ? []
    : ['resetchannels', INBOXES, ...patternsOf(CHANNELS, pattern).map((one) => `&${one}`)]
  return [
    ...['ACL', 'SETUSER', user, 'reset', 'on', '>secret'], // an existing user keeps nothing
    ...rightsFor(version).map((right) => `+${right}`),
    ...patternsOf(KEYS, pattern).map((one) => `~${one}`),
    ...channels,
  ].join(' ')
}

/** For ordinary names, which are put in braces, and for names with a brace, which are used as they are. */
function patternsOf(formats: readonly NameFormat[], pattern: string): string[] {
  const starts = formats.flatMap((format) => ['@', '@{'].map((name) => format(name).split('@', 1)[0] as string))
  const patterns = [...new Set(starts.map((start) => `${start}${pattern}`))]
  // Redis rejects a pattern that another one, such as `*`, includes.
  return patterns.filter((one) => !patterns.some((other) => other !== one && one.startsWith(other.slice(0, -1))))
}

/** The keys and channels of one name, with the kinds that use them. */
export function namesOf(name: string): { keys: Map<string, string>; channels: Map<string, string> } {
  return {
    keys: new Map([
      [name, 'all locks'],
      [turnQueueKey(name), 'the turn queue'],
      [`${readHoldPrefix(name)}x`, 'read-write locks'],
      [permitLeases(name), 'permits'],
      [fairQueue(name), 'fair locks'],
      [fairDeadlines(name), 'fair locks'],
      [fencingTokenKey(name), 'fenced locks'],
      [idempotencyKey(name, 'x'), 'semaphores and latches'],
      [generationKey(name), 'semaphores'],
    ]),
    channels: new Map([
      [lockChannel(name), 'all locks'],
      [INBOX_PREFIX, 'the turn queue'],
      [readWriteChannel(name), 'read-write locks'],
      [semaphoreChannel(name), 'semaphores'],
      [latchChannel(name), 'latches'],
    ]),
  }
}
