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

/** Of the scripts, with arguments that fit after the key. A test compares them with `src/lua`. */
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

/** What plain locks do with. */
export const PLAIN_COMMANDS = ['type', 'del', 'pexpire', 'pttl', 'hexists', 'hset', 'hdel', 'hgetall', 'hlen']

/** Sent by Holdfast and its Redis client, each as it is sent. */
export const CLIENT_COMMANDS = ['evalsha x 0', 'eval x 0', 'publish {} x', 'subscribe {}', 'unsubscribe {}', 'time']
/** For messages in a cluster. */
export const SHARDED_COMMANDS = ['spublish {} x', 'ssubscribe {}', 'sunsubscribe {}']
/** For the client to find its way in a cluster. */
export const CLUSTER_COMMANDS = ['cluster slots', 'cluster info', 'asking']
/** For replicas, and whether Redis is loading. */
export const REPLICA_COMMANDS = ['wait 0 0', 'info']
/**
 * Of node-redis with `pingInterval`; of valkey-glide, whose connections are told apart by it; of clients with a name,
 * without which valkey-glide does not connect; of every client, which tells its own name and version; of URLs with a
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

/** What ACL SETUSER calls a command, given with its arguments: `cluster|slots`, `eval`. */
export function rightTo(command: string): string {
  const [name = '', sub] = command.split(' ')
  return name === 'cluster' || name === 'client' ? `${name}|${sub}` : name
}

/** Newer than any other: for whoever does not know it. */
const NEWEST: readonly number[] = [Number.POSITIVE_INFINITY]

/** As an ACL of this version knows them: it refuses a rule that has others. */
function rightsFor(version: readonly number[]): string[] {
  const rights = [...ALL_COMMANDS.map(rightTo), ...Object.keys(SCRIPT_COMMANDS)]
  if (isBefore(version, 7)) {
    const sharded = SHARDED_COMMANDS.map(rightTo)
    // It takes any subcommand, and logs a refusal of those that it does not have itself, such as this one of node-redis.
    return [...rights.filter((right) => !sharded.includes(right)), 'client|maint_notifications']
  }
  return isBefore(version, 7, 2) ? rights.filter((right) => right !== 'client|setinfo') : rights
}

/** What the name of a lock or a synchronizer becomes in Redis. */
type Spelling = (name: string) => string

const KEYS: readonly Spelling[] = [
  (name) => name,
  readHoldPrefix, // `permitLeases` begins the same
  turnQueueKey,
  fairQueue,
  fairDeadlines,
  fencingTokenKey,
  (name) => idempotencyKey(name, ''),
  generationKey,
]
const CHANNELS: readonly Spelling[] = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel]
/** Those of the clients, whatever the names of their locks. What is said there is a hint, and takes or ends no lock. */
const INBOXES = `&${INBOX_PREFIX}*`

/**
 * All that Holdfast needs, on any deployment, for all kinds of locks and synchronizers, and nothing of those whose names
 * begin otherwise.
 * @param prefix   of their names; a pattern of Redis, with or without a `*` at the end
 * @param version  of Redis, or the one that another product says it is compatible with
 * @returns one line for redis-cli. `secret` is to be replaced
 */
export function aclRule(user: string, prefix: string, version = NEWEST): string {
  const pattern = prefix.endsWith('*') ? prefix : `${prefix}*`
  // Redis 6.0 cannot limit channels. Later, whoever has all of them must lose them before others may be named.
  const channels = isBefore(version, 6, 2)
    ? []
    : ['resetchannels', INBOXES, ...patternsOf(CHANNELS, pattern).map((one) => `&${one}`)]
  return [
    ...['ACL', 'SETUSER', user, 'reset', 'on', '>secret'], // a user who is there already keeps nothing
    ...rightsFor(version).map((right) => `+${right}`),
    ...patternsOf(KEYS, pattern).map((one) => `~${one}`),
    ...channels,
  ].join(' ')
}

/** For names as most are, which are put in braces, and for names with a brace, which are used as they are. */
function patternsOf(spellings: readonly Spelling[], pattern: string): string[] {
  const starts = spellings.flatMap((spell) => ['@', '@{'].map((name) => spell(name).split('@', 1)[0] as string))
  const patterns = [...new Set(starts.map((start) => `${start}${pattern}`))]
  // Redis refuses a pattern beside `*`, which has it already.
  return patterns.filter((one) => !patterns.some((other) => other !== one && one.startsWith(other.slice(0, -1))))
}

/** The keys and channels of one name, with the kinds that they are for. */
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
