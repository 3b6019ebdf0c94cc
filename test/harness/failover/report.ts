import { aligned } from '../options.js'
import type { Round } from './rounds.js'
import { isRed, type Recovery, type Result } from './summary.js'

/** One round, while it runs. */
export function line(round: Round): string {
  const { recoveryMs, overlaps, staleTokens, leftover, errors, failures, outageMs, grants } = round
  const served = Object.entries(recoveryMs).map(([way, ms]) => `${way} ${Number.isFinite(ms) ? seconds(ms) : 'never'}`)
  const parts = [`${grants} grants`, `restored after ${seconds(outageMs)}`, `served again: ${served.join(', ')}`]
  if (overlaps.length > 0) {
    const longest = Math.max(...overlaps.map(({ ms }) => ms))
    parts.push(`${overlaps.length} OVERLAPS, up to ${longest.toFixed(1)} ms`)
  }
  if (staleTokens.length > 0) parts.push(`${staleTokens.length} STALE TOKENS`)
  const strange = Object.entries(errors).flatMap(([way, counts]) =>
    Object.keys(counts)
      .filter((name) => !name.startsWith('LOCK_'))
      .map((name) => `${way}: ${name}`),
  )
  return [...parts, ...leftover, ...failures, ...strange].join('; ')
}

/** For a terminal. */
export function table(results: readonly Result[], isControl: boolean): string {
  const header = [
    '',
    'topology',
    'fault',
    'rounds',
    'grants',
    'overlaps',
    'stale tokens',
    'leftover',
    'served again: median/slowest in s',
  ]
  const rows = results.map((result) => [
    verdictOf(result, isControl),
    result.topology,
    result.fault,
    String(result.rounds),
    String(result.grants),
    overlapsOf(result),
    String(result.staleTokens),
    String(result.leftover),
    Object.entries(result.recovery)
      .map(([way, recovery]) => `${way} ${recoveryOf(recovery)}`)
      .join(', '),
  ])
  const findings = results.flatMap(({ topology, fault, findings }) =>
    findings.map((finding) => `${topology}, ${fault}: ${finding}`),
  )
  return ['', ...aligned([header, ...rows]), '', ...findings].join('\n')
}

/** The control has to find overlaps. */
function verdictOf(result: Result, isControl: boolean): string {
  if (isControl) return result.overlaps > 0 ? 'seen' : ''
  return isRed(result) ? 'FAIL' : 'ok'
}

export function overlapsOf({ overlaps, longestOverlapMs, exception }: Result): string {
  const found = overlaps > 0 ? `${overlaps}, up to ${longestOverlapMs} ms` : '0'
  return exception === undefined || overlaps === 0 ? found : `${found} (exception)`
}

/** Median and slowest, in seconds: `0.1/1.2`. */
export function recoveryOf(recovery: Recovery | undefined): string {
  if (!recovery) return ''
  const { medianMs, slowestMs, late } = recovery
  const text = [medianMs, slowestMs].map((ms) => (ms === null ? 'never' : (ms / 1_000).toFixed(1))).join('/')
  return late > 0 ? `${text} (late: ${late})` : text
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
