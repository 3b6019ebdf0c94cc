// src → dist (ESM) and dist/cjs (CommonJS). `--check` refuses a stale src/lua/generated.ts instead of writing it anew.
import { chmodSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, run, since } from './run.mjs'

const start = performance.now()
const check = process.argv.includes('--check') ? ['--check'] : []
run(process.execPath, ['scripts/embed-lua.mjs', ...check])

rmSync(join(root, 'dist'), { recursive: true, force: true })
run('tsc', ['-p', 'tsconfig.json'])
buildCommonJs()

const cli = join(root, 'dist', 'cli', 'main.js')
if (existsSync(cli)) chmodSync(cli, 0o755)
console.log(`Built dist in ${since(start)}`)

/** Without the command line and the watchdog thread, which start as programs of their own: those are ESM only. */
function buildCommonJs() {
  const source = join(root, 'src')
  const copy = join(root, '.cache', 'cjs')
  rmSync(copy, { recursive: true, force: true })
  const left = ['cli', 'doctor', 'watchdog-thread.ts'].map((path) => join(source, path))
  cpSync(source, copy, { recursive: true, filter: (path) => !left.includes(path) && !path.endsWith('.lua') })

  // CommonJS knows its own file by another name. The thread is the one that lies next to the ESM file.
  const connect = join(copy, 'connect.ts')
  const text = readFileSync(connect, 'utf8')
  if (text.split('import.meta.url').length !== 2) fail('src/connect.ts should name import.meta.url once')
  writeFileSync(connect, text.replace('import.meta.url', 'pathToFileURL(`${__dirname}/../connect.js`).href'))

  run('tsc', ['-p', 'tsconfig.cjs.json'])
  writeFileSync(join(root, 'dist', 'cjs', 'package.json'), '{ "type": "commonjs" }\n')
}
