import { aligned } from '../options.js'
import { countIn, type Tally } from '../tally.js'
import type { Tried } from './controls.js'
import type { Outcome } from './run.js'
import { type Finding, VERDICTS, type VerdictName } from './verdict.js'

/** The last line of `--json`. */
export interface Report {
  readonly seconds: number
  readonly seed: number
  readonly topology: string
  readonly acquisitions: number
  readonly faults: number
  /** What must never happen, without stale writes and stuck calls, which have numbers of their own. */
  readonly violations: number
  readonly staleWritesAccepted: number
  readonly staleWritesRefused: number
  readonly stuck: number
  /** Findings that a fault explains which loses what Redis has acknowledged. */
  readonly declared: number
  /** Every broken lock was found. */
  readonly controlsRed: boolean
  readonly recoveryMs: number
  readonly acquisitionsByKind: Readonly<Record<string, number>>
  readonly faultsByName: Readonly<Record<string, number>>
  readonly controls: readonly Tried[]
  readonly findings: readonly Finding[]
}

const MOST_FINDINGS = 20
/** Leases granted before a fault may outlive it for as long, ms. */
const RECENT_MS = 10_000

export function reportOf(
  { seconds, seed, topology }: Pick<Report, 'seconds' | 'seed' | 'topology'>,
  outcome: Outcome,
  controls: readonly Tried[],
): Report {
  const hard = outcome.findings.filter(({ isDeclared }) => !isDeclared)
  const count = (name: VerdictName): number => hard.filter(({ verdict }) => verdict === name).length
  const staleWritesAccepted = count('staleWrites')
  const stuck = count('stuck')
  return {
    ...{ seconds, seed, topology, acquisitions: outcome.acquisitions, faults: outcome.faults.length },
    violations: hard.length - staleWritesAccepted - stuck,
    ...{ staleWritesAccepted, staleWritesRefused: outcome.refused, stuck },
    declared: outcome.findings.length - hard.length,
    controlsRed: controls.length > 0 && controls.every(({ isRed }) => isRed),
    recoveryMs: Math.round(outcome.recoveryMs),
    acquisitionsByKind: countBy(outcome.sections, ({ kind }) => kind),
    faultsByName: countBy(outcome.faults, ({ name }) => name),
    controls,
    findings: outcome.findings.slice(0, MOST_FINDINGS),
  }
}

/** By how much timers were late, if the machine was too slow to judge. */
export interface Slowness {
  readonly run: string | undefined
  readonly controls: string | undefined
}

/** Whether it passed; undefined: the machine was too slow to judge, and all that is wrong did not happen in time. */
export function isPassed(report: Report, findings: readonly Finding[], slow: Slowness): boolean | undefined {
  const { acquisitions, violations, staleWritesAccepted, stuck, controlsRed } = report
  const isFine = acquisitions > 0 && violations + staleWritesAccepted + stuck === 0
  if (isFine && controlsRed) return true
  const isExcused = isFine || (slow.run !== undefined && findings.every(isLate))
  return isExcused && (controlsRed || slow.controls !== undefined) ? undefined : false
}

function isLate({ verdict, isDeclared }: Finding): boolean {
  return isDeclared === true || verdict === 'stuck' || verdict === 'keysLeft'
}

/** For a terminal. */
export function table(report: Report, outcome: Outcome): string {
  const rows: (readonly [string, string])[] = [
    ['acquisitions', `${report.acquisitions}: ${each(report.acquisitionsByKind)}`],
    ['faults', `${report.faults}: ${each(report.faultsByName)}`],
    ['every kind works again after', `${report.recoveryMs} ms`],
    ['permits in the end', each(outcome.permits)],
    ['late writes refused by the record', String(report.staleWritesRefused)],
    ['errors of calls', each(outcome.errors)],
    ['', ''],
    ...Object.entries(VERDICTS).map(([name, meaning]) => [meaning, verdictOf(name as VerdictName, outcome)] as const),
  ]
  const lines = aligned(rows)
  for (const finding of report.findings) {
    lines.push(`${finding.isDeclared ? 'declared' : 'VIOLATION'}: ${finding.what}${amid(finding, outcome)}`)
  }
  return lines.join('\n')
}

/** When it was, from the first section on, and which faults of servers came shortly before it. */
function amid({ from, to }: Finding, { sections, faults }: Outcome): string {
  if (from === undefined || to === undefined) return ''
  const began = sections.reduce((least, section) => Math.min(least, section.from), from)
  const recent = faults.filter((fault) => fault.isOfServers && fault.from < to && fault.to > from - RECENT_MS)
  const names = recent.map(({ name }) => name).join(', ')
  return ` (after ${((from - began) / 1_000).toFixed(1)} s${names === '' ? '' : `, ${names}`})`
}

export function tableOfControls(controls: readonly Tried[]): string {
  const rows = controls.map(({ name, isRed, found }) => [isRed ? 'found' : 'NOT FOUND', name, found ?? ''])
  return aligned(rows).join('\n')
}

function verdictOf(name: VerdictName, { findings }: Outcome): string {
  const found = findings.filter(({ verdict }) => verdict === name)
  const isDeclared = found.filter((one) => one.isDeclared).length
  const hard = found.length - isDeclared
  return `${hard === 0 ? 'none' : `${hard} FAILED`}${isDeclared > 0 ? `, ${isDeclared} declared` : ''}`
}

function each(counts: Readonly<Record<string, number>>): string {
  const sorted = Object.entries(counts).sort(([one], [other]) => one.localeCompare(other))
  return sorted.map(([name, count]) => `${name} ${count}`).join(', ')
}

function countBy<T>(all: readonly T[], of: (one: T) => string): Tally {
  const counts: Tally = {}
  for (const one of all) countIn(counts, of(one))
  return counts
}
