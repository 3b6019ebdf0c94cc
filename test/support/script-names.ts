import { SCRIPTS } from '../../src/lua/generated.js'
import { forMany } from '../../src/lua/variants.js'

/** The names of our scripts (`fair-lock/acquire`) and of their variants for batches, by SHA-1. */
export const SCRIPT_NAMES: ReadonlyMap<string, string> = new Map(
  SCRIPTS.flatMap((script) => [script, forMany(script)].map(({ sha1, name }) => [sha1, name] as const)),
)
