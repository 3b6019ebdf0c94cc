// The options of holdfast run.
import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { ConfigError } from '../../errors.js'
import { checkName, MIN_LEASE_MS } from '../../util/validate.js'
import { parseCommandLine } from '../command-line.js'
import { EXIT, UsageError } from '../exit-codes.js'
import { type Target, targetOf } from '../target.js'
import { parseDuration } from './duration.js'

const LOGS = ['text', 'json'] as const
const ON_LOST = ['term', 'kill', 'warn'] as const

/** The reaction to a lost lock: SIGTERM and later SIGKILL, SIGKILL immediately, or nothing. */
export type OnLost = (typeof ON_LOST)[number]

export interface RunOptions {
  lockName: string
  /** How many copies may run at once; undefined: one, by a lock. */
  permits: number | undefined
  /** The label that other processes see. */
  label: string
  /** The program and its arguments. */
  command: [string, ...string[]]
  /** The shortest time between two runs; undefined: none. */
  atLeastMs: number | undefined
  /** Longest wait; undefined: no limit. */
  waitTimeMs: number | undefined
  /** Undefined: the watchdog renews the lock. */
  leaseTimeMs: number | undefined
  onLost: OnLost
  /** From SIGTERM to SIGKILL. */
  graceMs: number
  conflictExitCode: number
  /** How often it should succeed, ms; 0: not expected any more; undefined: as recorded. */
  everyMs: number | undefined
  /** Whether `holdfast jobs` shows it. */
  isRecorded: boolean
  log: (typeof LOGS)[number]
  target: Target
  isVerbose: boolean
}

const OPTIONS = {
  permits: { type: 'string' },
  label: { type: 'string' },
  wait: { type: 'string' },
  lease: { type: 'string' },
  'at-least': { type: 'string' },
  'on-lost': { type: 'string', default: 'term' },
  grace: { type: 'string', default: '10s' },
  'conflict-exit-code': { type: 'string', default: String(EXIT.conflict) },
  every: { type: 'string' },
  'no-record': { type: 'boolean', default: false },
  log: { type: 'string', default: 'text' },
  redis: { type: 'string' },
  config: { type: 'string' },
  verbose: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/**
 * @param args  the command line after the word `run`
 * @returns undefined if help was asked for
 * @throws {UsageError} it is invalid
 */
export function parseRunOptions(args: string[], env: NodeJS.ProcessEnv): RunOptions | undefined {
  const [ours, [program, ...programArgs]] = split(args)
  const { values, positionals } = parseCommandLine({ args: ours, options: OPTIONS, allowPositionals: true })
  if (values.help) return undefined
  const [lockName] = positionals
  if (lockName === undefined) throw new UsageError('no lock name')
  if (program === undefined) throw new UsageError('no program to run')
  const atLeastMs =
    values['at-least'] === undefined ? undefined : parseDuration('--at-least', values['at-least'], MIN_LEASE_MS)
  if (atLeastMs !== undefined && values.permits !== undefined) {
    throw new UsageError('--at-least: is for one copy at a time, not for --permits')
  }
  if (values.every !== undefined && values['no-record']) {
    throw new UsageError('--every: is a part of the record, which --no-record turns off')
  }
  // A job that waited for its period to end would run again in the next one.
  const wait = values.wait ?? (atLeastMs === undefined ? undefined : '0')
  return {
    lockName: checkedName(lockName),
    permits: values.permits === undefined ? undefined : parsePermits(values.permits),
    // Without the arguments, which may be secret.
    label: values.label ?? `${hostname()}: ${program}`,
    command: [program, ...programArgs],
    atLeastMs,
    waitTimeMs: wait === undefined ? undefined : parseDuration('--wait', wait, 0),
    leaseTimeMs: values.lease === undefined ? undefined : parseDuration('--lease', values.lease, 1),
    onLost: parseOnLost(values['on-lost']),
    graceMs: parseDuration('--grace', values.grace, 0),
    conflictExitCode: parseExitCode(values['conflict-exit-code']),
    everyMs: values.every === undefined ? undefined : parseDuration('--every', values.every, 0),
    isRecorded: !values['no-record'],
    log: parseLog(values.log),
    target: targetOf(values, env),
    isVerbose: values.verbose,
  }
}

/** The command begins after `--`, or with the second word that is neither an option nor the value of one. */
function split(args: string[]): [ours: string[], command: string[]] {
  const { tokens } = parseArgs({ args, options: OPTIONS, strict: false, allowPositionals: true, tokens: true })
  let words = 0
  for (const { kind, index } of tokens) {
    if (kind === 'option-terminator') return [args.slice(0, index), args.slice(index + 1)]
    if (kind === 'positional' && ++words === 2) return [args.slice(0, index), args.slice(index)]
  }
  return [args, []]
}

function checkedName(lockName: string): string {
  try {
    return checkName(lockName)
  } catch (error) {
    throw error instanceof ConfigError ? new UsageError(error.message) : error
  }
}

function parseOnLost(text: string): OnLost {
  const onLost = ON_LOST.find((known) => known === text)
  if (onLost) return onLost
  throw new UsageError(`--on-lost: expected ${ON_LOST.join(', ')}, not ${JSON.stringify(text)}`)
}

function parseLog(text: string): RunOptions['log'] {
  const log = LOGS.find((known) => known === text)
  if (log) return log
  throw new UsageError(`--log: expected ${LOGS.join(' or ')}, not ${JSON.stringify(text)}`)
}

function parsePermits(text: string): number {
  const permits = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (permits > 0) return permits
  throw new UsageError(`--permits: expected a whole number of at least 1, not ${JSON.stringify(text)}`)
}

function parseExitCode(text: string): number {
  const code = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (code <= 255) return code
  throw new UsageError(`--conflict-exit-code: expected a number from 0 to 255, not ${JSON.stringify(text)}`)
}
