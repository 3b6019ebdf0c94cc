import { countIn, type Tally } from '../tally.js'
import type { Belief, Pair } from './record.js'
import type { Round } from './rounds.js'
import type { Fault } from './topology.js'

/** The results of all rounds of one fault. */
export interface Result {
  readonly topology: string
  readonly fault: string
  readonly title: string
  readonly rounds: number
  readonly grants: number
  readonly overlaps: number
  readonly longestOverlapMs: number
  readonly staleTokens: number
  /** How often clients of a way had more connections afterwards. */
  readonly leftover: number
  readonly failures: number
  readonly limitMs: number
  /** By way to connect; null if a client did not recover. */
  readonly recovery: Readonly<Record<string, Recovery>>
  readonly longestOutageMs: number
  readonly exception: string | undefined
  readonly note: string | undefined
  readonly errors: Readonly<Record<string, number>>
  /** The first few, as text. */
  readonly findings: readonly string[]
}

export interface Recovery {
  readonly medianMs: number | null
  readonly slowestMs: number | null
  /** In how many rounds the client was late, or did not recover. */
  readonly late: number
}

const MOST_FINDINGS = 10

export function summarize(topology: string, fault: Fault, rounds: readonly Round[]): Result {
  const overlaps = rounds.flatMap((round) => round.overlaps)
  const stale = rounds.flatMap(({ staleTokens }) => staleTokens)
  const failures = rounds.flatMap((round) => round.failures)
  const leftover = rounds.flatMap((round) => round.leftover)
  const findings = [
    ...failures,
    ...leftover,
    ...rounds.flatMap((round) =>
      round.overlaps.map((pair) => `for ${pair.ms.toFixed(1)} ms ${inWords(pair, round.since)}`),
    ),
    ...rounds.flatMap((round) => round.staleTokens.map((pair) => inWords(pair, round.since))),
  ]
  const ways = Object.keys(rounds[0]?.recoveryMs ?? {})
  return {
    topology,
    fault: fault.id,
    title: fault.title,
    rounds: rounds.length,
    grants: rounds.reduce((sum, { grants }) => sum + grants, 0),
    overlaps: overlaps.length,
    longestOverlapMs: Math.round(Math.max(0, ...overlaps.map(({ ms }) => ms))),
    staleTokens: stale.length,
    leftover: leftover.length,
    failures: failures.length,
    limitMs: fault.limitMs,
    recovery: Object.fromEntries(ways.map((way) => [way, recoveryOf(way, fault, rounds)])),
    longestOutageMs: Math.round(Math.max(...rounds.map(({ outageMs }) => outageMs))),
    exception: fault.exception,
    note: fault.note,
    errors: errorsOf(rounds),
    findings: findings.slice(0, MOST_FINDINGS),
  }
}

/** Exclusion has named exceptions; recovery in time has none. */
export function isRed({ overlaps, staleTokens, leftover, failures, recovery, exception }: Result): boolean {
  const isShared = overlaps + staleTokens > 0 && exception === undefined
  return isShared || leftover + failures > 0 || Object.values(recovery).some(({ late }) => late > 0)
}

/** Times are relative to when service was possible again. */
function inWords({ first, second }: Pair, since: number): string {
  const at = (time: number) => `${Math.round(time - since)} ms`
  const held = ({ way, isFresh, holder, askedAt, from, to, token = 'none', lost = 'released' }: Belief) =>
    `${isFresh ? 'a new ' : ''}${way} (${holder.slice(-12)}, token ${token}, asked ${at(askedAt)}, ` +
    `granted ${at(from)}, ${lost} ${at(to)})`
  return `${first.lock} ${held(first)} and ${held(second)}`
}

function recoveryOf(way: string, { limitMs }: Fault, rounds: readonly Round[]): Recovery {
  const timeOf = ({ recoveryMs }: Round): number => recoveryMs[way] ?? Number.POSITIVE_INFINITY
  const times = rounds.map(timeOf).sort((a, b) => a - b)
  const rounded = (ms: number | undefined) => (ms !== undefined && Number.isFinite(ms) ? Math.round(ms) : null)
  return {
    medianMs: rounded(times[Math.floor(times.length / 2)]),
    slowestMs: rounded(times.at(-1)),
    late: rounds.filter((round) => timeOf(round) > limitMs + round.latenessMs).length,
  }
}

function errorsOf(rounds: readonly Round[]): Tally {
  const all: Tally = {}
  for (const { errors } of rounds)
    for (const [way, tally] of Object.entries(errors))
      for (const [name, times] of Object.entries(tally)) countIn(all, `${way}: ${name}`, times)
  return all
}
