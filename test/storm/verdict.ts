import { type Belief, crowdsIn, overlapsIn, staleTokensIn } from '../support/beliefs.js'
import { MOST_INSIDE, PERMITS, SEMAPHORE } from './messages.js'

/** What a worker reported that it held. */
export interface Section extends Belief {
  readonly kind: string
  to: number
}

/** The result of a storm. */
export interface Verdict {
  readonly seconds: number
  readonly seed: number
  readonly isControl: boolean
  readonly sections: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly overlaps: number
  readonly longestOverlapMs: number
  readonly staleTokens: number
  /** More inside than there are permits. */
  readonly crowds: number
  /** The final number of permits, of each semaphore that had three. */
  readonly permits: Readonly<Record<string, number>>
  readonly keysLeft: readonly string[]
  readonly neverSettled: readonly string[]
  readonly failures: readonly string[]
  readonly errors: Readonly<Record<string, number>>
  /** The first few violations, as text. */
  readonly findings: readonly string[]
}

const COUNTED = [PERMITS, SEMAPHORE]
const MOST_FINDINGS = 10

/** The violations in what workers believed. */
export function judge(
  sections: readonly Section[],
): Pick<Verdict, 'sections' | 'overlaps' | 'longestOverlapMs' | 'staleTokens' | 'crowds' | 'findings'> {
  const locks = sections.filter(({ lock }) => !COUNTED.includes(lock))
  const overlaps = overlapsIn(locks)
  const stale = staleTokensIn(locks)
  const crowds = COUNTED.flatMap((name) =>
    crowdsIn(
      sections.filter(({ lock }) => lock === name),
      MOST_INSIDE,
    ),
  )
  const findings = [
    ...overlaps.map(
      ({ first, second, ms }) => `${first.lock}: ${first.kind} and ${second.kind} for ${ms.toFixed(1)} ms`,
    ),
    ...stale.map(({ first, second }) => `${first.lock}: token ${second.token} after ${first.token}`),
    ...crowds.map(({ belief, inside }) => `${belief.lock}: ${inside} inside`),
  ]
  return {
    sections: countBy(sections, ({ kind }) => kind),
    overlaps: overlaps.length,
    longestOverlapMs: Math.round(Math.max(0, ...overlaps.map(({ ms }) => ms))),
    staleTokens: stale.length,
    crowds: crowds.length,
    findings: findings.slice(0, MOST_FINDINGS),
  }
}

/** The control has to find overlaps. */
export function isPassed(verdict: Verdict): boolean {
  if (verdict.isControl) return verdict.overlaps > 0
  const { overlaps, staleTokens, crowds, permits, keysLeft, neverSettled, failures } = verdict
  const isConserved = COUNTED.every((name) => permits[name] === MOST_INSIDE)
  const found = overlaps + staleTokens + crowds + keysLeft.length + neverSettled.length + failures.length
  return found === 0 && isConserved && Object.keys(verdict.sections).length > 0
}

/** For a terminal. */
export function table(verdict: Verdict): string {
  const { sections, faults, permits } = verdict
  const sum = (counts: Readonly<Record<string, number>>) =>
    Object.values(counts).reduce((total, count) => total + count, 0)
  const each = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  const list = (found: readonly string[]) =>
    found.length > 0 ? `${found.length}: ${found.slice(0, 10).join('; ')}` : '0'
  const rows = [
    ['sections', `${sum(sections)}: ${each(sections)}`],
    ['faults', `${sum(faults)}: ${each(faults)}`],
    ['overlaps', verdict.overlaps > 0 ? `${verdict.overlaps}, up to ${verdict.longestOverlapMs} ms` : '0'],
    ['stale tokens', String(verdict.staleTokens)],
    ['more inside than permits', String(verdict.crowds)],
    ['permits in the end', each(permits)],
    ['keys left', list(verdict.keysLeft)],
    ['calls that never settled', list(verdict.neverSettled)],
    ['other failures', list(verdict.failures)],
    ['errors of calls', `${sum(verdict.errors)}: ${each(verdict.errors)}`],
  ] as const
  const width = Math.max(...rows.map(([title]) => title.length))
  return [...rows.map(([title, text]) => `${title.padEnd(width)}  ${text}`), ...verdict.findings].join('\n')
}

function countBy<T>(all: readonly T[], of: (one: T) => string): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const one of all) counts[of(one)] = (counts[of(one)] ?? 0) + 1
  return counts
}
