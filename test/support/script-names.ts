import * as scripts from '../../src/lua/generated.js'
import type { Script, ScriptCall } from '../../src/lua/script.js'
import { forCluster, forMany, forOnce, inTime } from '../../src/lua/variants.js'

const { SCRIPTS: PLAIN, ONCE: _part, ...makers } = scripts

/** A script in all the forms in which it is sent, to one server or to a cluster. */
export function formsOf(script: Script): readonly Script[] {
  return [script, forOnce(script)]
    .flatMap((form) => [form, forMany(form)])
    .flatMap((form) => [form, forCluster(form)])
    .flatMap((form) => [form, inTime(form)])
}

/** Our scripts in all their forms. */
export const SCRIPTS: readonly Script[] = PLAIN.flatMap(formsOf)

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
