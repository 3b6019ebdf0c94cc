import * as scripts from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
import { forMany } from '../../src/lua/variants.js'

/** The names of our scripts (`fair-lock/acquire`) and of their variants for batches, by SHA-1. */
export const SCRIPT_NAMES: ReadonlyMap<string, string> = new Map(
  Object.values(scripts).flatMap((call) => {
    const { script } = (call as (...args: string[]) => ScriptCall)(...new Array<string>(10).fill(''))
    return [script, forMany(script)].map(({ sha1, name }) => [sha1, name] as const)
  }),
)
