// The options of the commands for operators.
import { parseCommandLine } from '../command-line.js'
import { UsageError } from '../exit-codes.js'
import { parseDuration } from '../run/duration.js'
import { type Target, targetOf } from '../target.js'

const SORTS = ['name', 'age', 'waiters'] as const
export type Sort = (typeof SORTS)[number]

const COMMON = ['redis', 'config', 'json', 'timeout', 'no-color', 'help'] as const

/** The argument and the own options of each command. */
const COMMANDS = {
  ls: { subject: 'pattern', options: ['contended', 'older-than', 'sort'] },
  who: { subject: 'lock', options: ['stack', 'trace'] },
  top: { subject: 'pattern', options: ['interval', 'once'] },
  watch: { subject: 'lock', options: ['interval'] },
  unlock: { subject: 'lock', options: ['holder', 'yes', 'grace', 'anyway', 'quarantine', 'reason'] },
  deadlocks: { subject: 'none', options: ['watch', 'interval'] },
  jobs: { subject: 'jobs', options: [] },
} as const satisfies Record<string, { subject: string; options: readonly string[] }>

export type FleetCommand = keyof typeof COMMANDS

export interface FleetOptions {
  target: Target
  json: boolean
  /** How long to wait for the replies of the clients. */
  timeoutMs: number
  hasColors: boolean
  /** The name of a lock, or a pattern of names; '' if the command was given none. */
  subject: string
  /** All arguments that are not options: the names of jobs. */
  names: readonly string[]
  contended: boolean
  olderThanMs: number
  sort: Sort
  stack: boolean
  trace: boolean
  /** How long to trace, at most. */
  traceMs: number
  /** Time between two refreshes of a command that repeats itself. Undefined: the default of the command. */
  intervalMs: number | undefined
  once: boolean
  watch: boolean
  holder: string
  yes: boolean
  graceMs: number
  anyway: boolean
  quarantineMs: number
  /** Undefined: none was given. */
  reason: string | undefined
}

const OPTIONS = {
  redis: { type: 'string' },
  config: { type: 'string' },
  json: { type: 'boolean' },
  timeout: { type: 'string' },
  'no-color': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  contended: { type: 'boolean' },
  'older-than': { type: 'string' },
  sort: { type: 'string' },
  stack: { type: 'boolean' },
  trace: { type: 'boolean' },
  interval: { type: 'string' },
  once: { type: 'boolean' },
  watch: { type: 'boolean' },
  holder: { type: 'string' },
  yes: { type: 'boolean' },
  grace: { type: 'string' },
  anyway: { type: 'boolean' },
  quarantine: { type: 'string' },
  reason: { type: 'string' },
} as const

/**
 * @param args  the command line after the command
 * @returns undefined if help was asked for
 * @throws {UsageError} it is invalid
 */
export function parseFleetOptions(
  command: FleetCommand,
  args: string[],
  env: NodeJS.ProcessEnv,
): FleetOptions | undefined {
  const { values, positionals } = parseCommandLine({ args, options: OPTIONS, allowPositionals: true })
  if (values.help) return undefined
  const { subject, options }: { subject: string; options: readonly string[] } = COMMANDS[command]
  const foreign = Object.keys(values).find((name) => ![...COMMON, ...options].includes(name))
  if (foreign !== undefined) throw new UsageError(`--${foreign} is not an option of ${command}`)
  if (subject === 'lock' && positionals.length === 0) throw new UsageError('no lock name')
  const surplus = subject === 'jobs' ? undefined : positionals[subject === 'none' ? 0 : 1]
  if (surplus !== undefined) throw new UsageError(`unexpected ${JSON.stringify(surplus)}; quote names and patterns`)
  if (command === 'unlock' && !values.holder) {
    throw new UsageError('--holder is missing: the whole holder as `holdfast who` prints it')
  }
  if (values.quarantine !== undefined && !values.anyway) throw new UsageError('--quarantine needs --anyway')
  return {
    target: targetOf(values, env),
    json: values.json ?? false,
    timeoutMs: parseDuration('--timeout', values.timeout ?? '300ms', 1),
    hasColors: !values['no-color'],
    subject: positionals[0] ?? '',
    names: positionals,
    contended: values.contended ?? false,
    olderThanMs: parseDuration('--older-than', values['older-than'] ?? '0', 0),
    sort: parseSort(values.sort ?? 'age'),
    stack: values.stack ?? false,
    trace: values.trace ?? false,
    traceMs: parseDuration('--timeout', values.timeout ?? '10s', 1),
    intervalMs: values.interval === undefined ? undefined : parseDuration('--interval', values.interval, 50),
    once: values.once ?? false,
    watch: values.watch ?? false,
    holder: values.holder ?? '',
    yes: values.yes ?? false,
    graceMs: parseDuration('--grace', values.grace ?? '2s', 0),
    anyway: values.anyway ?? false,
    quarantineMs: parseDuration('--quarantine', values.quarantine ?? '0', 0),
    reason: values.reason,
  }
}

function parseSort(text: string): Sort {
  const sort = SORTS.find((known) => known === text)
  if (sort) return sort
  throw new UsageError(`--sort: expected ${SORTS.join(', ')}, not ${JSON.stringify(text)}`)
}
