// src → dist (ESM) and dist/cjs (CommonJS). `--check` refuses a stale src/lua/generated.ts instead of writing it anew.
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, run, since } from './run.mjs'

const start = performance.now()
const check = process.argv.includes('--check') ? ['--check'] : []
run(process.execPath, ['scripts/embed-lua.mjs', ...check])

rmSync(join(root, 'dist'), { recursive: true, force: true })
run('tsc', ['-p', 'tsconfig.json'])
buildCommonJs()
buildTypes()

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
  writeFileSync(connect, text.replace('import.meta.url', "pathToFileURL(__dirname + '/../connect.js').href"))

  run('tsc', ['-p', 'tsconfig.cjs.json'])
  writeFileSync(join(root, 'dist', 'cjs', 'package.json'), '{ "type": "commonjs" }\n')
}

/** One set of types, those of CommonJS, which ESM can import as well. Only what the entries reach is published. */
function buildTypes() {
  run('tsc', ['-p', 'tsconfig.cjs.json', '--declaration', '--emitDeclarationOnly', '--removeComments', 'false'])
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const kept = new Set()
  for (const [, target] of Object.entries(exports).filter(([, { require }]) => require)) {
    const types = target.require.types
    keep(join(root, types), kept)
    const depth = types.split('/').length - 3
    const facade = `${'../'.repeat(depth - 1) || './'}${types.replace('./dist/', '').replace(/d\.ts$/, 'js')}`
    writeFileSync(join(root, target.import.types), `export * from '${facade}'\n`)
  }
  writeFileSync(join(root, 'dist', 'watchdog-thread.d.ts'), 'export {}\n')
  for (const file of readdirSync(join(root, 'dist', 'cjs'), { recursive: true })) {
    const path = join(root, 'dist', 'cjs', file)
    if (path.endsWith('.d.ts') && !kept.has(path)) rmSync(path)
  }
}

function keep(path, kept) {
  if (kept.has(path)) return
  kept.add(path)
  for (const [, to] of readFileSync(path, 'utf8').matchAll(/(?:from |import\()'(\.[^']+)\.js'/g)) {
    keep(join(path, '..', `${to}.d.ts`), kept)
  }
}
