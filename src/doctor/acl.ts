// The ACL rule that a user needs.
import {
  AUDIT_KEY,
  CLIENT_PREFIX,
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  forcedKey,
  generationKey,
  INBOX_PREFIX,
  idempotencyKey,
  JOBS_KEY,
  jobKey,
  latchChannel,
  lockChannel,
  permitLeases,
  REPLY_PREFIX,
  readHoldPrefix,
  readWriteChannel,
  semaphoreChannel,
  turnQueueKey,
  WEB_LOCKS_KEY,
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
  hscan: '0',
  get: '',
  set: 'v',
  incr: '',
  incrby: '1',
  decr: '',
  decrby: '1',
  lindex: '0',
  llen: '',
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
  zcount: '0 0',
} as const

/** The commands that plain locks need. */
export const PLAIN_COMMANDS = ['pexpire', 'pttl', 'hexists', 'hget', 'hset', 'hdel', 'hgetall', 'hlen']

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

/** For finding locks and clients, with arguments. */
export const LISTING_COMMANDS = ['scan 0', 'pubsub channels x', 'pubsub numsub x']
/** The same in a cluster. */
export const SHARDED_LISTING_COMMANDS = ['pubsub shardchannels x', 'pubsub shardnumsub x']
/** In the scripts that read a lock or a job, besides `time`, and for reading the audit. None of them writes. */
export const READ_COMMANDS = ['exists', 'type', 'pttl', 'hlen', 'hget', 'hgetall', 'hscan', 'get', 'lrange', 'zrange']
/** For recording which locks were broken, with arguments after the key. */
export const AUDIT_COMMANDS = ['lpush x', 'ltrim 0 0']

/**
 * The purpose of a Redis user: `app` takes locks; `viewer` sees who holds them, and changes nothing; `operator` sees them
 * and may break them, so it may do all that `app` may.
 */
export type Role = 'app' | 'viewer' | 'operator'

const COMMANDS: Record<Role, readonly string[]> = {
  app: [...ALL_COMMANDS, ...Object.keys(SCRIPT_COMMANDS)],
  viewer: [
    ...ALL_COMMANDS.filter((command) => !command.startsWith('wait ')),
    ...LISTING_COMMANDS,
    ...SHARDED_LISTING_COMMANDS,
    ...READ_COMMANDS,
  ],
  operator: [
    ...ALL_COMMANDS,
    ...Object.keys(SCRIPT_COMMANDS),
    ...LISTING_COMMANDS,
    ...SHARDED_LISTING_COMMANDS,
    ...AUDIT_COMMANDS,
  ],
}

export const ROLES = Object.keys(COMMANDS) as Role[]

/** The name in ACL SETUSER of a command with its arguments: `cluster|slots`, `eval`. */
export function rightTo(command: string): string {
  const [name = '', sub] = command.split(' ')
  return ['cluster', 'client', 'pubsub'].includes(name) ? `${name}|${sub}` : name
}

/** Newer than any other: used if the version is unknown. */
const NEWEST: readonly number[] = [Number.POSITIVE_INFINITY]

/** The rights that this version knows: it rejects a rule with others. */
function rightsFor(role: Role, version: readonly number[]): string[] {
  const rights = COMMANDS[role].map(rightTo)
  if (isBefore(version, 7)) {
    const sharded = [...SHARDED_COMMANDS, ...SHARDED_LISTING_COMMANDS].map(rightTo)
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
  jobKey,
]
/** The keys of the scripts that read a lock or a job. */
const VIEWED_KEYS: readonly NameFormat[] = [
  (name) => name,
  readHoldPrefix, // and `permitLeases`
  turnQueueKey,
  fairQueue,
  fencingTokenKey,
  generationKey,
  jobKey,
]
const CHANNELS: readonly NameFormat[] = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel]
/** Clients' own channels, which do not depend on lock names. Their messages are hints that neither grant nor end a lock. */
const INBOXES = [`&${INBOX_PREFIX}*`, `&${REPLY_PREFIX}*`]

/**
 * All that Holdfast needs, on any deployment, for all kinds of locks and synchronizers with this prefix, and nothing for
 * others.
 * @param prefix   of their names; a Redis pattern, with or without a `*` at the end
 * @param version  of Redis, or the one that another product claims to be compatible with
 * @param role     what the user is for
 * @returns one line for redis-cli. The user has to replace `secret` in it
 */
export function aclRule(user: string, prefix: string, version = NEWEST, role: Role = 'app'): string {
  const pattern = prefix.endsWith('*') ? prefix : `${prefix}*`
  // Redis 6.0 cannot limit channels. Later versions need a reset before channels can be listed.
  const ofLocks = role === 'viewer' ? [] : patternsOf(CHANNELS, pattern).map((one) => `&${one}`)
  const channels = isBefore(version, 6, 2) ? [] : ['resetchannels', ...INBOXES, ...ofLocks]
  return [
    ...['ACL', 'SETUSER', user, 'reset', 'on', '>secret'], // an existing user keeps nothing
    ...rightsFor(role, version).map((right) => `+${right}`),
    ...keyPatterns(role, pattern, version),
    ...channels,
  ].join(' ')
}

function keyPatterns(role: Role, pattern: string, version: readonly number[]): string[] {
  const { all, readOnly } = keysOf(role, pattern)
  const reads = isBefore(version, 7) ? '~' : '%R~' // before 7.0 nothing can be allowed for reading only
  return withoutIncluded([...all, ...readOnly]).map((one) => `${readOnly.includes(one) ? reads : '~'}${one}`)
}

/**
 * Marks are for operators to write, and for holders to read. A viewer has all rights to the keys of a lock, because Redis
 * wants them for each key of a script, and writes none of them, because it has no command that writes.
 */
function keysOf(role: Role, pattern: string): { all: string[]; readOnly: string[] } {
  const records = `${CLIENT_PREFIX}*`
  const marks = patternsOf([(name) => forcedKey(name, 'x')], pattern)
  if (role === 'viewer') return { all: patternsOf(VIEWED_KEYS, pattern), readOnly: [records, AUDIT_KEY, JOBS_KEY] }
  const all = [...patternsOf(KEYS, pattern), JOBS_KEY, WEB_LOCKS_KEY, records]
  return role === 'app' ? { all, readOnly: marks } : { all: [...all, ...marks, AUDIT_KEY], readOnly: [] }
}

/** For ordinary names, which are put in braces, and for names with a brace, which are used as they are. */
function patternsOf(formats: readonly NameFormat[], pattern: string): string[] {
  const starts = formats.flatMap((format) => ['@', '@{'].map((name) => format(name).split('@', 1)[0] as string))
  return withoutIncluded([...new Set(starts.map((start) => `${start}${pattern}`))])
}

/** Redis rejects a pattern that another one, such as `*`, includes. */
function withoutIncluded(patterns: readonly string[]): string[] {
  const includes = (other: string, one: string): boolean =>
    other !== one && other.endsWith('*') && one.startsWith(other.slice(0, -1))
  return patterns.filter((one) => !patterns.some((other) => includes(other, one)))
}

/** The keys and channels of one name, with the kinds that use them. */
export function namesOf(name: string, role: Role): { keys: Map<string, string>; channels: Map<string, string> } {
  if (role === 'viewer') {
    const kindsOf = (names: string[], kinds: string): Map<string, string> => new Map(names.map((one) => [one, kinds]))
    return {
      keys: kindsOf([...VIEWED_KEYS.map((format) => format(name)), CLIENT_PREFIX], 'all locks'),
      channels: kindsOf([INBOX_PREFIX, REPLY_PREFIX], 'asking clients'),
    }
  }
  return {
    keys: new Map([
      [name, 'all locks'],
      [turnQueueKey(name), 'the turn queue'],
      [`${readHoldPrefix(name)}x`, 'read-write locks'],
      [permitLeases(name), 'permits'],
      [fairQueue(name), 'fair locks'],
      [fairDeadlines(name), 'fair locks'],
      [fencingTokenKey(name), 'fenced locks'],
      [idempotencyKey(name, 'x'), 'forceUnlock(), semaphores and latches'],
      [generationKey(name), 'semaphores'],
      [jobKey(name), 'holdfast run'],
      [CLIENT_PREFIX, 'inspection'],
    ]),
    channels: new Map([
      [lockChannel(name), 'all locks'],
      [INBOX_PREFIX, 'the turn queue'],
      [REPLY_PREFIX, 'inspection'],
      [readWriteChannel(name), 'read-write locks'],
      [semaphoreChannel(name), 'semaphores'],
      [latchChannel(name), 'latches'],
    ]),
  }
}
