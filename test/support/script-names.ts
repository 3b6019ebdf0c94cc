import { SCRIPTS as PLAIN } from '../../src/lua/generated.js'
import type { Script } from '../../src/lua/script.js'
import { forMany } from '../../src/lua/variants.js'

/** Our scripts, and their variants for batches. */
export const SCRIPTS: readonly Script[] = PLAIN.flatMap((script) => [script, forMany(script)])

/** Their names (`fair-lock/acquire`) by SHA-1. */
export const SCRIPT_NAMES: ReadonlyMap<string, string> = new Map(SCRIPTS.map(({ sha1, name }) => [sha1, name]))
