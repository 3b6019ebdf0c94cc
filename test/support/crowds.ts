/**
 * For each script the crowds that may make it slow: waiters, readers, permits, values, dead or alive, and the call that meets
 * them. Everything is under one name.
 */
import * as make from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
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
  readWriteChannel,
  semaphoreChannel,
  turnQueueKey,
  WEB_LOCKS_KEY,
} from '../../src/wire/keys.js'

/** A crowd, and a call that meets it. */
export interface Crowd {
  readonly title: string
  /** Lua that makes it: `n` is its size, `now` the time, `member(i)` the i-th of a living client, `dead(i)` of one that is gone. */
  readonly lua: string
  /** Of a client that is there: subscribed to the channels of its waiters, and to its inbox. */
  readonly isSubscribed?: boolean
  /** The `index`-th of the calls that are made together, from 0. */
  readonly call: (index: number) => ScriptCall
}

const LOCK = 'crowd'
const LIVING = 'c0ffee00-0000-4000-8000-0000401dfa57'
const DEAD = 'deadbeef-0000-4000-8000-0000401dfa57'
/** Permits, locks or numbers in one call. */
const MOST_AT_ONCE = 1_000
const MOST_VALUES = 500
const LEASE_MS = 30_000
const LAST = 10_000

const living = (index: number): string => `${LIVING}:${index}`
const PREFIX = readHoldPrefix(LOCK)
const FAIR = fairChannelPrefix(LOCK)
const QUEUE = fairQueue(LOCK)
const DEADLINES = fairDeadlines(LOCK)
const TURNS = turnQueueKey(LOCK)
const LEASES = permitLeases(LOCK)
const REPLIES = idempotencyKey(LOCK, LIVING)
const ids = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => (from + index).toString(16).padStart(32, '0'))
const VALUES = Array.from({ length: MOST_VALUES }, (_, index) => fieldDigest(`value ${index}`))

/** The channels of a living client. */
export function channelsOf(size: number): string[] {
  const own = Array.from({ length: size }, (_, index) => FAIR + living(index + 1))
  return [...own, `${INBOX_PREFIX}${LIVING}`]
}

export const PRELUDE = `
local n, now = tonumber(ARGV[1]), redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local function member(i) return '${LIVING}:' .. i end
local function dead(i) return '${DEAD}:' .. i end
local function hold(reader, i, ms) redis.call('set', '${PREFIX}' .. reader .. ':rwlock_timeout:' .. i, 1, 'px', ms) end
local function queued(waiter, deadline)
  redis.call('zadd', '${DEADLINES}', string.format('%.1f', deadline), waiter)
  redis.call('rpush', '${QUEUE}', waiter)
end
local function permit(i) return string.rep('\\0', 12) .. string.char(0, math.floor(i / 65536), math.floor(i / 256) % 256, i % 256) end
`

const HELD = `redis.call('hset', '${LOCK}', 'somebody:1', 1) redis.call('pexpire', '${LOCK}', 30000)\n`
const own = (count: number): string =>
  `for i = 1, ${count} do redis.call('hset', '${LOCK}', member(i), 1) end redis.call('pexpire', '${LOCK}', 30000)\n`
/** Another hash at the key: data of an application, or a lock of another kind. */
const DATA = `for i = 1, n do redis.call('hset', '${LOCK}', 'field' .. i, i) end redis.call('pexpire', '${LOCK}', 30000)\n`
const WAITING = 'for i = 1, n do queued(member(i), now + i * 300000) end\n'
const DIED = 'for i = 1, n do queued(dead(i), now + i * 300000) end\n'
const DIED_LONG_AGO = 'for i = 1, n do queued(dead(i), now - 1000) end\n'
const FROZEN = 'for i = 1, n do queued(member(i), now - 1000 + (i == 1 and 0.5 or 0)) end\n'
const TICKETS = `for i = 1, n do redis.call('rpush', '${TURNS}', dead(i)) end\n`

/** Readers with one hold each, of which the lock's lease is the longest; those up to `died` have none left. */
const readers = (lease: string, died = '0'): string => `redis.call('hset', '${LOCK}', 'mode', 'read')
for i = 1, n do
  redis.call('hset', '${LOCK}', member(i), 1)
  if i > ${died} then hold(member(i), 1, ${lease}) end
end
redis.call('pexpire', '${LOCK}', 60000)\n`
const ALIKE = readers('30000')
/** The one that leaves always has the longest lease. */
const LESS_AND_LESS = readers('60000 - i')
const FAR_LESS = readers('i <= 32 and 60000 - i or 20000')
const ALL_DIED = readers('30000', 'n')
/** Of all but the last ones no hold is left: those who leave. */
const MOST_DIED = readers('30000', '(n - 32)')
const DEEP = (left: string): string => `redis.call('hset', '${LOCK}', 'mode', 'read')
for i = 1, 32 do redis.call('hset', '${LOCK}', member(i), n) for k = 1, n do if ${left} then hold(member(i), k, 30000) end end end
redis.call('pexpire', '${LOCK}', 60000)\n`
const NESTED = DEEP('i == 1')
const NESTED_DIED = DEEP('i == 1 and k == 1')

const permits = (expires: string): string => `redis.call('set', '${LOCK}', 0)
for i = 1, n do redis.call('zadd', '${LEASES}', string.format('%d', ${expires}), permit(i)) end\n`
const PERMITS_HELD = permits('now + 30000')
const PERMITS_EXPIRED = permits('now - i')
const PERMITS_HALF = permits('i <= 1000 and now + 30000 or now - i')

const OTHER_VALUES = `for i = 1, n do redis.call('hset', '${LOCK}', 'v' .. i, 'x:1', 'v' .. i .. ':x:1:expire_time', now + 1e6) end
redis.call('pexpire', '${LOCK}', 60000)\n`
const values = (owner: string, lease: string): string => `for i = 1, n do redis.call('hset', '${LOCK}',
  'v' .. i, ${owner}, 'v' .. i .. ':' .. ${owner} .. ':expire_time', string.format('%d', now + ${lease}),
  'v' .. i .. ':' .. ${owner} .. ':lock_count', 1) end
for i = 2, #ARGV do redis.call('hset', '${LOCK}',
  ARGV[i], ${owner}, ARGV[i] .. ':' .. ${owner} .. ':expire_time', string.format('%d', now + ${lease}),
  ARGV[i] .. ':' .. ${owner} .. ':lock_count', 1) end
redis.call('pexpire', '${LOCK}', 60000)\n`
const VALUES_OWN = values('member(1)', '1000')
const VALUES_FOREIGN = values("'somebody:1'", '1000')
const VALUES_OVER = values("'somebody:1'", '(-1000)')
/** ARGV from the second on. */
export const SEED_ARGS = VALUES

const STORED = `for i = 1, n do redis.call('hset', '${REPLIES}', i, 1) end\n`
const LISTED = `for i = 1, n do redis.call('zadd', '${WEB_LOCKS_KEY}', i, 'name' .. i) end\n`
const OPERATION = LAST + 1
const EVERYTHING = WAITING + TICKETS + PERMITS_HELD.replace(`redis.call('set', '${LOCK}', 0)`, '')

const crowd = (title: string, lua: string, call: Crowd['call'], isSubscribed = false): Crowd => ({
  title,
  lua,
  call,
  isSubscribed,
})

const readWeb = (): ScriptCall => make.webLocksRead(LOCK, orderedQueue(LOCK), PREFIX, 10_000)
const fairAcquire = (holder: string, isQueueing = 1): ScriptCall =>
  make.fairLockAcquire(LOCK, QUEUE, DEADLINES, LEASE_MS, holder, 300_000, isQueueing, FAIR, '0', -1)
const fairLeave = (holder: string): ScriptCall => make.fairLockLeave(LOCK, QUEUE, DEADLINES, holder, 300_000, FAIR, '0')
const fairRelease = (holder: string): ScriptCall => make.fairLockRelease(LOCK, QUEUE, DEADLINES, holder, FAIR, '0')
const acquireQueued = (holder: string, isPoll: number, hasWaiters = 1): ScriptCall =>
  make.lockAcquireQueued(LOCK, TURNS, LEASE_MS, holder, `${LIVING}:7`, 60_000, INBOX_PREFIX, isPoll, hasWaiters)
const releaseQueued = (holder: string, ticket = `${LIVING}:7`, ttl = 60_000): ScriptCall =>
  make.lockReleaseQueued(LOCK, TURNS, holder, lockChannel(LOCK), '0', INBOX_PREFIX, ticket, ttl)
const PLACES = orderedQueue(LOCK)
const SEEN = orderedClients(LOCK)
/** Waiters of an ordered lock, one a client; those up to `lost` are of clients of which nothing was heard for long. */
const inOrder = (client: string, side: string, lost = '0'): string => `for i = 1, n do
  local waiter = ${client} .. '${side}'
  redis.call('zadd', '${PLACES}', i, waiter)
  redis.call('zadd', '${SEEN}', string.format('%d', now + (i > ${lost} and 9000 or -1)), string.match(waiter, '^[^:]+'))
end\n`
const WRITERS = inOrder('member(i)', ':write')
const READERS_GONE = inOrder("'gone' .. i .. ':1'", '')
const WRITERS_GONE = inOrder("'gone' .. i .. ':1'", ':write')
const WRITERS_LOST = inOrder("'gone' .. i .. ':1'", ':write', 'n')
const WRITTEN = `redis.call('hset', '${LOCK}', 'mode', 'write', 'somebody:1:write', 1) redis.call('pexpire', '${LOCK}', 30000)\n`
const orderedAcquire = (holder: string, place = '', maxWaiters = -1, isQueueing = 1): ScriptCall =>
  make.queueAcquire(LOCK, PLACES, SEEN, LEASE_MS, holder, PREFIX, INBOX_PREFIX, 0, place, maxWaiters, isQueueing)
const orderedRelease = (holder: string): ScriptCall =>
  make.queueRelease(LOCK, PLACES, SEEN, holder, PREFIX, INBOX_PREFIX, readWriteChannel(LOCK), '1', 'watch')

/** As `inOrder`, with waiters for permits. */
const forPermits = (client: string, lost?: string): string => inOrder(client, ':1', lost)
const CALLED = forPermits('member(i)')
const NOT_THERE = forPermits("'gone' .. i .. ':1'")
const NOT_SEEN = forPermits("'gone' .. i .. ':1'", 'n')
const FREE = `redis.call('set', '${LOCK}', n)\n`
const orderedPermit = (index: number, place = '', maxWaiters = -1, isQueueing = 1): ScriptCall =>
  make.permitAcquireInOrder(
    ...[LOCK, LEASES, PLACES, SEEN, `${DEAD}:${index}:1`, INBOX_PREFIX, 0, place, maxWaiters, isQueueing],
    ...[LEASE_MS, semaphoreChannel(LOCK), ids(LAST + index, 1)],
  )
const orderedPermits = (operation: number, place = ''): ScriptCall =>
  make.semaphoreAcquireInOrder(
    ...[LOCK, REPLIES, PLACES, SEEN, generationKey(LOCK), `${DEAD}:${operation}:1`, INBOX_PREFIX, 0, place, -1, 1],
    ...[operation, Date.now()],
  )

const permitReleaseInOrder = (count: number): ScriptCall =>
  make.permitReleaseInOrder(LOCK, LEASES, PLACES, SEEN, semaphoreChannel(LOCK), '', INBOX_PREFIX, ids(1, count))
const permitsReleased = (operation: number): ScriptCall =>
  make.semaphoreReleaseInOrder(
    ...[LOCK, REPLIES, PLACES, SEEN, generationKey(LOCK), LAST, 'create', semaphoreChannel(LOCK), INBOX_PREFIX],
    ...[operation, Date.now()],
  )

const readRelease = (holder: string): ScriptCall =>
  make.readLockRelease(LOCK, holder, PREFIX, readWriteChannel(LOCK), '0')
const readInspect = (holder = '', cursor = '0'): ScriptCall => make.readLockInspect(LOCK, PREFIX, cursor, holder)
const readRenew = (count: number): ScriptCall =>
  make.readLockRenew(
    Array.from({ length: count }, () => LOCK),
    Array.from({ length: count }, (_, index) => [living(index + 1), LEASE_MS, PREFIX]).flat(),
  )
const setCount = (index: number, count: number): ScriptCall =>
  make.readLockSetCount(LOCK, LEASE_MS, living(index + 1), count, PREFIX)
const writeAcquire = (index: number): ScriptCall =>
  make.writeLockAcquire(LOCK, LEASE_MS, `${living(index)}:write`, PREFIX)
const writeRelease = (): ScriptCall =>
  make.writeLockRelease(LOCK, `${living(1)}:write`, PREFIX, readWriteChannel(LOCK), '1')
const permitAcquire = (count: number) => (index: number) =>
  make.permitAcquire(LOCK, LEASES, LEASE_MS, semaphoreChannel(LOCK), ids(20_000 + index * count, count))
const permitInspect = (index: number): ScriptCall =>
  make.permitInspect(LOCK, LEASES, semaphoreChannel(LOCK), ids(1 + index, 1))
const permitRelease = (count: number) => (index: number) =>
  make.permitRelease(LOCK, LEASES, semaphoreChannel(LOCK), ids(1 + index * count, count))
const permitReleaseAll = (index: number): ScriptCall =>
  make.permitReleaseAll(LOCK, LEASES, semaphoreChannel(LOCK), ids(1 + index * MOST_AT_ONCE, MOST_AT_ONCE))
const setPermits = (index: number): ScriptCall =>
  make.permitSetPermits(LOCK, LEASES, REPLIES, 10, semaphoreChannel(LOCK), OPERATION + index, Date.now())
const read = (): ScriptCall =>
  make.fleetRead(LOCK, QUEUE, TURNS, fencingTokenKey(LOCK), LEASES, generationKey(LOCK), orderedQueue(LOCK), PREFIX)
const mark = (form: string) => (index: number) =>
  make.forcedMark(LOCK, forcedKey(LOCK, living(index + 1)), form, living(index + 1), '{}', 60_000, 2_000)
const many = (count: number) => Array.from({ length: count }, (_, index) => `many:${index}`)

/** Of each script. One that is not here takes the same time however many there are: its name is in `ALONE`. */
export const CROWDS: Readonly<Record<string, readonly Crowd[]>> = {
  'fair-lock/acquire': [
    crowd('joins a long queue', HELD + WAITING, (index) => fairAcquire(`${DEAD}:${index}`)),
    crowd('asks again at the end of a long queue', HELD + WAITING, (index) => fairAcquire(living(LAST - index))),
    crowd(
      'asks again at the end, and its deadline is over',
      `${HELD}for i = 1, n do queued(member(i), now - 1000) end`,
      (index) => fairAcquire(living(LAST - index)),
    ),
    crowd('asks again, and the deadlines were deleted', `${HELD}${WAITING}redis.call('del', '${DEADLINES}')`, (index) =>
      fairAcquire(living(LAST - index)),
    ),
    crowd('is served', WAITING, (index) => fairAcquire(living(index + 1))),
    crowd('comes behind those who died long ago', DIED_LONG_AGO, (index) => fairAcquire(living(index))),
    crowd('comes behind those who died', DIED, (index) => fairAcquire(living(index))),
    crowd('comes behind those who are frozen', FROZEN, (index) => fairAcquire(`${DEAD}:${index}`), true),
    crowd('does not queue, behind those who died', DIED_LONG_AGO, (index) => fairAcquire(living(index), 0)),
  ],
  'fair-lock/leave': [
    crowd('the first', HELD + WAITING, (index) => fairLeave(living(index + 1))),
    crowd('the last', HELD + WAITING, (index) => fairLeave(living(LAST - index))),
    crowd('one in the middle', HELD + WAITING, (index) => fairLeave(living(LAST / 2 + index))),
    crowd('one that was not queued', HELD + WAITING, () => fairLeave('nobody:1')),
    crowd('whose turn it is, before those who died', `queued(member(1), now + 5000)\n${DIED}`, () =>
      fairLeave(living(1)),
    ),
  ],
  'fair-lock/release': [
    crowd('wakes the next', own(1) + WAITING, () => fairRelease(living(1))),
    crowd('and the next ones died', own(1) + DIED, () => fairRelease(living(1))),
    crowd('of an owner that queues', HELD + WAITING, (index) => fairRelease(living(LAST / 2 + index))),
  ],
  'faster-multi-lock/acquire': [
    crowd('takes free values', OTHER_VALUES, (index) =>
      make.fasterMultiLockAcquire(LOCK, LEASE_MS, living(index), VALUES),
    ),
    crowd('takes values whose leases are over', VALUES_OVER, (index) =>
      make.fasterMultiLockAcquire(LOCK, LEASE_MS, living(index), VALUES),
    ),
    crowd('is refused', VALUES_FOREIGN, (index) => make.fasterMultiLockAcquire(LOCK, LEASE_MS, living(index), VALUES)),
    crowd('takes them again', VALUES_OWN, () => make.fasterMultiLockAcquire(LOCK, LEASE_MS, living(1), VALUES)),
  ],
  'faster-multi-lock/inspect': [
    crowd('values of others', VALUES_FOREIGN, () => make.fasterMultiLockInspect(LOCK, VALUES)),
  ],
  'faster-multi-lock/release': [
    crowd('all values', VALUES_OWN, () => make.fasterMultiLockRelease(LOCK, living(1), lockChannel(LOCK), '0', VALUES)),
  ],
  'faster-multi-lock/renew': [
    crowd('all values', VALUES_OWN, () =>
      make.fasterMultiLockRenew([LOCK], [living(1), LEASE_MS, VALUES.length, ...VALUES]),
    ),
  ],
  'faster-multi-lock/set-count': [
    crowd('all values', VALUES_OWN, () => make.fasterMultiLockSetCount(LOCK, LEASE_MS, living(1), 2, VALUES)),
  ],
  'faster-multi-lock/shorten': [
    crowd('all values', VALUES_OWN, () => make.fasterMultiLockShorten(LOCK, 1_000, living(1), VALUES)),
  ],
  'fleet/read': [
    crowd('a read lock', ALIKE, read),
    crowd('a read lock whose readers died', ALL_DIED, read),
    crowd('a read lock whose readers died with many holds', NESTED_DIED, read),
    crowd('a group of values', VALUES_OWN, read),
    crowd('data', DATA + EVERYTHING, read),
    crowd('permits', PERMITS_EXPIRED + TICKETS + WAITING, read),
  ],
  'forced/mark': [
    crowd('a reader among many', ALIKE, mark('read-write')),
    crowd('a holder of data', DATA, mark('hash')),
  ],
  'forced/record': [
    crowd(
      'after many',
      `for i = 1, math.min(n, 1000) do redis.call('rpush', '${AUDIT_KEY}', string.rep(i, 100)) end`,
      () => make.forcedRecord(AUDIT_KEY, 'entry', 999),
    ),
  ],
  'job/record': [
    crowd(
      'after a thousand others',
      `for i = 1, math.min(n, 1000) do redis.call('zadd', '${JOBS_KEY}', i, 'job' .. i) end`,
      (index) => make.jobRecord(jobKey(LOCK), JOBS_KEY, `${LOCK} ${index}`, living(1), 'label', 1_000, 0, '', 1_000),
    ),
  ],
  'idempotency/forget': [
    crowd('as many as go in one call', STORED, () =>
      make.idempotencyForget(
        REPLIES,
        Array.from({ length: MOST_AT_ONCE }, (_, index) => index + 1),
      ),
    ),
  ],
  'web-locks/record': [
    crowd('after many that have expired', LISTED, (index) =>
      make.webLocksRecord(WEB_LOCKS_KEY, `${LOCK} ${index}`, 1_000, 10_000),
    ),
  ],
  'web-locks/list': [
    crowd('many', LISTED.replace('i, ', '9007199254740991, '), () => make.webLocksList(WEB_LOCKS_KEY, 0, 200)),
  ],
  'web-locks/read': [
    crowd('many readers', ALIKE, readWeb),
    crowd('readers who died', ALL_DIED, readWeb),
    crowd('many waiters', `for i = 1, n do redis.call('zadd', '${orderedQueue(LOCK)}', i, member(i)) end`, readWeb),
  ],
  'lock/acquire': [crowd('data', DATA, (index) => make.lockAcquire(LOCK, LEASE_MS, living(index)))],
  'lock/acquire-all': [
    crowd('as many as go in one call', DATA, () =>
      make.lockAcquireAll(many(MOST_AT_ONCE), [LEASE_MS, ...many(MOST_AT_ONCE)]),
    ),
  ],
  'lock/acquire-queued': [
    crowd('is refused', HELD + TICKETS, () => acquireQueued(living(1), 0)),
    crowd('data', DATA + TICKETS, () => acquireQueued(living(1), 0)),
    crowd('takes it before those who are gone', TICKETS, () => acquireQueued(living(1), 0)),
    crowd('takes it by a poll before those who are gone', TICKETS, () => acquireQueued(living(1), 1)),
  ],
  'lock/inspect': [crowd('a plain lock', own(1), () => make.lockInspect(LOCK))],
  'lock/leave-turn-queue': [
    crowd('before those who are gone', TICKETS, () =>
      make.lockLeaveTurnQueue(LOCK, TURNS, `${LIVING}:7`, INBOX_PREFIX),
    ),
    crowd('of a held lock, before those who are gone', HELD + TICKETS, () =>
      make.lockLeaveTurnQueue(LOCK, TURNS, `${LIVING}:7`, INBOX_PREFIX),
    ),
  ],
  'lock/release-queued': [
    crowd('to those who are gone', own(32) + TICKETS, (index) => releaseQueued(living(index + 1))),
    crowd('and leaves the queue', own(32) + TICKETS, (index) => releaseQueued(living(index + 1), `${LIVING}:7`, 0)),
  ],
  'lock/renew': [
    crowd('as many as go in one call', own(100), () =>
      make.lockRenew(
        Array.from({ length: 100 }, () => LOCK),
        Array.from({ length: 100 }, (_, index) => [living(index + 1), LEASE_MS]).flat(),
      ),
    ),
  ],
  'lock/renew-capped': [
    crowd('as many as go in one call', own(100), () =>
      make.lockRenewCapped(
        Array.from({ length: 100 }, () => LOCK),
        Array.from({ length: 100 }, (_, index) => [living(index + 1), LEASE_MS, 5_000]).flat(),
      ),
    ),
  ],
  'queue/acquire': [
    crowd('joins a long queue', WRITTEN + WRITERS, (index) => orderedAcquire(`${DEAD}:${index}:write`)),
    crowd('asks again at the end', WRITTEN + WRITERS, (index) => orderedAcquire(`${living(LAST - index)}:write`, '9')),
    crowd('is refused by a full queue of the living', WRITTEN + WRITERS, () => orderedAcquire(`${DEAD}:1`, '', 10)),
    crowd('is refused by a queue full of the lost', WRITTEN + WRITERS_LOST, () => orderedAcquire(`${DEAD}:1`, '', 10)),
    crowd('comes behind readers who are gone', READERS_GONE, (index) => orderedAcquire(`${DEAD}:${index}:write`)),
    crowd('does not queue, behind writers who are gone', WRITERS_GONE, () => orderedAcquire(living(1), '', -1, 0)),
    crowd('does not queue, behind those who are lost', WRITERS_LOST, () => orderedAcquire(living(1), '', -1, 0)),
    crowd('waits for many readers', ALIKE + WRITERS, (index) => orderedAcquire(`${DEAD}:${index}:write`, '9')),
  ],
  'queue/release': [
    crowd('to a writer', WRITTEN + WRITERS, () => orderedRelease('somebody:1:write'), true),
    crowd('to writers who are gone', WRITTEN + WRITERS_GONE, () => orderedRelease('somebody:1:write')),
    crowd('to readers who are gone', WRITTEN + READERS_GONE, () => orderedRelease('somebody:1:write')),
    crowd('to those who are lost', WRITTEN + WRITERS_LOST, () => orderedRelease('somebody:1:write')),
    crowd('to many readers', WRITTEN + inOrder('member(i)', ''), () => orderedRelease('somebody:1:write'), true),
    crowd('one of many readers', ALIKE + WRITERS, (index) => orderedRelease(living(index + 1))),
    crowd('leaves a long queue', WRITTEN + WRITERS, (index) => orderedRelease(`${living(LAST / 2 + index)}:write`)),
  ],
  'permit/acquire': [
    crowd('one, many expired', PERMITS_EXPIRED, permitAcquire(1)),
    crowd('many, many expired', PERMITS_EXPIRED, permitAcquire(MOST_AT_ONCE)),
    crowd('one, all held', PERMITS_HELD, permitAcquire(1)),
    crowd('many again', PERMITS_HELD, () =>
      make.permitAcquire(LOCK, LEASES, 2 * LEASE_MS, semaphoreChannel(LOCK), ids(1, MOST_AT_ONCE)),
    ),
  ],
  'permit/acquire-in-order': [
    crowd('one, many expired', PERMITS_EXPIRED, (index) => orderedPermit(index)),
    crowd('joins a long queue', PERMITS_HELD + CALLED, (index) => orderedPermit(index)),
    crowd('asks again', PERMITS_HELD + CALLED, (index) => orderedPermit(index, '9')),
    crowd('is refused by a queue full of the lost', PERMITS_HELD + NOT_SEEN, (index) => orderedPermit(index, '', 10)),
    crowd('comes behind those who are gone', FREE + NOT_THERE, (index) => orderedPermit(index)),
    crowd('only tries, behind those who are lost', FREE + NOT_SEEN, (index) => orderedPermit(index, '', -1, 0)),
  ],
  'permit/release-in-order': [
    crowd('calls many', PERMITS_HELD + CALLED, () => permitReleaseInOrder(MOST_AT_ONCE), true),
    crowd('calls those who are gone', PERMITS_HELD + NOT_THERE, () => permitReleaseInOrder(MOST_AT_ONCE)),
    crowd('gives nothing back and calls many', FREE + CALLED, () => permitReleaseInOrder(0), true),
  ],
  'semaphore/acquire-in-order': [
    crowd('joins a long queue', CALLED, (index) => orderedPermits(index)),
    crowd('comes behind those who are gone', FREE + NOT_THERE, (index) => orderedPermits(index)),
  ],
  'semaphore/release-in-order': [
    crowd('calls many', CALLED, (index) => permitsReleased(index), true),
    crowd('calls those who are gone', NOT_THERE, (index) => permitsReleased(index)),
  ],
  'permit/inspect': [
    crowd('many expired', PERMITS_EXPIRED, permitInspect),
    crowd('all held', PERMITS_HELD, permitInspect),
    crowd('about many', PERMITS_HALF, () =>
      make.permitInspect(LOCK, LEASES, semaphoreChannel(LOCK), ids(1, MOST_AT_ONCE)),
    ),
  ],
  'permit/release': [
    crowd('one, many expired', PERMITS_HALF, permitRelease(1)),
    crowd('many, many expired', PERMITS_HALF, permitRelease(MOST_AT_ONCE)),
  ],
  'permit/release-all': [
    crowd('many, many expired', PERMITS_HALF, permitReleaseAll),
    crowd('many, all held', PERMITS_HELD, permitReleaseAll),
  ],
  'permit/renew': [
    crowd('many', PERMITS_HELD, () => make.permitRenew([LEASES], [ids(1, MOST_AT_ONCE).join(), 2 * LEASE_MS])),
  ],
  'permit/set-permits': [crowd('many expired', PERMITS_EXPIRED + STORED, setPermits)],
  'permit/update-lease': [
    crowd('one of many', PERMITS_HELD, (index) => make.permitUpdateLease(LEASES, ids(1 + index, 1)[0] ?? '', LEASE_MS)),
  ],
  'read-lock/acquire': [
    crowd('joins many', ALIKE, (index) =>
      make.readLockAcquire(LOCK, `${PREFIX}${DEAD}:${index}:rwlock_timeout:1`, LEASE_MS, `${DEAD}:${index}`),
    ),
  ],
  'read-lock/inspect': [
    crowd('many', ALIKE, () => readInspect()),
    crowd('one of many', ALIKE, (index) => readInspect(living(index + 1), '')),
    crowd('many who died', ALL_DIED, () => readInspect()),
    crowd('some who died with many holds', NESTED_DIED, () => readInspect()),
  ],
  'read-lock/release': [
    crowd('the others have leases alike', ALIKE, (index) => readRelease(living(index + 1))),
    crowd('the others have shorter leases', LESS_AND_LESS, (index) => readRelease(living(index + 1))),
    crowd('the others have far shorter leases', FAR_LESS, (index) => readRelease(living(index + 1))),
    crowd('the others died', MOST_DIED, (index) => readRelease(living(LAST - index))),
    crowd('with many holds', NESTED, (index) => readRelease(living(index + 1))),
    crowd('the others died with many holds', NESTED_DIED, (index) => readRelease(living(index + 1))),
  ],
  'read-lock/renew': [
    crowd('as many as go in one call', ALIKE, () => readRenew(100)),
    crowd('with many holds', NESTED, () => readRenew(100)),
    crowd('died with many holds', NESTED_DIED, () => readRenew(100)),
  ],
  'read-lock/set-count': [
    crowd('deep inside', NESTED, (index) => setCount(index, 9_999)),
    crowd('and gives many up', NESTED, (index) => setCount(index, 1)),
  ],
  'semaphore/delete': [
    crowd('with many permits', PERMITS_HELD, () => make.semaphoreDelete(LOCK, LEASES, generationKey(LOCK))),
  ],
  'write-lock/acquire': [
    crowd('is refused', LESS_AND_LESS, writeAcquire),
    crowd('and all died', ALL_DIED, writeAcquire),
    crowd('and all died with many holds', NESTED_DIED, writeAcquire),
  ],
  'write-lock/release': [
    crowd(
      'with readers beside it',
      `${ALIKE}redis.call('hset', '${LOCK}', 'mode', 'write', member(1) .. ':write', 1)`,
      writeRelease,
    ),
    crowd(
      'with readers beside it who died',
      `${ALL_DIED}redis.call('hset', '${LOCK}', 'mode', 'write', member(1) .. ':write', 1)`,
      writeRelease,
    ),
  ],
}

/** Scripts that look at one field, one number or one text, whatever else is there. */
export const ALONE: ReadonlySet<string> = new Set([
  'fenced-lock/acquire',
  'fenced-lock/adopt',
  'fenced-lock/token',
  'forced/withdraw',
  'job/read',
  'latch/count-down',
  'latch/delete',
  'latch/inspect',
  'latch/set-count',
  'lock/adopt',
  'lock/reenter',
  'lock/release',
  'lock/release-one',
  'lock/shorten',
  'semaphore/acquire',
  'semaphore/add-permits',
  'semaphore/cancel',
  'semaphore/drain-permits',
  'semaphore/inspect',
  'semaphore/release',
  'semaphore/set-permits',
  'string-lock/acquire',
  'string-lock/adopt',
  'string-lock/extend',
  'string-lock/inspect',
  'string-lock/release',
  'string-lock/renew',
  'string-lock/shorten',
  'time/read',
])
