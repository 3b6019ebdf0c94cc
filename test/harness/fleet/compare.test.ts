import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LockInfo } from '../../../src/index.js'
import { compare } from './compare.js'
import type { Said } from './messages.js'

const client = { id: 'c', name: 'app', host: 'h', pid: 7, version: '' }
const seen: LockInfo = {
  name: 'a',
  kind: 'lock',
  remainingLeaseMs: 20_000,
  holders: [{ holder: 'c:1', holdCount: 1, status: 'responding', client, label: 'refund', heldMs: 900 }],
  waiters: [{ client, label: 'next', waitedMs: 500, givesUpInMs: 59_500, chain: [], status: 'responding' }],
  otherListeners: 0,
  doubts: [],
}
const said: Said = {
  clientId: 'c',
  name: 'app',
  host: 'h',
  pid: 7,
  holds: [{ name: 'a', kind: 'lock', holder: 'c:1', count: 1, label: 'refund', askedAt: 100, grantedAt: 100 }],
  waits: [{ name: 'a', label: 'next', askedAt: 500, refusedAt: 500, waitTimeMs: 60_000, chain: [] }],
}
const look = (info: LockInfo) => ({ info, from: 1_000, to: 1_010 })

describe('the comparison of what operators see with what processes say', () => {
  it('the comparison accepts what agrees', () => {
    assert.deepEqual(compare(look(seen), [said]).differences, [])
  })

  it('the comparison finds another holder, count, label, process, waiter or duration', () => {
    const [holder, waiter] = [seen.holders[0], seen.waiters[0]]
    assert(holder && waiter)
    const others: Partial<LockInfo>[] = [
      { holders: [] },
      ...[{ holder: 'c:2' }, { holdCount: 2 }, { label: 'other' }, { heldMs: 961 }, { heldMs: 849 }].map((part) => ({
        holders: [{ ...holder, ...part }],
      })),
      { kind: 'fair lock' },
      { holders: [{ ...holder, client: { ...client, pid: 8 } }] },
      { holders: [{ ...holder, client: { ...client, host: 'g' } }] },
      { holders: [{ ...holder, status: 'silent' }] },
      { waiters: [] },
      { waiters: [waiter, waiter] },
      { waiters: [{ ...waiter, waitedMs: 600 }] },
      { waiters: [{ ...waiter, givesUpInMs: 59_000 }] },
      { waiters: [{ ...waiter, chain: [{ lock: 'b', holder: 'c:1' }] }] },
      { otherListeners: 1 },
      { doubts: [{ about: 'left-out', count: 1 }] },
    ]
    for (const part of others) {
      assert.equal(compare(look({ ...seen, ...part }), [said]).differences.length, 1, JSON.stringify(part))
    }
  })
})
