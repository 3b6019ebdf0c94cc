/** Every script runs twice, and again after its leases were shortened or lengthened: copies of a command arrive late. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ScriptCall } from '../../src/lua/script.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import {
  AUDIT_KEY,
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  forcedKey,
  JOBS_KEY,
  jobKey,
  orderedClients,
  orderedQueue,
  permitLeases,
  readHoldPrefix,
  turnQueueKey,
  WEB_LOCKS_KEY,
} from '../../src/wire/keys.js'
import { setUpFixture } from '../support/fixture.js'
import {
  CALLS,
  type Commands,
  DIGEST,
  LEASE_MS,
  MARK,
  NAME,
  OTHER,
  OURS,
  PERMIT,
  STORED_REPLIES,
  TICKET,
  TTL_MS,
} from '../support/foreign-keys.js'

/** Leases before a late copy arrives. */
const SHORT_MS = 20_000
const LONG_MS = 900_000
/** How long scripts keep stored replies. */
const REPLIES_KEPT_MS = 1_200_000
/** How long the record of an expected job is kept. */
const JOB_KEPT_MS = 2_592_000_000
/** How much time may pass between two looks at Redis, ms. */
const SLACK_MS = 8_000

/** Times and TTLs in ms from now, by key, or by key and field. */
type Leases = Readonly<Record<string, number>>

interface Case {
  readonly script: string
  readonly title?: string
  readonly before: Commands
  /** The replies to the first two copies. Times are in ms from now. */
  readonly replies: readonly [first: unknown, second: unknown]
  /** The leases that a late copy makes last at least this long. */
  readonly extends?: Leases
  /** The leases that a late copy makes last at most this long. */
  readonly cuts?: Leases
  /** The leases that a late copy sets, longer or shorter. */
  readonly sets?: Leases
  readonly isReadOnly?: true
}

const later = (ms = TTL_MS): number => Date.now() + ms
const held = (holder: string, count = 1): Commands => [
  ['hset', NAME, holder, count],
  ['pexpire', NAME, TTL_MS],
]
const hold = (index: number): string => `${readHoldPrefix(NAME)}${OURS}:rwlock_timeout:${index}`
const reading = (count = 1): Commands => [
  ['hset', NAME, 'mode', 'read', OURS, count],
  ['pexpire', NAME, TTL_MS],
  ...Array.from({ length: count }, (_, n) => ['set', hold(n + 1), 1, 'px', TTL_MS] as const),
]
const writing: Commands = [
  ['hset', NAME, 'mode', 'write', `${OURS}:write`, 1],
  ['pexpire', NAME, TTL_MS],
]
const queued = (...tickets: string[]): Commands => [
  ['rpush', turnQueueKey(NAME), ...tickets],
  ['pexpire', turnQueueKey(NAME), TTL_MS],
]
const waiting = (...holders: string[]): Commands => [
  ['rpush', fairQueue(NAME), ...holders],
  ...holders.map((holder) => ['zadd', fairDeadlines(NAME), later(), holder] as const),
]
/** How long a fair queue lasts after a waiter has last asked. */
const QUEUE_TTL_MS = 86_400_000
const VALUES = [DIGEST, fieldDigest('two')]
const expiry = (value: string, holder = OURS): string => `${value}:${holder}:expire_time`
const group: Commands = [
  ...VALUES.map(
    (value) => ['hset', NAME, value, OURS, expiry(value), later(), `${value}:${OURS}:lock_count`, 1] as const,
  ),
  ['pexpire', NAME, TTL_MS],
]
/** It outlives its values. */
const groupLease: Leases = { [NAME]: LEASE_MS + 10_000 }
const groupLeases: Leases = {
  ...groupLease,
  ...Object.fromEntries(VALUES.map((value) => [`${NAME} ${expiry(value)}`, LEASE_MS])),
}
const string = (holder: string): Commands => [['set', NAME, holder, 'px', TTL_MS]]
const number = (permits: number): Commands => [['set', NAME, permits]]
const permitHeld: Commands = [['zadd', permitLeases(NAME), later(), Buffer.from(PERMIT, 'hex')]]
const permitLease: Leases = { [`${permitLeases(NAME)} ${PERMIT}`]: LEASE_MS }
const lockLease: Leases = { [NAME]: LEASE_MS }
const queuedFirst: Leases = {
  [orderedQueue(NAME)]: 60_000,
  [orderedClients(NAME)]: 60_000,
  [`${orderedClients(NAME)} ours`]: 15_000,
}
const lasting = ['pexpire', NAME, LONG_MS] as const

const CASES: readonly Case[] = [
  { script: 'time/read', before: [], replies: [0, 0], isReadOnly: true },
  { script: 'lock/acquire', before: [], replies: [null, null], extends: lockLease },
  { script: 'lock/acquire-all', before: [], replies: [null, null], extends: lockLease },
  {
    script: 'lock/acquire-queued',
    before: queued(TICKET, 'gone:1'),
    replies: [null, null],
    extends: lockLease,
    sets: { [turnQueueKey(NAME)]: LEASE_MS },
  },
  {
    script: 'lock/acquire-queued',
    title: 'lock/acquire-queued of a lock that is held',
    before: held(OTHER),
    replies: [
      [TTL_MS, 0],
      [TTL_MS, 0],
    ],
    sets: { [turnQueueKey(NAME)]: LEASE_MS },
  },
  { script: 'lock/adopt', before: held('ours:2'), replies: [null, null], extends: lockLease },
  {
    script: 'lock/inspect',
    before: held(OURS, 2),
    replies: [
      [TTL_MS, OURS, '2'],
      [TTL_MS, OURS, '2'],
    ],
    isReadOnly: true,
  },
  { script: 'lock/leave-turn-queue', before: queued(TICKET, 'gone:1'), replies: [1, 1] },
  { script: 'lock/reenter', before: held(OURS), replies: [1, 1], extends: lockLease },
  { script: 'lock/release', before: held(OURS), replies: [0, null] },
  { script: 'lock/release-one', before: held(OURS, 3), replies: [1, 1], extends: lockLease },
  { script: 'lock/release-queued', before: [...held(OURS), ...queued('gone:1')], replies: [0, null] },
  { script: 'lock/renew', before: held(OURS), replies: [[LEASE_MS], [LEASE_MS]], extends: lockLease },
  { script: 'lock/renew-capped', before: held(OURS), replies: [[LEASE_MS], [LEASE_MS]], sets: lockLease },
  { script: 'lock/shorten', before: [...held(OURS), lasting], replies: [1, 1], cuts: lockLease },

  {
    script: 'job/record',
    before: [],
    replies: [1, 0],
    sets: { [jobKey(NAME)]: JOB_KEPT_MS },
    extends: { [JOBS_KEY]: JOB_KEPT_MS },
  },
  {
    script: 'job/record',
    title: 'job/record while another run goes on',
    before: [['hset', jobKey(NAME), 'knownAt', 1, 'holder', OTHER, 'startedAt', later(), 'previousHolder', OURS]],
    replies: [0, 0],
    sets: { [jobKey(NAME)]: JOB_KEPT_MS },
    extends: { [JOBS_KEY]: JOB_KEPT_MS },
  },
  {
    script: 'job/read',
    before: [['hset', jobKey(NAME), 'knownAt', 1]],
    replies: [
      [0, ['knownAt', '1']],
      [0, ['knownAt', '1']],
    ],
    isReadOnly: true,
  },

  { script: 'forced/mark', before: held(OURS), replies: [[], []] },
  { script: 'forced/record', before: [['rpush', AUDIT_KEY, '{"n":1}']], replies: [1, 0] },
  { script: 'forced/withdraw', before: [['set', forcedKey(NAME, OURS), MARK, 'px', TTL_MS]], replies: [1, 0] },

  { script: 'fair-lock/acquire', before: waiting(OURS, 'ours:2'), replies: [null, null], extends: lockLease },
  {
    script: 'fair-lock/acquire',
    title: 'fair-lock/acquire of a lock that is held',
    before: held(OTHER),
    replies: [TTL_MS, TTL_MS],
    extends: { [fairQueue(NAME)]: QUEUE_TTL_MS, [fairDeadlines(NAME)]: QUEUE_TTL_MS },
  },
  { script: 'fair-lock/leave', before: waiting(OURS, 'ours:2'), replies: [1, 0] },
  { script: 'fair-lock/release', before: [...held(OURS), ...waiting('ours:2')], replies: [0, null] },

  {
    script: 'fenced-lock/acquire',
    before: [],
    replies: [
      ['1', '6', '0'],
      ['1', '6', ''],
    ],
    extends: lockLease,
  },
  {
    script: 'fenced-lock/adopt',
    before: [...held('ours:2'), ['set', fencingTokenKey(NAME), 41]],
    replies: [
      ['1', '42', ''],
      ['1', '42', ''],
    ],
    extends: lockLease,
  },
  {
    script: 'fenced-lock/token',
    before: [['set', fencingTokenKey(NAME), 41]],
    replies: [['41'], ['41']],
    isReadOnly: true,
  },

  {
    script: 'read-lock/acquire',
    before: [],
    replies: [null, null],
    extends: { ...lockLease, [hold(1)]: LEASE_MS },
  },
  {
    script: 'read-lock/inspect',
    before: reading(2),
    replies: [
      [TTL_MS, '0', 1, OURS, '2'],
      [TTL_MS, '0', 1, OURS, '2'],
    ],
    isReadOnly: true,
  },
  { script: 'read-lock/release', before: reading(2), replies: [0, null] },
  { script: 'read-lock/renew', before: reading(), replies: [[1], [1]], extends: { ...lockLease, [hold(1)]: LEASE_MS } },
  {
    script: 'read-lock/set-count',
    before: reading(),
    replies: [1, 1],
    extends: { ...lockLease, [hold(1)]: LEASE_MS, [hold(2)]: LEASE_MS },
  },
  { script: 'write-lock/acquire', before: [], replies: [null, null], extends: lockLease },
  { script: 'write-lock/release', before: writing, replies: [0, null] },
  { script: 'queue/acquire', before: [], replies: [null, null], extends: lockLease },
  {
    script: 'queue/acquire',
    title: 'queue/acquire of a lock that is held',
    before: [
      ['hset', NAME, 'mode', 'write', `${OTHER}:write`, 1],
      ['pexpire', NAME, TTL_MS],
    ],
    replies: [
      [TTL_MS, '1', 0],
      [TTL_MS, '1', 0],
    ],
    sets: queuedFirst,
  },
  { script: 'queue/release', before: writing, replies: [0, null] },

  { script: 'faster-multi-lock/acquire', before: [], replies: [null, null], extends: groupLeases },
  {
    script: 'faster-multi-lock/inspect',
    before: group,
    replies: [
      [TTL_MS, OURS, '1', 2],
      [TTL_MS, OURS, '1', 2],
    ],
    isReadOnly: true,
  },
  { script: 'faster-multi-lock/release', before: group, replies: [0, null] },
  {
    script: 'faster-multi-lock/renew',
    before: group,
    replies: [[1], [1]],
    extends: { ...groupLease, [`${NAME} ${expiry(DIGEST)}`]: LEASE_MS },
  },
  { script: 'faster-multi-lock/set-count', before: group, replies: [1, 1], extends: groupLeases },
  {
    script: 'faster-multi-lock/shorten',
    before: [...group, ...VALUES.map((value) => ['hset', NAME, expiry(value), later(LONG_MS)] as const)],
    replies: [2, 2],
    cuts: Object.fromEntries(VALUES.map((value) => [`${NAME} ${expiry(value)}`, LEASE_MS])),
  },

  { script: 'string-lock/acquire', before: [], replies: [null, null], extends: lockLease },
  { script: 'string-lock/adopt', before: string('ours:2'), replies: [null, null], extends: lockLease },
  { script: 'string-lock/extend', before: string(OURS), replies: [1, 1], extends: lockLease },
  {
    script: 'string-lock/inspect',
    before: string(OURS),
    replies: [
      [TTL_MS, OURS, 1],
      [TTL_MS, OURS, 1],
    ],
    isReadOnly: true,
  },
  { script: 'string-lock/release', before: string(OURS), replies: [0, null] },
  { script: 'string-lock/renew', before: string(OURS), replies: [[1], [1]], extends: lockLease },
  { script: 'string-lock/shorten', before: [...string(OURS), lasting], replies: [1, 1], cuts: lockLease },

  { script: 'semaphore/acquire', before: number(5), replies: [1, 1] },
  { script: 'semaphore/acquire-in-order', before: number(5), replies: [1, 1] },
  {
    script: 'semaphore/acquire-in-order',
    title: 'semaphore/acquire-in-order without enough permits',
    before: number(0),
    replies: [
      [-1, '1', 1],
      [-1, '1', 1],
    ],
    sets: queuedFirst,
  },
  { script: 'semaphore/add-permits', before: number(5), replies: [6, 6] },
  {
    script: 'semaphore/cancel',
    before: [...number(4), ['hset', STORED_REPLIES, 7, 1]],
    replies: [1, 0],
    sets: { [STORED_REPLIES]: REPLIES_KEPT_MS },
  },
  { script: 'semaphore/delete', before: [...number(4), ...permitHeld], replies: [1, 0] },
  { script: 'semaphore/drain-permits', before: number(5), replies: [5, 5] },
  { script: 'semaphore/inspect', before: number(5), replies: [5, 5], isReadOnly: true },
  { script: 'semaphore/release-in-order', before: number(5), replies: [0, 0] },
  { script: 'semaphore/release', before: number(5), replies: [0, 0] },
  { script: 'semaphore/set-permits', before: [], replies: [1, 1] },

  { script: 'permit/acquire', before: number(5), replies: [null, null], extends: permitLease },
  { script: 'permit/acquire-in-order', before: number(5), replies: [null, null], extends: permitLease },
  {
    script: 'permit/acquire-in-order',
    title: 'permit/acquire-in-order without enough permits',
    before: number(0),
    replies: [
      [-1, '1', 1],
      [-1, '1', 1],
    ],
    sets: queuedFirst,
  },
  {
    script: 'permit/inspect',
    before: [...number(4), ...permitHeld],
    replies: [
      [4, 1, TTL_MS],
      [4, 1, TTL_MS],
    ],
    isReadOnly: true,
  },
  { script: 'permit/release', before: [...number(4), ...permitHeld], replies: [0, null] },
  { script: 'permit/release-in-order', before: [...number(4), ...permitHeld], replies: [0, null] },
  { script: 'permit/release-all', before: [...number(4), ...permitHeld], replies: [0, null] },
  { script: 'permit/renew', before: permitHeld, replies: [[1], [1]], extends: permitLease },
  { script: 'permit/set-permits', before: [...number(4), ...permitHeld], replies: [0, 0] },
  { script: 'permit/update-lease', before: permitHeld, replies: [1, 1], sets: permitLease },

  { script: 'latch/count-down', before: number(2), replies: [1, 1] },
  { script: 'latch/delete', before: number(2), replies: [1, 0] },
  { script: 'latch/inspect', before: number(2), replies: [2, 2], isReadOnly: true },
  { script: 'latch/set-count', before: [], replies: [1, 1] },

  {
    script: 'fleet/read',
    before: [...held(OURS, 2), ...queued(TICKET), ['set', fencingTokenKey(NAME), 41]],
    replies: [
      [0, 'hash', TTL_MS, '', [OURS, '2'], [], [TICKET], [], 1, 0, 0, 0, []],
      [0, 'hash', TTL_MS, '', [OURS, '2'], [], [TICKET], [], 1, 0, 0, 0, []],
    ],
    isReadOnly: true,
  },

  {
    script: 'web-locks/record',
    before: [],
    replies: [1, 0],
    sets: { [`${WEB_LOCKS_KEY} ${NAME}`]: LEASE_MS },
    extends: { [WEB_LOCKS_KEY]: LEASE_MS },
  },
  {
    script: 'web-locks/list',
    before: [['zadd', WEB_LOCKS_KEY, later(), NAME]],
    replies: [[NAME], [NAME]],
    isReadOnly: true,
  },
  {
    script: 'web-locks/read',
    before: writing,
    replies: [
      [['mode', 'write', `${OURS}:write`, '1'], []],
      [['mode', 'write', `${OURS}:write`, '1'], []],
    ],
    isReadOnly: true,
  },

  { script: 'idempotency/forget', before: [['hset', STORED_REPLIES, 7, 1]], replies: [0, 0] },
]

/** What is in Redis. */
interface Contents {
  /** By key, and by key and field, member or index. */
  readonly values: Readonly<Record<string, string>>
  readonly times: Leases
}

describe('a script', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /./ })

  const run = ({ script, keys, args }: ScriptCall): Promise<unknown> =>
    fixture.server.admin.eval(script.text, keys.length, ...keys, ...args)

  async function execute(commands: Commands): Promise<void> {
    const transaction = fixture.server.admin.multi()
    for (const [command, ...args] of commands) transaction.call(command, args)
    for (const [error] of (await transaction.exec()) ?? []) assert.ifError(error)
  }

  async function contents(): Promise<Contents> {
    const { admin } = fixture.server
    const values: Record<string, string> = {}
    const times: Record<string, number> = {}
    const add = (name: string, text: string): void => {
      if (isTime(text)) times[name] = Number(text) - Date.now()
      else values[name] = text
    }
    for (const key of await admin.keys('*')) {
      const type = await admin.type(key)
      const ttl = await admin.pttl(key)
      if (ttl !== -1) times[key] = ttl
      if (type === 'hash') {
        for (const [field, text] of Object.entries(await admin.hgetall(key))) add(`${key} ${field}`, text)
      } else if (type === 'list') {
        for (const [index, text] of (await admin.lrange(key, 0, -1)).entries()) add(`${key} ${index}`, text)
      } else if (type === 'zset') {
        const members = await admin.zrangeBuffer(key, '0', '-1', 'WITHSCORES')
        for (let n = 0; n < members.length; n += 2) {
          const member = members[n]?.toString(key === permitLeases(NAME) ? 'hex' : 'utf8')
          add(`${key} ${member}`, String(members[n + 1]))
        }
      } else add(`${key} `, (await admin.get(key)) ?? '')
    }
    return { values, times }
  }

  /** Makes all leases end after this time. */
  async function setLeases(ms: number): Promise<void> {
    const commands: [string, ...(string | number | Buffer)[]][] = []
    for (const name of Object.keys((await contents()).times)) {
      const [key = '', field] = name.split(' ')
      if (field === undefined) commands.push(['pexpire', key, ms])
      else if (key === NAME) commands.push(['hset', key, field, later(ms)])
      else if (key === permitLeases(NAME)) commands.push(['zadd', key, later(ms), Buffer.from(field, 'hex')])
    }
    if (commands.length > 0) await execute(commands)
  }

  for (const { script, title = script, before, replies, extends: extended, cuts, sets, isReadOnly } of CASES) {
    it(`${title} can run twice, also late`, async () => {
      const call = CALLS.find((one) => one.script.name === script)
      assert(call, `there is no script ${script}`)
      await fixture.server.admin.flushall()
      if (before.length > 0) await execute(before)
      const untouched = await contents()

      expectReply(await run(call), replies[0])
      const once = await contents()
      if (isReadOnly) expectContents(once, untouched)
      else assert.throws(() => expectContents(once, untouched), 'the first copy changes something')

      expectReply(await run(call), replies[1])
      expectContents(await contents(), once)

      for (const leaseMs of [SHORT_MS, LONG_MS]) {
        await setLeases(leaseMs)
        const { values, times } = await contents()
        await run(call)
        const expected = { ...times, ...sets }
        for (const [name, ms] of Object.entries(extended ?? {})) expected[name] = Math.max(ms, leaseMs)
        for (const [name, ms] of Object.entries(cuts ?? {})) expected[name] = Math.min(ms, leaseMs)
        expectContents(await contents(), { values, times: expected })
      }
    })
  }

  it('each script is in the table of repeats, whatever its name', () => {
    const missing = CALLS.map(({ script }) => script.name).filter(
      (name) => !CASES.some(({ script }) => script === name),
    )
    assert.deepEqual(missing, [], 'add a case')
  })
})

function isTime(text: string): boolean {
  return /^\d{13}(\.\d+)?$/.test(text)
}

function expectContents(found: Contents, expected: Contents): void {
  assert.deepEqual(found.values, expected.values)
  assert.deepEqual(Object.keys(found.times).sort(), Object.keys(expected.times).sort())
  for (const [name, ms] of Object.entries(expected.times)) expectTime(found.times[name], ms, name)
}

function expectReply(reply: unknown, expected: unknown): void {
  if (Array.isArray(reply) && Array.isArray(expected)) {
    assert.equal(reply.length, expected.length)
    for (const [index, part] of reply.entries()) expectReply(part, expected[index])
  } else if (isTime(String(reply))) expectTime(Number(reply) - Date.now(), Number(expected), 'the reply')
  else if (Number(expected) >= TTL_MS) expectTime(reply, Number(expected), 'the reply')
  else assert.equal(reply, expected)
}

function expectTime(found: unknown, expectedMs: number, name: string): void {
  assert(Math.abs(Number(found) - expectedMs) < SLACK_MS, `${name}: ${found} ms instead of ${expectedMs} ms`)
}
