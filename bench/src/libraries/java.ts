import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where scripts/bench.mjs builds bench/java. */
const HOME = fileURLToPath(new URL('../../../.cache/bench/java', import.meta.url))
const CLASSES = join(HOME, 'classes')

export const CLASS_PATH = `${CLASSES}:${join(HOME, 'lib', '*')}`

/** The Java libraries, run by bench/java/src/main/java/bench/Contender.java. */
export const JAVA = {
  program: ['java', '-Xmx512m', '-cp', CLASS_PATH, 'bench.Contender'],
  missing: existsSync(join(HOME, 'sources.sha1')) ? undefined : 'not built: needs a JDK (17 or later) and Maven',
  // The JVM compiles hot code later than Node does.
  warmUpMs: 2_500,
} as const
