/** What clients say is added to what the keys of a lock confirm, and nothing more. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Answers, TimedReply } from '../../src/fleet/ask.js'
import { ClientReports } from '../../src/fleet/client-reports.js'
import { joinLock } from '../../src/fleet/join.js'
import type { LockKeys } from '../../src/fleet/lock-keys.js'
import type { HoldState, WaitState } from '../../src/fleet/protocol.js'
import type { ClientRecord } from '../../src/fleet/record.js'

const NOW = 1_000
/** As of Holdfast: only these have records. */
const C1 = 'c1-401dfa57'

interface Situation {
  holders?: string[]
  queue?: string[]
  tickets?: string[]
  kind?: string
  says?: Record<string, { holds?: HoldState[]; waits?: WaitState[]; more?: number }>
  silent?: string[]
  absent?: string[]
  records?: Record<string, { holds?: HoldState[]; waits?: WaitState[] }>
  listeners?: number | undefined
  as?: 'semaphore' | 'latch'
  number?: number
}

function join(situation: Situation) {
  const { holders = [], queue = [], tickets = [], kind = 'lock', says = {}, silent = [], absent = [] } = situation
  const keys: LockKeys = {
    ...{ key: 'a', kind, exists: true, remainingLeaseMs: 20_000, queue, tickets, isCut: false },
    priorities: new Map(),
    holders: holders.map((holder) => ({ holder, holdCount: 1 })),
    ...(situation.number !== undefined && { number: situation.number }),
  }
  const replies = Object.entries(says).map(([client, { holds = [], waits = [], more = 0 }]): [string, TimedReply] => [
    client,
    { client, holds, waits, more, at: NOW - 10 },
  ])
  const answers: Answers = {
    replies: new Map(replies),
    silent: new Set(silent),
    absent: new Set(absent),
    unasked: new Set(),
    overheard: new Set(),
  }
  const records = Object.entries(situation.records ?? {}).map(
    ([id, { holds = [], waits = [] }]): [string, ClientRecord] => [
      id,
      { client: { id, name: id, host: 'h', pid: 1, version: '' }, holds, waits, ageMs: 5_000 },
    ],
  )
  const testimony = new ClientReports(answers, () => NOW)
  for (const [id, record] of records) testimony.addRecord(id, record)
  const count = 'listeners' in situation ? situation.listeners : 0
  const listeners = count === undefined ? undefined : { count, as: situation.as }
  return joinLock(keys, testimony, (key) => key, listeners, 1)
}

const hold = (holder: string, heldMs = 100): HoldState => ({ lock: 'a', holder, count: 1, heldMs, label: 'refund' })
const wait = (waitedMs: number, isListening = false): WaitState => ({
  ...{ wait: waitedMs, lock: 'a', waitedMs, isListening, chain: [] },
})

describe('a lock as it is shown', () => {
  it('a lock as it is shown has the holders of its key, and since when if their clients reply', () => {
    const { info, unconfirmed } = join({ holders: ['c1:1', 'c2:1'], says: { c2: { holds: [hold('c2:1')] } } })
    assert.deepEqual(info.holders, [
      { holder: 'c2:1', holdCount: 1, status: 'responding', heldMs: 110, label: 'refund' },
      { holder: 'c1:1', holdCount: 1, status: 'unlisted' },
    ])
    assert.equal(unconfirmed, 0)
  })

  it("a lock as it is shown has no holder by a message, own or of another client's details", () => {
    const { info, unconfirmed } = join({ holders: ['c1:1'], says: { liar: { holds: [hold('liar:1'), hold('c1:1')] } } })
    assert.deepEqual(info.holders, [{ holder: 'c1:1', holdCount: 1, status: 'unlisted' }])
    assert.equal(unconfirmed, 1)
  })

  it('a lock as it is shown shows the holder of a permit by the client that has its id', () => {
    const { info } = join({
      kind: 'permit expirable semaphore',
      holders: ['0f0f'],
      says: { [C1]: { holds: [hold('0f0f')] } },
      records: { [C1]: {} },
    })
    assert.equal(info.holders[0]?.client?.id, C1)
    assert.equal(info.holders[0].heldMs, 110)
  })

  it('a lock shows what a silent client last recorded, made older by the age of the record', () => {
    for (const [status, absence] of [
      ['silent', { silent: [C1] }],
      ['disconnected', { absent: [C1] }],
    ] as [string, Situation][]) {
      const { info } = join({ holders: [`${C1}:1`], records: { [C1]: { holds: [hold(`${C1}:1`)] } }, ...absence })
      const [first] = info.holders
      assert.deepEqual([first?.status, first?.heldMs, first?.client?.name], [status, 5_100, C1])
      assert.deepEqual(
        info.doubts.map(({ about }) => about),
        status === 'silent' ? ['silent-clients'] : [],
      )
    }
  })

  it('a lock as it is shown has waiters in the order of their turns, then those without a queue', () => {
    const { info } = join({
      holders: ['c9:1'],
      tickets: ['c1:7', 'c2:3', 'c3:1', 'gone:2'],
      says: { c1: { waits: [wait(5)] }, c2: { waits: [wait(900), wait(40)] }, c3: {}, c4: { waits: [wait(70)] } },
    })
    assert.deepEqual(
      info.waiters.map(({ position, waitedMs, status }) => [position, waitedMs, status]),
      [
        [1, 15, 'responding'],
        [2, 910, 'responding'],
        [2, 50, 'responding'],
        [4, undefined, 'unlisted'],
        [undefined, 80, 'responding'],
      ],
    )
  })

  it('a lock as it is shown has one wait of a client for each place in the fair queue', () => {
    const { info } = join({ queue: ['c1:1', 'java:4', 'c1:2'], says: { c1: { waits: [wait(10), wait(30)] } } })
    assert.deepEqual(
      info.waiters.map(({ holder, position, waitedMs }) => [holder, position, waitedMs]),
      [
        ['c1:1', 1, 40],
        ['java:4', 2, undefined],
        ['c1:2', 3, 20],
      ],
    )
  })

  it('a lock as it is shown has no waiter by a record that no queue confirms', () => {
    const { info } = join({ records: { [C1]: { waits: [wait(10)] } }, absent: [C1] })
    assert.deepEqual(info.waiters, [])
  })

  it('a lock as it is shown counts listeners that are no client that replied and listens', () => {
    const says = { c1: { waits: [wait(1, true), wait(2, true)] }, c2: { waits: [wait(3)] } }
    assert.equal(join({ says, listeners: 3 }).info.otherListeners, 2)
    assert.equal(join({ says, listeners: 0 }).info.otherListeners, 0)
  })

  it('a lock is in doubt where listeners are hidden, a list is cut, or nothing shows what it is', () => {
    assert.deepEqual(join({}).info.doubts, [])
    assert.deepEqual(join({ listeners: undefined }).info.doubts, [{ about: 'hidden-listeners', count: 1 }])
    assert.deepEqual(join({ kind: 'unknown' }).info.doubts, [{ about: 'unknown-kind', count: 1 }])
  })

  it('a silent client is named in the locks that it may be part of, and in no other', () => {
    const named = (situation: Situation) =>
      join({ silent: [C1], ...situation }).info.doubts.flatMap((one) => one.clients)
    assert.deepEqual(named({ records: { [C1]: {} } }), [])
    const whole = [{ id: C1, name: C1, host: 'h', pid: 1, version: '' }]
    assert.deepEqual(named({ holders: [`${C1}:1`], records: { [C1]: {} } }), whole)
    assert.deepEqual(named({ tickets: [`${C1}:1`], records: { [C1]: {} } }), whole)
    assert.deepEqual(named({ listeners: 1 }), [{ id: C1, name: '', host: '', pid: 0, version: '' }])
  })

  it('a waiter that was stopped is counted once, in a queue or by its record', () => {
    const queued = join({ silent: [C1], tickets: [`${C1}:1`], listeners: 1 }).info
    assert.deepEqual([queued.waiters.length, queued.otherListeners], [1, 0])
    const recorded: Situation = { silent: [C1], records: { [C1]: { waits: [wait(70)] } } }
    const { waiters, otherListeners } = join({ ...recorded, listeners: 2 }).info
    assert.deepEqual(
      [waiters.map(({ status, waitedMs }) => [status, waitedMs]), otherListeners],
      [[['silent', 5_070]], 1],
    )
    assert.deepEqual(join({ ...recorded, listeners: 0 }).info.waiters, [], 'nobody listens: it no longer waits')
  })

  it('a number is a semaphore or a latch if somebody waits for it as such', () => {
    const shown = (situation: Situation) => {
      const { kind, freePermits, count, doubts } = join({ number: 3, ...situation }).info
      return [kind, freePermits, count, doubts.length]
    }
    assert.deepEqual(shown({ kind: 'semaphore' }), ['semaphore', 3, undefined, 0])
    assert.deepEqual(shown({ kind: 'semaphore', number: -2 }), ['semaphore', 0, undefined, 0])
    assert.deepEqual(shown({ kind: 'unknown', listeners: 1, as: 'semaphore' }), ['semaphore', 3, undefined, 0])
    assert.deepEqual(shown({ kind: 'unknown', listeners: 1, as: 'latch' }), ['latch', undefined, 3, 0])
    assert.deepEqual(shown({ kind: 'unknown', listeners: 1 }), ['unknown', undefined, undefined, 1])
    assert.deepEqual(shown({ kind: 'lock' }), ['lock', undefined, undefined, 0])
  })

  it('a record about a client of Redisson is not believed: it writes none', () => {
    const java = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f'
    const { info } = join({
      holders: [`${java}:41`],
      absent: [java],
      records: { [java]: { holds: [hold(`${java}:41`)] } },
    })
    assert.deepEqual(info.holders, [{ holder: `${java}:41`, holdCount: 1, status: 'unlisted' }])
  })
})
