/** How a harness is called, and what it prints: progress to stderr, results to stdout, with `--json` the last line as JSON. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

const startedAt = performance.now()

/** What `parseArgs` returns, with `json`. Ends the process if the options are wrong. `scripts/verify` has the help. */
export function readOptions<const T extends NonNullable<ParseArgsConfig['options']>>(options: T) {
  try {
    return parseArgs({ options: { ...options, json: { type: 'boolean', default: false } } }).values
  } catch (error) {
    return fail(`${(error as Error).message}\n--help lists the options`)
  }
}

/** Another one each time, to be told if a run fails. */
export const anySeed = (): string => String(Date.now() % 1_000_000)

export function numberOf<Name extends string>(values: Readonly<Record<Name, string>>, name: Name): number {
  const number = Number(values[name])
  if (!Number.isFinite(number) || number < 0) fail(`--${name} must be a number: ${values[name]}`)
  return number
}

/** @param what  such as `topology` */
export function oneOf<T extends string>(what: string, value: string, choices: readonly T[]): T {
  return choices.find((choice) => choice === value) ?? fail(`No ${what} ${value}: there are ${choices.join(', ')}`)
}

export function listOf(value: string): string[] {
  return value.split(/[ ,]+/).filter((name) => name !== '')
}

export function fail(message: string): never {
  console.error(message)
  process.exit(2)
}

export function secondsSoFar(): number {
  return Math.round((performance.now() - startedAt) / 1_000)
}

/** Progress. */
export function note(text: string): void {
  console.error(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${text}`)
}

/** Columns, each as wide as its longest cell. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => (row[at] ?? '').length)))
  const line = (row: readonly string[]): string => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return rows.map((row) => line(row).trimEnd())
}

/** As `scripts/help.mjs` says. */
const TOO_SLOW = 3

/**
 * Ends the process.
 * @param isPassed  undefined: the machine was too slow to judge
 * @param verdict   in words
 * @param result    for `--json`
 */
export function finish(
  isPassed: boolean | undefined,
  verdict: string,
  result: object,
  { json }: { json: boolean },
): never {
  console.log(verdict)
  if (json) console.log(JSON.stringify(result))
  process.exit(isPassed === undefined ? TOO_SLOW : isPassed ? 0 : 1) // JVMs and servers that would not end, end with us
}
