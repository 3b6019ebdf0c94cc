import assert from 'node:assert/strict'
import type { Argument, ScriptCall } from '../../src/lua/script.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import {
  AUDIT_KEY,
  fairChannelPrefix,
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  forcedKey,
  generationKey,
  INBOX_PREFIX,
  idempotencyKey,
  JOBS_KEY,
  jobKey,
  lockChannel,
  orderedClients,
  orderedQueue,
  permitLeases,
  readHoldPrefix,
  turnQueueKey,
  WEB_LOCKS_KEY,
} from '../../src/wire/keys.js'
import { MAKERS, type Maker, parametersOf } from './script-names.js'

/** One name for locks, semaphores and latches: the keys are those of `a`. */
export const NAME = 'a'
/** The holder that calls the scripts. */
export const OURS = 'ours:1'
export const OTHER = 'other:1'
export const DIGEST = fieldDigest('one')
export const STORED_REPLIES = idempotencyKey(NAME, 'client')
/** Of a forced release. */
export const MARK = '{"holder":"ours:1"}'
export const PERMIT = '0f'.repeat(16)
export const TICKET = `${OURS.split(':')[0]}:4711`
/** Scripts request a lease far from the existing one, so that a changed expiry shows. */
export const LEASE_MS = 300_000
export const TTL_MS = 100_000

/** The value of each parameter of a script. */
const VALUES: Readonly<Record<string, Argument | readonly Argument[]>> = {
  ...{ lock: NAME, group: NAME, semaphore: NAME, latch: NAME, key: NAME, cursor: '0' },
  ...{ queue: fairQueue(NAME), deadlines: fairDeadlines(NAME), turnQueue: turnQueueKey(NAME) },
  ...{ tokens: fencingTokenKey(NAME), replies: STORED_REPLIES, leases: permitLeases(NAME) },
  ...{ prefix: readHoldPrefix(NAME), readHold: `${readHoldPrefix(NAME)}${OURS}:rwlock_timeout:1` },
  ...{ holder: OURS, from: 'ours:2', count: 2, seen: '5', mode: 'read', values: [DIGEST, fieldDigest('two')] },
  ...{ leaseTimeMs: LEASE_MS, waitTimeMs: LEASE_MS, queueTtlMs: LEASE_MS, timeToLiveMs: LEASE_MS },
  ...{
    channel: lockChannel(NAME),
    channelPrefix: fairChannelPrefix(NAME),
    watchChannel: 'watch',
    message: '0',
    inboxPrefix: INBOX_PREFIX,
    ticket: TICKET,
    isPoll: 0,
    hasWaiters: 1,
    isQueueing: 1,
  },
  ...{
    waiter: 'ours:1:1',
    clients: orderedClients(NAME),
    places: orderedQueue(NAME),
    priority: 0,
    place: '',
    maxWaiters: -1,
  },
  ...{ generation: generationKey(NAME), into: 'create', openedAt: Date.now() },
  ...{
    mark: forcedKey(NAME, OURS),
    form: 'hash',
    content: MARK,
    markTtlMs: LEASE_MS,
    standsForMs: 2_000,
    audit: AUDIT_KEY,
    entry: '{}',
    lastKept: 9,
  },
  ...{ job: jobKey(NAME), jobs: JOBS_KEY, name: NAME, label: 'host: program', everyMs: 60_000, ranMs: 5 },
  ...{ exitCode: 0, mostJobs: 2 },
  ...{ names: WEB_LOCKS_KEY, ttlMs: LEASE_MS, mostNames: 9, skipped: 0, most: 9, mostWaiters: 9 },
  ...{ permits: 1, operation: '7', operations: ['7'], id: PERMIT, ids: [PERMIT] },
}

/** Arguments of scripts that take any number of locks: those for one. */
const ARGS_OF_ONE: Readonly<Record<string, readonly Argument[]>> = {
  'faster-multi-lock/renew': [OURS, LEASE_MS, 1, DIGEST],
  'lock/acquire-all': [LEASE_MS, OURS],
  'lock/renew-capped': [OURS, LEASE_MS, LEASE_MS],
  'lock/renew': [OURS, LEASE_MS],
  'permit/renew': [PERMIT, LEASE_MS],
  'read-lock/renew': [OURS, LEASE_MS, readHoldPrefix(NAME)],
  'string-lock/renew': [OURS, LEASE_MS],
}

/** A call of every script, all for `a`. */
export const CALLS: readonly ScriptCall[] = MAKERS.map((call) => {
  const parameters = parametersOf(call)
  if (parameters[0] === 'keys') return callOfMany(call)
  const values = parameters.map((parameter) => {
    const isOrdered = parameter === 'queue' && /^(queue|webLocks|semaphore|permit)/.test(call.name)
    const value = isOrdered ? orderedQueue(NAME) : VALUES[parameter]
    assert(value !== undefined, `${call.name}: add ${parameter} to VALUES`)
    return value
  })
  return asWriter(call(...values))
})

function callOfMany(call: Maker): ScriptCall {
  const { name } = call([NAME], []).script
  const args = ARGS_OF_ONE[name]
  assert(args, `${name}: add its arguments to ARGS_OF_ONE`)
  return call([name === 'permit/renew' ? permitLeases(NAME) : NAME], args)
}

function asWriter(call: ScriptCall): ScriptCall {
  if (!/^(write-lock|queue)\//.test(call.script.name)) return call
  return { ...call, args: call.args.map((arg) => (arg === OURS ? `${OURS}:write` : arg)) }
}

/** Commands that write keys. */
export type Commands = readonly (readonly [string, ...(string | number | Buffer)[]])[]

const expires = (key = NAME): [string, string, number] => ['pexpire', key, TTL_MS]
const later = (): number => Date.now() + TTL_MS
const hold = (holder: string, index: number): string => `${readHoldPrefix(NAME)}${holder}:rwlock_timeout:${index}`
const group = (holder: string, expiry: string | number): Commands => [
  ['hset', NAME, DIGEST, holder, `${DIGEST}:${holder}:expire_time`, expiry, `${DIGEST}:${holder}:lock_count`, 1],
  expires(),
]

/** What others may have under the name: each kind of lock and synchronizer, and data of every type. */
export const OF_OTHERS: Readonly<Record<string, () => Commands>> = {
  'a plain lock': () => [['hset', NAME, OTHER, 1], expires()],
  'a fair lock with a queue': () => [
    ['hset', NAME, OTHER, 1],
    expires(),
    ['rpush', fairQueue(NAME), 'other:2'],
    ['zadd', fairDeadlines(NAME), later(), 'other:2'],
  ],
  'a fenced lock': () => [['hset', NAME, OTHER, 1], expires(), ['set', fencingTokenKey(NAME), 41]],
  'a read lock': () => [
    ['hset', NAME, 'mode', 'read', OTHER, 2],
    expires(),
    ['set', hold(OTHER, 1), 1, 'px', TTL_MS],
    ['set', hold(OTHER, 2), 1, 'px', TTL_MS],
  ],
  'a write lock': () => [['hset', NAME, 'mode', 'write', `${OTHER}:write`, 1], expires()],
  'a group of values': () => group(OTHER, later()),
  'a string lock': () => [['set', NAME, OTHER, 'px', TTL_MS]],
  'a semaphore': () => [['set', NAME, 5]],
  'a semaphore with leases': () => [
    ['set', NAME, 2],
    ['zadd', permitLeases(NAME), later(), Buffer.alloc(16, 1)],
  ],
  'a latch': () => [['set', NAME, 2]],
  text: () => [['set', NAME, 'some text']],
  'a list': () => [['rpush', NAME, 'x', 'y']],
  'a set': () => [['sadd', NAME, 'x', 'y']],
  'a sorted set': () => [['zadd', NAME, 1, 'x', 2, 'y']],
  'a stream': () => [['xadd', NAME, '1-1', 'x', 'y']],
  'a hash of data': () => [['hset', NAME, 'name', 'Ada', 'since', 1_700_000_000_000, 'visits', 12]],
  'a hash with one field of data': () => [['hset', NAME, 'name', 'Ada']],
  'a hash of data with a mode': () => [['hset', NAME, 'mode', 'read', 'visits', 12], expires()],
  'a hash of data that expires': () => [['hset', NAME, 'name', 'Ada', 'visits', 12], expires()],
}

/** Texts in place of a number. */
const ABSURD = [
  '1e12',
  '1700000000000',
  '-1',
  '0',
  'nan',
  'inf',
  '-inf',
  '0x7fffffff',
  '',
  'one',
  '9'.repeat(19),
  '9'.repeat(400),
]
const ABSURD_SCORES = ['1e300', '-1e300', 'inf', '-inf', '0.1', '9007199254740993']

/** Absurd numbers in what belongs to the holder that calls the scripts. */
export const ABSURDITIES: Readonly<Record<string, () => Commands>> = Object.fromEntries([
  ...ABSURD.flatMap((text) => entries(text)),
  ...ABSURD_SCORES.flatMap((score) => scored(score)),
])

function entries(text: string): [string, () => Commands][] {
  const title = text.length > 20 ? `${text.length} digits` : JSON.stringify(text)
  return [
    [`hold count ${title}`, () => [['hset', NAME, OURS, text], expires()]],
    ...['read', 'write'].map((mode): [string, () => Commands] => [
      `hold counts ${title} in mode ${mode}`,
      () => [
        ['hset', NAME, 'mode', mode, OURS, text, `${OURS}:write`, text, OTHER, text],
        expires(),
        ['set', hold(OURS, 1), text, 'px', TTL_MS],
      ],
    ]),
    [`expiry ${title} of a value`, () => group(OURS, text)],
    [`expiry ${title} of another program's value`, () => group(OTHER, text)],
    [
      `number ${title}`,
      () => [
        ['set', NAME, text],
        ['set', fencingTokenKey(NAME), text],
        ['zadd', permitLeases(NAME), 1, Buffer.alloc(16, 1), later(), Buffer.from(PERMIT, 'hex')],
      ],
    ],
  ]
}

function scored(score: string): [string, () => Commands][] {
  const leases: Commands = [
    ['zadd', permitLeases(NAME), score, Buffer.from(PERMIT, 'hex')],
    ['zadd', permitLeases(NAME), score, Buffer.alloc(16, 1)],
  ]
  return [
    [`leases until ${score}`, () => [['set', NAME, 0], ...leases]],
    [
      `places until ${score}`,
      () => [
        ['rpush', fairQueue(NAME), 'other:2', OURS],
        ['zadd', fairDeadlines(NAME), score, 'other:2', score, OURS],
      ],
    ],
  ]
}
