// Compiles tests and examples into build/, and the package into dist/: only what has changed.
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root, run, since } from '../run.mjs'

const BUILD = join(root, 'build')
const DIST = join(root, 'dist')
/** What dist/ is made of. */
const SOURCES = ['src', 'ui', 'scripts/build', 'scripts/lua', 'scripts/build.mjs', 'package.json', 'tsconfig.json']
/** What they say is progress, not a result. */
const OPTIONS = { stdio: ['ignore', 2, 2] }

/**
 * Ends the process if that fails.
 * @param needsDist  whether the tests use the package as it is published, and not only its sources
 */
export function compileTests({ needsDist = true } = {}) {
  if (!existsSync(DIST) || (needsDist && isDistStale())) run(process.execPath, ['scripts/build.mjs'], OPTIONS)
  const start = performance.now()
  for (const script of ['embed', 'translate']) run(process.execPath, [`scripts/lua/${script}.mjs`], OPTIONS)
  run('tsc', ['-p', 'tsconfig.test.json'], OPTIONS)
  removeOrphans()
  console.error(`Compiled tests and examples in ${since(start)}`)
}

/** The build writes the program last. Folders count, too: a file may have been deleted. */
function isDistStale() {
  const builtAt = statSync(join(DIST, 'cli', 'main.js')).ctimeMs
  const paths = SOURCES.flatMap((source) => [source, ...within(source)])
  return paths.some((path) => !path.endsWith('generated.ts') && statSync(join(root, path)).mtimeMs > builtAt)
}

function within(source) {
  const path = join(root, source)
  return statSync(path).isDirectory() ? readdirSync(path, { recursive: true }).map((file) => join(source, file)) : []
}

/** What was compiled from files that are gone. */
function removeOrphans() {
  for (const folder of ['src', 'test', 'examples']) {
    for (const file of readdirSync(join(BUILD, folder), { recursive: true })) {
      const source = join(root, folder, file.replace(/\.js(\.map)?$/, '.ts'))
      if (/\.js(\.map)?$/.test(file) && !existsSync(source)) rmSync(join(BUILD, folder, file))
    }
  }
}
