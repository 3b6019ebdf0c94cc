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
}

function join(situation: Situation) {
  const { holders = [], queue = [], tickets = [], kind = 'lock', says = {}, silent = [], absent = [] } = situation
  const keys: LockKeys = {
    ...{ key: 'a', kind, exists: true, remainingLeaseMs: 20_000, queue, tickets, isCut: false },
    holders: holders.map((holder) => ({ holder, holdCount: 1 })),
  }
  const replies = Object.entries(says).map(([client, { holds = [], waits = [], more = 0 }]): [string, TimedReply] => [
    client,
    { client, holds, waits, more, at: NOW - 10 },
  ])
  const answers: Answers = {
    replies: new Map(replies),
    silent: new Set(silent),
    absent: new Set(absent),
    hasAskedAll: true,
  }
  const records = Object.entries(situation.records ?? {}).map(
    ([id, { holds = [], waits = [] }]): [string, ClientRecord] => [
      id,
      { client: { id, name: id, host: 'h', pid: 1, version: '' }, holds, waits, ageMs: 5_000 },
    ],
  )
  const testimony = new ClientReports(answers, () => NOW)
  for (const [id, record] of records) testimony.addRecord(id, record)
  const listeners = 'listeners' in situation ? situation.listeners : 0
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
      says: { c1: { holds: [hold('0f0f')] } },
      records: { c1: {} },
    })
    assert.equal(info.holders[0]?.client?.id, 'c1')
    assert.equal(info.holders[0].heldMs, 110)
  })

  it('a lock shows what a silent client last recorded, made older by the age of the record', () => {
    for (const [status, absence] of [
      ['silent', { silent: ['c1'] }],
      ['disconnected', { absent: ['c1'] }],
    ] as [string, Situation][]) {
      const { info } = join({ holders: ['c1:1'], records: { c1: { holds: [hold('c1:1')] } }, ...absence })
      const [first] = info.holders
      assert.deepEqual([first?.status, first?.heldMs, first?.client?.name], [status, 5_100, 'c1'])
      assert.equal(info.isComplete, status === 'disconnected')
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
    const { info } = join({ records: { c1: { waits: [wait(10)] } }, absent: ['c1'] })
    assert.deepEqual(info.waiters, [])
  })

  it('a lock as it is shown counts listeners that are no client that replied and listens', () => {
    const says = { c1: { waits: [wait(1, true), wait(2, true)] }, c2: { waits: [wait(3)] } }
    assert.equal(join({ says, listeners: 3 }).info.otherListeners, 2)
    assert.equal(join({ says, listeners: 0 }).info.otherListeners, 0)
  })

  it('a lock as it is shown is incomplete if listeners are not known, or a client left something out', () => {
    assert.equal(join({}).info.isComplete, true)
    assert.equal(join({ listeners: undefined }).info.isComplete, false)
    assert.equal(join({ says: { c1: { more: 3 } } }).info.isComplete, false)
  })
})
