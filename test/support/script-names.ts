import * as scripts from '../../src/lua/generated.js'
import type { Script, ScriptCall } from '../../src/lua/script.js'
import { forMany, forOnce, inTime } from '../../src/lua/variants.js'

const { SCRIPTS: PLAIN, ...makers } = scripts

/** Our scripts, and their variants on one server. */
export const SCRIPTS: readonly Script[] = PLAIN.flatMap((script) =>
  [script, forOnce(script)].flatMap((form) => [form, forMany(form)]).flatMap((form) => [form, inTime(form)]),
)

/** Their names (`fair-lock/acquire`) by SHA-1. */
export const SCRIPT_NAMES: ReadonlyMap<string, string> = new Map(SCRIPTS.map(({ sha1, name }) => [sha1, name]))

/** Makes a call of a script from its parameters. */
export type Maker = (...values: unknown[]) => ScriptCall

/** One for each script. */
export const MAKERS = Object.values(makers).filter((make) => typeof make === 'function') as unknown as readonly Maker[]

/** The names of its parameters: `keys` and `args` if it takes any number of keys. */
export function parametersOf(make: Maker): readonly string[] {
  return /\(([^)]*)\)/.exec(make.toString())?.[1]?.split(/, */) ?? []
}
