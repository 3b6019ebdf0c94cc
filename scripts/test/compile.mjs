// Compiles tests and examples into build/, and the package into dist/: only what has changed.
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ensureDist } from '../build/fresh.mjs'
import { root, run, since } from '../run.mjs'

const BUILD = join(root, 'build')
/** Their output is progress, not a result. */
const OPTIONS = { stdio: ['ignore', 2, 2] }

/**
 * Ends the process if that fails.
 * @param needsDist  whether the tests use the package as it is published, and not only its sources
 */
export function compileTests({ needsDist = true } = {}) {
  if (needsDist || !existsSync(join(root, 'dist'))) ensureDist()
  const start = performance.now()
  for (const script of ['embed', 'translate']) run(process.execPath, [`scripts/lua/${script}.mjs`], OPTIONS)
  run('tsc', ['-p', 'tsconfig.test.json'], OPTIONS)
  removeOrphans()
  console.error(`Compiled tests and examples in ${since(start)}`)
}

/** Removes the output of files that are gone. */
function removeOrphans() {
  for (const folder of ['src', 'test', 'examples']) {
    for (const file of readdirSync(join(BUILD, folder), { recursive: true })) {
      const source = join(root, folder, file.replace(/\.js(\.map)?$/, '.ts'))
      if (/\.js(\.map)?$/.test(file) && !existsSync(source)) rmSync(join(BUILD, folder, file))
    }
  }
}
