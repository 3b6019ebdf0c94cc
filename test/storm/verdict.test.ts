/** The storm detects every violation in the beliefs of its processes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PERMITS, SEMAPHORE } from './messages.js'
import { isPassed, judge, type Section, type Verdict } from './verdict.js'

const section = (from: number, to: number, more: Partial<Section> = {}): Section => ({
  kind: 'plain',
  lock: 'a',
  from,
  to,
  ...more,
})
const shared = { isShared: true }

describe('the verdict of a storm', () => {
  it('counts overlaps of two exclusive sections of a lock, and of a reader with a writer', () => {
    assert.equal(judge([section(1, 3), section(2, 4)]).overlaps, 1)
    assert.equal(judge([section(1, 5, shared), section(2, 3, shared), section(4, 6)]).overlaps, 1)
    assert.equal(judge([section(1, 5), section(2, 6, shared)]).overlaps, 1)
  })

  it('counts no overlap for readers, different locks, or consecutive sections', () => {
    assert.equal(judge([section(1, 3, shared), section(2, 4, shared)]).overlaps, 0)
    assert.equal(judge([section(1, 3), section(2, 4, { lock: 'b' }), section(3, 5)]).overlaps, 0)
  })

  it('counts tasks in a semaphore beyond its permits', () => {
    const inside = (lock: string, from: number) => section(from, from + 10, { lock, ...shared })
    assert.equal(judge([1, 2, 3].map((from) => inside(PERMITS, from))).crowds, 0)
    assert.equal(judge([1, 2, 3, 4].map((from) => inside(PERMITS, from))).crowds, 1)
    assert.equal(judge([1, 2, 3, 11].map((from) => inside(SEMAPHORE, from))).crowds, 0)
  })

  it('fails a storm that lost or created a permit, left a key, has a call that never settled, or entered nothing', () => {
    const clean: Verdict = {
      ...{ seconds: 1, seed: 1, isControl: false, faults: {}, errors: {}, permits: { [PERMITS]: 3, [SEMAPHORE]: 3 } },
      ...{ keysLeft: [], neverSettled: [], failures: [] },
      ...judge([section(1, 2)]),
    }
    assert.equal(isPassed(clean), true)
    for (const change of [
      { permits: { [PERMITS]: 3, [SEMAPHORE]: 4 } },
      { permits: { [PERMITS]: 2, [SEMAPHORE]: 3 } },
      { keysLeft: ['a'] },
      { neverSettled: ['fair'] },
      { failures: ['a latch opened early'] },
      { sections: {} },
      { isControl: true },
    ]) {
      assert.equal(isPassed({ ...clean, ...change }), false, JSON.stringify(change))
    }
  })
})
