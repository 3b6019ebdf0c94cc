import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Said } from './messages.js'
import { compareDetail, compareRow, type ShownDetail, type ShownRow } from './shown.js'

const AT = 10_000
const UUID = '10488e73-94d1-4c8e-8f8a-3b2f6f0e9a11'
const said: Said[] = [
  {
    ...{ clientId: 'c', name: 'app', host: 'h', pid: 7, waits: [] },
    holds: [{ name: 'a', kind: 'fair lock', holder: 'c:1', count: 2, label: 'refund', askedAt: 100, grantedAt: 100 }],
  },
  {
    ...{ clientId: 'd', name: 'app', host: 'h', pid: 8, holds: [] },
    waits: [
      {
        ...{ name: 'a', label: 'next', askedAt: 5_000, refusedAt: 5_000, waitTimeMs: 60_000 },
        chain: [{ lock: 'b', holder: 'd:1' }],
      },
    ],
  },
  {
    ...{ clientId: UUID, name: '', host: '', holds: [] },
    waits: [
      { name: 'a', label: '', askedAt: 0, refusedAt: 0, waitTimeMs: 0, chain: [], holder: `${UUID}:41` },
      { name: 'a', label: '', askedAt: 0, refusedAt: 0, waitTimeMs: 0, chain: [] },
    ],
  },
]
const row: ShownRow = {
  name: 'a',
  kind: 'fair lock',
  held: '9.9s',
  status: 'responding',
  who: 'app@h',
  holder: 'c:1',
  others: '',
  waiting: '≥ 3',
  label: 'refund',
}
const facts = { For: 'refund', Count: '2', Process: 'app 1.0.0, pid 7 on h', Holder: 'c:1', 'Held for': '9.9s' }
const waiter = { status: 'responding', who: 'app@h', about: ['next', 'holds b'], waits: '5.0s' }
const detail: ShownDetail = {
  name: 'a',
  facts: { Kind: 'fair lock', 'Lease left': '20s', Holders: '1', Waiting: '≥ 3' },
  holders: [{ status: 'responding', who: 'app@h', facts }],
  waiters: [waiter, { status: 'unlisted', who: '10488e73:41', about: [], waits: '–' }],
  others: '1 other process listens: Redisson, or an older Holdfast.',
}

describe('the comparison of what the page shows with what processes say', () => {
  it('the comparison accepts what agrees', () => {
    assert.deepEqual(compareRow(row, said, AT), [])
    assert.deepEqual(compareDetail(detail, said, 'a', AT), [])
  })

  it('the comparison finds whatever differs in a row', () => {
    for (const key of ['kind', 'status', 'who', 'holder', 'others', 'waiting', 'label', 'held'] as const) {
      assert.equal(compareRow({ ...row, [key]: '1h 2m' }, said, AT).length, 1, key)
    }
  })

  it('the comparison finds whatever differs in the details', () => {
    const [holder, java] = [detail.holders[0], detail.waiters[1]]
    assert(holder && java)
    const others: Partial<ShownDetail>[] = [
      { name: 'b' },
      ...['Kind', 'Holders', 'Waiting'].map((fact) => ({ facts: { ...detail.facts, [fact]: 'x' } })),
      { holders: [] },
      { holders: [{ ...holder, who: 'x' }] },
      ...['For', 'Mode', 'Count', 'Holder', 'Held for'].map((fact) => ({
        holders: [{ ...holder, facts: { ...facts, [fact]: 'x' } }],
      })),
      { holders: [{ ...holder, facts: { ...facts, Process: 'app, pid 9 on h' } }] },
      { waiters: [waiter] },
      { waiters: [{ ...waiter, about: ['next'] }, java] },
      { waiters: [{ ...waiter, waits: '1h 2m' }, java] },
      { others: '' },
    ]
    for (const part of others) {
      assert.notDeepEqual(compareDetail({ ...detail, ...part }, said, 'a', AT), [], JSON.stringify(part))
    }
  })
})
