import * as scripts from '../../src/lua/generated.js'
import type { Script, ScriptCall } from '../../src/lua/script.js'
import { forMany } from '../../src/lua/variants.js'

/** Our scripts, and their variants for batches. */
export const SCRIPTS: readonly Script[] = Object.values(scripts).flatMap((call) => {
  const { script } = (call as (...args: string[]) => ScriptCall)(...new Array<string>(10).fill(''))
  return [script, forMany(script)]
})

/** Their names (`fair-lock/acquire`) by SHA-1. */
export const SCRIPT_NAMES: ReadonlyMap<string, string> = new Map(SCRIPTS.map(({ sha1, name }) => [sha1, name]))
