/** The failover suite detects every violation in what clients believed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Belief, overlapsIn, staleTokensIn } from './record.js'
import type { Round } from './rounds.js'
import { isRed, summarize } from './summary.js'
import type { Fault } from './topology.js'

const belief = (from: number, to: number, more: Partial<Belief> = {}): Belief => ({
  lock: 'a',
  way: 'config',
  isFresh: false,
  askedAt: 0,
  holder: 'client:1',
  from,
  to,
  ...more,
})

describe('the record of what clients believed', () => {
  it('the record shows no overlap if each grant follows the previous release', () => {
    assert.deepEqual(overlapsIn([belief(5, 6), belief(1, 5), belief(2, 3, { lock: 'b' })]), [])
  })

  it("the record shows each grant before another holder's release, and for how long both had the lock", () => {
    const found = overlapsIn([belief(4, 6), belief(1, 5), belief(5.5, 7)])
    assert.deepEqual(
      found.map(({ ms }) => ms),
      [1, 0.5],
    )
  })

  it('the record shows a short holder within the time of a long one, and the next one too', () => {
    assert.equal(overlapsIn([belief(1, 10), belief(2, 3), belief(8, 9)]).length, 2)
  })

  it('the record shows a fencing token that repeats or goes back', () => {
    const tokens = ['1', '2', '2', '1', '3'].map((token, at) => belief(at, at + 1, { token }))
    assert.deepEqual(
      staleTokensIn(tokens).map(({ first, second }) => [first.token, second.token]),
      [
        ['2', '2'],
        ['2', '1'],
      ],
    )
  })
})

describe('the verdict on a fault', () => {
  const fault = { id: 'kill', title: 'killed', limitMs: 5_000, inject: async () => {} } satisfies Fault
  const round = (more: Partial<Round> = {}): Round => ({
    grants: 1,
    overlaps: [],
    staleTokens: [],
    recoveryMs: { config: 4_999 },
    latenessMs: 0,
    errors: {},
    leftover: [],
    failures: [],
    since: 0,
    outageMs: 1,
    ...more,
  })
  const shared = { overlaps: overlapsIn([belief(1, 5), belief(4, 6)]) }

  it('the verdict passes if no two clients held a lock at once and every client was served in time', () => {
    assert.equal(isRed(summarize('sentinel', fault, [round(), round()])), false)
  })

  it('the verdict fails if two clients held a lock at once, unless the fault is a named exception', () => {
    assert.equal(isRed(summarize('sentinel', fault, [round(), round(shared)])), true)
    assert.equal(isRed(summarize('sentinel', { ...fault, exception: 'by order' }, [round(shared)])), false)
  })

  it('the verdict fails if a client was late or never served, whatever the fault', () => {
    for (const ms of [5_001, Number.POSITIVE_INFINITY]) {
      const late = round({ recoveryMs: { config: ms } })
      assert.equal(isRed(summarize('sentinel', { ...fault, exception: 'by order' }, [round(), late])), true)
    }
  })

  it('the verdict allows for timers that fired late on a busy machine, but not for a client that was never served', () => {
    const verdict = (ms: number) =>
      isRed(summarize('sentinel', fault, [round({ recoveryMs: { config: ms }, latenessMs: 400 })]))
    assert.deepEqual([5_399, 5_401, Number.POSITIVE_INFINITY].map(verdict), [false, true, true])
  })

  it('the verdict fails if a client has more connections afterwards than before', () => {
    const leftover = ['config: 3 connections instead of 2']
    assert.equal(isRed(summarize('sentinel', fault, [round({ leftover })])), true)
  })

  it('the verdict fails if a call never settled', () => {
    assert.equal(isRed(summarize('sentinel', fault, [round({ failures: ['config: a call never settled'] })])), true)
  })
})
