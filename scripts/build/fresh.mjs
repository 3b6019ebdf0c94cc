// Builds dist/ unless it is already what the sources say.
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from '../run.mjs'

/** The sources of dist/. */
const SOURCES = ['src', 'ui', 'scripts/build', 'scripts/lua', 'scripts/build.mjs', 'package.json', 'tsconfig.json']
/** The build empties dist/ first and writes this file last: an interrupted build leaves none. */
const LAST = join(root, 'dist', 'dashboard', 'page', 'licenses.txt')

/** Ends the process if the build fails. Its output goes to stderr: it is progress, not a result. */
export function ensureDist() {
  if (isStale()) run(process.execPath, ['scripts/build.mjs'], { stdio: ['ignore', 2, 2] })
}

function isStale() {
  if (!existsSync(LAST)) return true
  const builtAt = statSync(LAST).mtimeMs
  // Folders count as well: a file may have been deleted.
  const paths = SOURCES.flatMap((source) => [source, ...within(source)])
  return paths.some((path) => !path.endsWith('generated.ts') && statSync(join(root, path)).mtimeMs > builtAt)
}

function within(source) {
  const path = join(root, source)
  return statSync(path).isDirectory() ? readdirSync(path, { recursive: true }).map((file) => join(source, file)) : []
}
