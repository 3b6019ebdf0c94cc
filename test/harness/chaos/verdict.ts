import { type Belief, crowdsIn, overlapsIn, staleTokensIn } from '../beliefs.js'
import { type Access, MOST_INSIDE } from './messages.js'
import type { Injected } from './topology.js'

/** What a worker reported that it held. */
export interface Section extends Belief {
  readonly kind: string
  /** The process; 0 for the JVM. */
  readonly worker: number
  to: number
  /** What it did to the record of this lock. */
  access?: { readonly first: number; readonly last: number | undefined } & Pick<
    Access,
    'isAccepted' | 'isCertain' | 'isOverwriting'
  >
}

/** Each with what it means. */
export const VERDICTS = {
  overlaps: 'two owners held one lock at the same time, each within its lease',
  interleavings: 'the same, by the order of their accesses to the record',
  staleTokens: 'a fencing token repeated or went back',
  staleWrites: 'the record accepted a write after one with a higher token',
  crowds: 'more tasks in a semaphore than it has permits',
  permits: 'permits were lost or created',
  dishonest: 'a hold that cannot be held was said to be held',
  keysLeft: 'keys that nobody owns and that never expire, or much too late',
  stuck: 'a call that did not settle, or a waiter that was not served, after all faults were over',
  failures: 'anything else that must not happen',
} as const

export type VerdictName = keyof typeof VERDICTS

export interface Finding {
  readonly verdict: VerdictName
  readonly what: string
  readonly lock?: string
  /** When, on the monotonic clock. */
  readonly from?: number
  readonly to?: number
  /** A fault in that time lost what was acknowledged: docs/guarantees.md excepts it. */
  readonly isDeclared?: boolean
}

export interface Evidence {
  readonly sections: readonly Section[]
  readonly semaphores: readonly string[]
  readonly faults: readonly Injected[]
  /** The longest lease, ms: as long what a server has forgotten may matter. */
  readonly leaseMs: number
}

/** The violations in what workers believed and wrote. */
export function judge(evidence: Evidence): Finding[] {
  const { sections, semaphores } = evidence
  const locks = sections.filter(({ lock }) => !semaphores.includes(lock))
  return [
    ...overlapsIn(locks).map(({ first, second, ms }): Judged => {
      const what = `${first.lock}: ${inWords(first)} and ${inWords(second)} for ${ms.toFixed(1)} ms`
      return { ...about(first, second), verdict: 'overlaps', what, from: first.from, to: second.from + ms }
    }),
    ...interleavingsIn(locks),
    ...staleTokensIn(locks).map(({ first, second }): Judged => {
      const what = `${first.lock}: token ${second.token} after ${first.token}`
      return { ...about(first, second), verdict: 'staleTokens', what, from: second.from, to: second.to }
    }),
    ...staleWritesIn(locks),
    ...semaphores.flatMap((name) =>
      crowdsIn(
        sections.filter(({ lock }) => lock === name),
        MOST_INSIDE,
      ).map(({ belief: { lock, from, to }, inside }): Judged => {
        const all = sections.filter((one) => one.lock === lock && one.from < to && from < one.to)
        return { ...about(...all), verdict: 'crowds', lock, what: `${lock}: ${inside} inside`, from, to }
      }),
    ),
  ].map(({ isForeign, ...finding }) => declared(finding, evidence, isForeign ? 'counts' : 'locks'))
}

/** Redisson confirms less than Holdfast does, so its part in a finding is excused by any fault in which data is lost. */
interface Judged extends Finding {
  readonly isForeign?: boolean
}

function about(...involved: readonly Section[]): { lock: string; isForeign: boolean } {
  return { lock: involved[0]?.lock ?? '', isForeign: involved.some(({ kind }) => kind.startsWith('java ')) }
}

/** Marks a finding as declared if a fault in its time lost `what`. */
export function declared(
  finding: Finding,
  { faults, leaseMs }: Pick<Evidence, 'faults' | 'leaseMs'>,
  what: 'counts' | 'locks',
): Finding {
  const { from = 0, to = Number.POSITIVE_INFINITY } = finding
  const isExcused = faults.some(
    ({ forgets, ...fault }) =>
      (forgets === 'locks' || (forgets !== undefined && forgets === what)) &&
      fault.from < to &&
      from < fault.to + leaseMs,
  )
  return isExcused ? { ...finding, isDeclared: true } : finding
}

/** Accesses within certain holds, in the order of the record: those of two owners must not be interleaved. */
function interleavingsIn(sections: readonly Section[]): Judged[] {
  const spans = sections.flatMap((section) => {
    const { access } = section
    if (!access?.isAccepted || !access.isCertain || access.last === undefined) return []
    return [{ ...section, section, from: access.first, to: access.last }]
  })
  return overlapsIn(spans).map(({ first: { section: first }, second: { section: second } }) => {
    const what = `${first.lock}: ${inWords(second)} read before ${inWords(first)} wrote`
    const [from, to] = [Math.min(first.from, second.from), Math.max(first.to, second.to)]
    return { verdict: 'interleavings', lock: first.lock, what, from, to }
  })
}

/** Writes with a token, in the order of the record. */
function staleWritesIn(sections: readonly Section[]): Judged[] {
  const writes = sections
    .flatMap((section) => {
      const { access, token } = section
      return access?.isAccepted && access.last !== undefined && token ? [{ section, at: access.last }] : []
    })
    .map(({ section, at }) => ({ ...section, section, from: at }))
  const outOfOrder = staleTokensIn(writes).map(({ first, second: { section: second } }): Finding => {
    const what = `${first.lock}: a write with token ${second.token} after one with ${first.token}`
    return { verdict: 'staleWrites', lock: first.lock, what, from: second.from, to: second.to }
  })
  const overwriting = writes
    .filter(({ access }) => access?.isOverwriting)
    .map(({ section: { lock, token, from, to } }): Finding => {
      return { verdict: 'staleWrites', lock, what: `${lock}: the write with token ${token} lost an update`, from, to }
    })
  return [...outOfOrder, ...overwriting]
}

export function processOf(worker: number): string {
  return worker === 0 ? 'the JVM' : `process ${worker}`
}

function inWords({ kind, worker, token }: Section): string {
  return `${kind} in ${processOf(worker)}${token ? ` with token ${token}` : ''}`
}
