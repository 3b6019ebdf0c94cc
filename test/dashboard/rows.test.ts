import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { idOf, isUnchanged, matches, nameOf, rowOf } from '../../src/dashboard/rows.js'
import { heldLock, holder, waiter } from '../support/dashboard.js'

describe('the id of a lock', () => {
  it('the id of a lock leads back to its name', () => {
    for (const name of [
      'a',
      'lock:order:1001',
      '<img src=x onerror=alert(1)>',
      '../../etc',
      'Größe 🔒',
      '%2f?#&',
      '~',
    ]) {
      assert.match(idOf(name), /^[\w-]+$/)
      assert.equal(nameOf(idOf(name)), name)
    }
  })

  it('the id of a lock is a hash if the name is over 1 KB, so that it fits into a URL', () => {
    const id = idOf('x'.repeat(1024 * 1024))
    assert.match(id, /^~[\da-f]{64}$/)
    assert.equal(nameOf(id), undefined)
    assert.notEqual(id, idOf('x'.repeat(1024 * 1024 - 1)))
  })

  it('the id of a lock has one spelling', () => {
    for (const id of ['', 'YQ==', 'Y Q', 'YR', '/w', '_w', '~', '~ab']) assert.equal(nameOf(id), undefined, id)
  })
})

describe('a row', () => {
  it('a row is JSON: a key without expiry has null, and a name of 1 MiB is cut', () => {
    const long = '🔒'.repeat(256 * 1024)
    const row = rowOf(heldLock(long, { remainingLeaseMs: Number.POSITIVE_INFINITY }), 5, () => 7)
    assert.equal(row.remainingLeaseMs, null)
    assert.ok(row.name.length <= 1_024 && row.name.isWellFormed())
    assert.equal(row.nameLength, long.length)
    assert.deepEqual([row.ageMs, row.holders[0]?.seenMs], [5, 7])
    assert.deepEqual(JSON.parse(JSON.stringify(row)), row)
  })

  it('a row gives the locks of a call chain their ids', () => {
    const chain = [{ lock: 'lock:b', holder: 'beef:1' }]
    const row = rowOf(heldLock('lock:a', { waiters: [waiter({ chain })] }), 0, () => 0)
    assert.deepEqual(row.waiters[0]?.chain, [{ id: idOf('lock:b'), lock: 'lock:b', holder: 'beef:1' }])
  })
})

describe('a later reading of a lock', () => {
  const first = { info: heldLock('lock:a', { waiters: [waiter({ givesUpInMs: 9_000 })] }), at: 1_000 }
  const later = (changes: Parameters<typeof heldLock>[1]) => ({
    info: heldLock('lock:a', {
      remainingLeaseMs: 29_000,
      holders: [holder({ heldMs: 2_000 })],
      waiters: [waiter({ waitedMs: 1_500, givesUpInMs: 8_000 })],
      ...changes,
    }),
    at: 2_000,
  })

  it('a later reading of a lock is no change if its durations merely went on', () => {
    assert.ok(isUnchanged(first, later({})))
    assert.ok(isUnchanged(first, later({ remainingLeaseMs: 28_900 })))
  })

  it('a later reading of a lock is a change if anything else differs', () => {
    const changes = [
      { remainingLeaseMs: 30_000 }, // renewed
      { remainingLeaseMs: Number.POSITIVE_INFINITY },
      { holders: [holder({ heldMs: 100 })] }, // handed off
      { holders: [holder({ heldMs: 2_000, label: 'refund' })] },
      { holders: [holder({ heldMs: 2_000, status: 'silent' as const })] },
      { holders: [] },
      { waiters: [] },
      { waiters: [waiter({ waitedMs: 1_500 })] },
      { waiters: [waiter({ waitedMs: 1_500, givesUpInMs: 8_000, wait: 2 })] },
      { otherListeners: 1 },
    ]
    for (const change of changes) assert.ok(!isUnchanged(first, later(change)), JSON.stringify(change))
  })
})

describe('a pattern', () => {
  it('a pattern matches as in Redis, or anywhere without a star or question mark', () => {
    const yes = [
      ['lock:order:1', 'order'],
      ['lock:order:1', 'lock:*'],
      ['lock:order:1', '*:1'],
      ['lock:order:1', 'l*o?der*'],
      ['', '*'],
      ['a.b', 'a.b'],
      ['anything', ''],
    ]
    const no = [
      ['lock:order:1', 'lock:?'],
      ['lock:order:1', 'order*'],
      ['axb', 'a.b'],
      ['a', '??'],
    ]
    for (const [text = '', pattern = ''] of yes) assert.ok(matches(text, pattern), `${text} ${pattern}`)
    for (const [text = '', pattern = ''] of no) assert.ok(!matches(text, pattern), `${text} ${pattern}`)
  })

  it('a pattern costs no more than both lengths multiplied, however many stars it has', () => {
    const started = process.cpuUsage()
    assert.ok(!matches('a'.repeat(1_024), `${'*a'.repeat(127)}b`))
    assert.ok(process.cpuUsage(started).user < 1_000_000)
  })
})
