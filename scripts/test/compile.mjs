// Compiles the package into dist/, and tests and examples into build/.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { root, run, since } from '../run.mjs'

/** Ends the process if that fails. */
export function compileTests() {
  // What they say is progress, not a result.
  const options = { stdio: ['ignore', 2, 2] }
  run(process.execPath, ['scripts/build.mjs'], options) // examples import the package by its name, so from dist
  const start = performance.now()
  rmSync(join(root, 'build'), { recursive: true, force: true })
  run('tsc', ['-p', 'tsconfig.test.json'], options)
  console.error(`Compiled tests and examples in ${since(start)}`)
}
