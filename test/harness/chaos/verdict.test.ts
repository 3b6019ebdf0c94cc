/** Chaos detects every violation in what its processes report, and each broken lock of the controls has its verdict. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { tried } from './controls.js'
import { PERMITS, SEMAPHORE } from './messages.js'
import { isPassed, reportOf, type Slowness } from './report.js'
import type { Outcome } from './run.js'
import { CONTROLS } from './sabotage.js'
import type { Injected } from './topology.js'
import { declared, type Evidence, type Finding, judge, type Section, VERDICTS } from './verdict.js'

const section = (from: number, to: number, more: Partial<Section> = {}): Section => ({
  ...{ kind: 'plain', lock: 'a', worker: 1, from, to },
  ...more,
})
const shared = { isShared: true }
const wrote = (first: number, last: number, more: object = {}): Partial<Section> => ({
  access: { first, last, isAccepted: true, isCertain: true, isOverwriting: false, ...more },
})

function found(sections: readonly Section[], more: Partial<Evidence> = {}): string[] {
  const findings = judge({ sections, semaphores: [PERMITS, SEMAPHORE], faults: [], leaseMs: 100, ...more })
  return findings.map(({ verdict, isDeclared }) => (isDeclared ? `${verdict}, declared` : verdict))
}

describe('the verdict of a chaos run', () => {
  it('the verdict finds overlaps of two exclusive sections of a lock, and of a reader with a writer', () => {
    assert.deepEqual(found([section(1, 3), section(2, 4)]), ['overlaps'])
    assert.deepEqual(found([section(1, 5, shared), section(2, 3, shared), section(4, 6)]), ['overlaps'])
    assert.deepEqual(found([section(1, 5), section(2, 6, shared)]), ['overlaps'])
  })

  it('the verdict finds no overlap for readers, different locks, or consecutive sections', () => {
    assert.deepEqual(found([section(1, 3, shared), section(2, 4, shared)]), [])
    assert.deepEqual(found([section(1, 3), section(2, 4, { lock: 'b' }), section(3, 5)]), [])
  })

  it('the verdict finds interleaved accesses of two certain holders in the order of the record', () => {
    const one = section(1, 2, wrote(1, 3))
    assert.deepEqual(found([one, section(3, 4, wrote(2, 4))]), ['interleavings'])
    assert.deepEqual(found([one, section(3, 4, wrote(4, 5))]), [])
    assert.deepEqual(found([one, section(3, 4, wrote(2, 4, { isCertain: false }))]), [], 'a paused process writes late')
    assert.deepEqual(found([one, section(3, 4, wrote(2, 4, { isAccepted: false }))]), [])
  })

  it('the verdict finds fencing tokens that repeat or go back', () => {
    const token = (from: number, token: string) => section(from, from + 1, { token })
    assert.deepEqual(found([token(1, '9'), token(2, '10')]), [])
    assert.deepEqual(found([token(1, '9'), token(2, '9')]), ['staleTokens'])
    assert.deepEqual(found([token(1, '10'), token(2, '9')]), ['staleTokens'])
  })

  it('the verdict finds a write accepted after one with a higher token, and one that lost an update', () => {
    const write = (from: number, token: string, last: number, more: object = {}) =>
      section(from, from + 1, { token, ...wrote(last - 1, last, { isCertain: false, ...more }) })
    assert.deepEqual(found([write(1, '1', 2), write(2, '2', 4)]), [])
    assert.deepEqual(found([write(1, '1', 4), write(2, '2', 2)]), ['staleWrites'])
    assert.deepEqual(found([write(1, '1', 4, { isAccepted: false }), write(2, '2', 2)]), [])
    assert.deepEqual(found([write(1, '1', 2, { isOverwriting: true })]), ['staleWrites'])
  })

  it('the verdict finds tasks in a semaphore beyond its permits', () => {
    const inside = (lock: string, from: number) => section(from, from + 10, { lock, ...shared })
    assert.deepEqual(found([1, 2, 3].map((from) => inside(PERMITS, from))), [])
    assert.deepEqual(found([1, 2, 3, 4].map((from) => inside(PERMITS, from))), ['crowds'])
    assert.deepEqual(found([1, 2, 3, 11].map((from) => inside(SEMAPHORE, from))), [])
  })

  it('the verdict declares what follows a fault that loses locks within a lease, and nothing else', () => {
    const at = (from: number, forgets?: 'locks' | 'counts'): { faults: Injected[] } => ({
      faults: [{ name: 'order', isOfServers: true, from, to: from + 10, ...(forgets ? { forgets } : {}) }],
    })
    const overlap = [section(1_000, 1_010), section(1_005, 1_015)]
    assert.deepEqual(found(overlap, at(950, 'locks')), ['overlaps, declared'])
    assert.deepEqual(found(overlap, at(850, 'locks')), ['overlaps'], 'too long ago')
    assert.deepEqual(found(overlap, at(1_100, 'locks')), ['overlaps'], 'later')
    assert.deepEqual(found(overlap, at(950, 'counts')), ['overlaps'])
    assert.deepEqual(found(overlap, at(950)), ['overlaps'])
    const latch: Finding = { verdict: 'failures', what: 'a latch did not open', from: 1_000, to: 1_010 }
    const evidence = { ...at(950, 'counts'), leaseMs: 100 }
    assert.equal(declared(latch, evidence, 'counts').isDeclared, true)
    assert.equal(declared(latch, { ...at(950), leaseMs: 100 }, 'counts').isDeclared, undefined)
    assert.equal(declared({ ...latch, from: 2_000, to: 2_010 }, evidence, 'counts').isDeclared, undefined)
  })

  it('the verdict fails a run with an undeclared finding, no acquisitions or an unfound control, unless it could not be in time', () => {
    const outcome: Outcome = {
      ...{ acquisitions: 1, sections: [section(1, 2)], faults: [], findings: [], permits: {} },
      ...{ refused: 0, errors: {}, recoveryMs: 1 },
    }
    const red = CONTROLS.map((control) => ({ ...control, isRed: true, found: 'something' }))
    const passes = (change: Partial<Outcome>, controls = red, slow: Partial<Slowness> = {}) => {
      const whole = { ...outcome, ...change }
      const report = reportOf({ seconds: 1, seed: 1, topology: 'single' }, whole, controls)
      return isPassed(report, whole.findings, { run: undefined, controls: undefined, ...slow })
    }
    assert.equal(passes({}), true)
    assert.equal(passes({ acquisitions: 0 }), false)
    for (const verdict of Object.keys(VERDICTS) as (keyof typeof VERDICTS)[]) {
      assert.equal(passes({ findings: [{ verdict, what: '' }] }), false, verdict)
      assert.equal(passes({ findings: [{ verdict, what: '', isDeclared: true }] }), true, verdict)
    }
    assert.equal(passes({}, [{ ...red[0], isRed: false } as (typeof red)[number], ...red.slice(1)]), false)
    assert.equal(passes({}, []), false)

    const [slow, missed] = [{ run: 'late', controls: 'late' }, [{ ...red[0], isRed: false } as (typeof red)[number]]]
    assert.equal(passes({}, red, slow), true)
    for (const verdict of Object.keys(VERDICTS) as (keyof typeof VERDICTS)[]) {
      // A slow machine is to blame only for what did not happen in time.
      const judged = verdict === 'stuck' || verdict === 'keysLeft' ? undefined : false
      assert.equal(passes({ findings: [{ verdict, what: '' }] }, red, slow), judged, verdict)
      const both: Finding[] = [
        { verdict: 'stuck', what: '' },
        { verdict, what: '' },
      ]
      assert.equal(passes({ findings: both }, red, slow), judged, verdict)
      assert.equal(passes({ findings: both }, red, { controls: 'late' }), false, verdict)
    }
    assert.equal(passes({}, missed, slow), undefined)
    assert.equal(passes({}, missed, { run: 'late' }), false)
  })

  it('the verdict takes a control for found only by its own verdict, about its own lock', () => {
    const [control] = CONTROLS as [(typeof CONTROLS)[number]]
    const { verdict, lock } = control
    assert.equal(tried(control, [{ verdict, what: 'two', lock }]).isRed, true)
    assert.equal(tried(control, [{ verdict: 'failures', what: 'two', lock }]).isRed, false)
    assert.equal(tried(control, [{ verdict, what: 'two', lock: 'another' }]).isRed, false)
    const controlled = new Set(CONTROLS.map((one) => one.verdict))
    assert.deepEqual(
      Object.keys(VERDICTS).filter((name) => !controlled.has(name as typeof verdict)),
      [],
    )
  })
})
