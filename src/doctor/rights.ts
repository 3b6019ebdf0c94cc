import {
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  latchChannel,
  lockChannel,
  permitLeases,
  readHoldPrefix,
  readWriteChannel,
  receiptsKey,
  semaphoreChannel,
  waitersKey,
} from '../keys.js'

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
 * without which valkey-glide does not connect; of URLs with a database.
 */
export const EXTRA_COMMANDS = ['ping', 'client info', 'client setname', 'select']

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

/** Before the name, in every key or channel of the kind. */
function stemOf(key: (name: string) => string): string {
  return key('').split('{', 1)[0] as string
}

const KEY_STEMS = [waitersKey, fairQueue, fairDeadlines, fencingTokenKey, (name: string) => receiptsKey(name, '')].map(
  stemOf,
)
const CHANNEL_STEMS = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel].map(stemOf)

/**
 * All that Holdfast needs, on any deployment, for all kinds of locks and synchronizers.
 * @param prefix  of their names; a pattern of Redis, with or without a `*` at the end
 * @returns one line for redis-cli. `secret` is to be replaced
 */
export function aclRule(user: string, prefix: string): string {
  const pattern = prefix.endsWith('*') ? prefix : `${prefix}*`
  // Redis refuses a pattern that all others are part of.
  const keys = pattern === '*' ? ['*'] : [pattern, `{${pattern}`, ...KEY_STEMS.map((stem) => `${stem}*`)]
  return [
    ...['ACL', 'SETUSER', user, 'on', '>secret'],
    ...[...ALL_COMMANDS, ...Object.keys(SCRIPT_COMMANDS)].map((command) => `+${rightTo(command)}`),
    ...keys.map((key) => `~${key}`),
    ...CHANNEL_STEMS.map((stem) => `&${stem}*`),
  ].join(' ')
}

/** The keys and channels of one name, with the kinds that they are for. */
export function namesOf(name: string): { keys: Map<string, string>; channels: Map<string, string> } {
  return {
    keys: new Map([
      [name, 'all locks'],
      [waitersKey(name), 'the line of clients'],
      [`${readHoldPrefix(name)}x`, 'read-write locks'],
      [permitLeases(name), 'permits'],
      [fairQueue(name), 'fair locks'],
      [fairDeadlines(name), 'fair locks'],
      [fencingTokenKey(name), 'fenced locks'],
      [receiptsKey(name, 'x'), 'semaphores and latches'],
    ]),
    channels: new Map([
      [lockChannel(name), 'all locks'],
      [readWriteChannel(name), 'read-write locks'],
      [semaphoreChannel(name), 'semaphores'],
      [latchChannel(name), 'latches'],
    ]),
  }
}
