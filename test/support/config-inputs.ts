/** Small configuration files, and what Holdfast and Redisson make of each: `test/fixtures/config-inputs.json`. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../../src/config/load.js'
import { checkConfig, KEYS, type Section } from '../../src/config/schema.js'
import { ConfigError } from '../../src/index.js'

export const TABLE = 'test/fixtures/config-inputs.json'

/** The values that have an effect, by key, each as text. */
type Values = Readonly<Record<string, string>>

/** One file. */
export interface Row {
  readonly text: string
  /** `accepted`, perhaps with the keys that are ignored, or the message of the error. */
  readonly holdfast: string
  readonly reads?: Values
  /** `accepted`, or why not: the newest Redisson that `scripts/verify/interop.mjs` names. */
  readonly java: string
  /** Where Java reads another value than Holdfast. */
  readonly javaReads?: Values
  /** Why the two differ, if they do. */
  readonly because?: string
}

/** The variables that the files find. */
export const ENV = {
  T_HOST: '127.0.0.1',
  T_PORT: '22000',
  T_NODES: 'redis://127.0.0.1:7001, redis://127.0.0.1:7002',
  NODES: 'redis://127.0.0.1:7001,redis://127.0.0.1:7002',
}

export function readTable(): Record<string, Row> {
  return JSON.parse(readFileSync(TABLE, 'utf8')) as Record<string, Row>
}

export const isAccepted = (verdict: string): boolean => verdict.startsWith('accepted')

/** What `act` makes of each file, in a folder of its own for as long as that takes. */
export async function eachFile<T>(
  table: Readonly<Record<string, Row>>,
  act: (file: string, name: string, row: Row) => Promise<T>,
): Promise<T[]> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-config-inputs-'))
  try {
    const results: T[] = []
    for (const [name, row] of Object.entries(table)) {
      const file = join(folder, name)
      writeFileSync(file, row.text)
      results.push(await act(file, name, row))
    }
    return results
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** What Holdfast makes of a file. */
export async function readByHoldfast(file: string): Promise<{ verdict: string; reads: Values; section?: Section }> {
  try {
    const { section, top, server, ignored } = checkConfig(await loadConfig(file, { env: ENV }))
    const paths = ignored.map(({ path }) => path).join(', ')
    return {
      section,
      verdict: paths === '' ? 'accepted' : `accepted, ignored: ${paths}`,
      reads: { ...valuesOf(top, ''), ...valuesOf(server, section) },
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    // Without the place of the file, and of the error in it, which older versions of Node do not tell.
    const verdict = error.message.replace(/^\/.*\//, '').replace(/; there is a syntax error at .*/, '')
    return { verdict, reads: {} }
  }
}

function valuesOf(values: Readonly<Record<string, unknown>>, section: Section | ''): Values {
  const used = Object.entries(values).filter(
    ([key, value]) => value !== undefined && value !== null && KEYS[section]?.[key]?.isUsed,
  )
  return Object.fromEntries(used.map(([key, value]) => [section === '' ? key : `${section}.${key}`, textOf(value)]))
}

/** As the Java side writes values. */
function textOf(value: unknown): string {
  const { class: name } = Object(value) as { class?: string }
  if (typeof name === 'string') return name.split('.').at(-1) ?? ''
  return Array.isArray(value) ? value.map(String).sort().join(',') : String(value)
}
