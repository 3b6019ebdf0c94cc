// src → dist (ESM) and dist/cjs (CommonJS).
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { build, transform } from 'esbuild'
import { buildUi } from './build/ui.mjs'
import { capture, fail, root, run, since } from './run.mjs'

const DIST = join(root, 'dist')
const CJS = join(DIST, 'cjs')
const start = performance.now()
run(process.execPath, ['scripts/lua/embed.mjs'])
run(process.execPath, ['scripts/lua/translate.mjs'])

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
/** The modules that use import.meta.url, by the folder of dist/cjs in which their code ends up: chunks are at its top. */
const ESM_FILES = { '': '/../connect.js', dashboard: '/../../dashboard/dashboard.js' }
/** Few step through anything but the client, its locks and their waiters. */
const READABLE = ['locks', 'nestjs', 'waiting']
/** What can be required as well as imported. */
const entries = Object.values(exports).filter((target) => target.require)

rmSync(DIST, { recursive: true, force: true })
run('tsc', ['-p', 'tsconfig.json'])
buildTypes()
format()
await compactPrograms()
await buildCommonJs()
await buildUi()
setModes()
console.log(`Built dist in ${since(start)}`)

/** One set of types, those of CommonJS, which ESM can import as well. Only what the entries reach is published. */
function buildTypes() {
  const declarations = ['--declaration', '--emitDeclarationOnly', '--removeComments', 'false', '--outDir', 'dist/cjs']
  run('tsc', ['-p', 'tsconfig.json', ...declarations])
  const kept = new Set()
  for (const target of entries) {
    const types = target.require.types
    keep(join(root, types), kept)
    const depth = types.split('/').length - 3
    const facade = `${'../'.repeat(depth - 1) || './'}${types.replace('./dist/', '').replace(/d\.ts$/, 'js')}`
    writeFileSync(join(root, target.import.types), `export * from '${facade}'\n`)
  }
  writeFileSync(join(DIST, 'watchdog-thread.d.ts'), 'export {}\n')
  for (const path of filesOf(CJS)) if (!kept.has(path)) rmSync(path)
  // Users meet TestRedis and its time, and nothing else of the Redis in memory.
  for (const path of filesOf(join(CJS, 'testing')).filter((path) => !/(index|test-\w+)\.d\.ts$/.test(path)))
    writeFileSync(path, readFileSync(path, 'utf8').replace(/^ *\/\*\*[\s\S]*?\*\/\n/gm, ''))
}

function keep(path, kept) {
  if (kept.has(path)) return
  kept.add(path)
  for (const [, to] of readFileSync(path, 'utf8').matchAll(/(?:from |import\()'(\.[^']+)\.js'/g)) {
    keep(join(path, '..', `${to}.d.ts`), kept)
  }
}

/** As compact as code that people read in stack traces and debuggers can be. */
function format() {
  const options = ['--vcs-enabled=false', '--indent-style=tab', '--line-width=160']
  const { ok, output } = capture('biome', ['format', '--write', ...options, 'dist'])
  if (!ok) fail(output)
}

async function compactPrograms() {
  const folders = readdirSync(DIST).filter((name) => statSync(join(DIST, name)).isDirectory())
  const files = folders.filter((name) => !READABLE.includes(name)).flatMap((folder) => filesOf(join(DIST, folder)))
  for (const path of files.filter((path) => path.endsWith('.js'))) {
    const shape = { platform: 'node', target: 'es2022', minify: true, lineLimit: lineLimitOf(path) }
    // Users meet the names of errors and of TestRedis, and nothing else of the Redis in memory.
    const keepNames = dirname(path) !== join(DIST, 'testing') || path.endsWith('test-redis.js')
    writeFileSync(path, (await transform(readFileSync(path, 'utf8'), { ...shape, keepNames })).code)
  }
}

/**
 * Bundled, with what the entries share in chunks, and minified, because only tools that cannot load ESM by `require` use
 * it; names of classes and functions stay. Without the command line and the watchdog thread, which are programs of their
 * own: those are ESM only.
 */
async function buildCommonJs() {
  const shape = { platform: 'node', target: 'es2022', minify: true, keepNames: true, lineLimit: 160 }
  const { outputFiles } = await build({
    ...shape,
    absWorkingDir: root,
    entryPoints: entries.map(({ require }) => require.default.replace('./dist/cjs/', 'src/').replace(/js$/, 'ts')),
    bundle: true,
    splitting: true, // which esbuild has for ESM only, so CommonJS is a second step
    format: 'esm',
    packages: 'external',
    outdir: CJS,
    outbase: 'src',
    write: false,
  })
  for (const { path, text } of outputFiles) {
    const source = text.replaceAll('import.meta.url', () => {
      const esm = ESM_FILES[relative(CJS, dirname(path))]
      if (!esm) fail(`The build does not know whose import.meta.url is in ${path}`)
      // CommonJS knows its own file by another name. The thread and the page are those next to the ESM file.
      return `require('node:url').pathToFileURL(__dirname + '${esm}').href`
    })
    // Tools that cannot require ESM cannot `import()` either.
    const supported = { 'dynamic-import': false }
    const style = { ...shape, lineLimit: lineLimitOf(path), keepNames: false }
    const { code } = await transform(source, { ...style, supported, format: 'cjs' })
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, code)
  }
  writeFileSync(join(CJS, 'package.json'), '{ "type": "commonjs" }\n')
}

/** No line of the Redis in memory is for people. */
function lineLimitOf(path) {
  return basename(dirname(path)) === 'testing' ? undefined : 160
}

/** The same in every tarball, whatever the umask is. */
function setModes() {
  for (const path of filesOf(DIST)) chmodSync(path, 0o644)
  const cli = join(DIST, 'cli', 'main.js')
  if (existsSync(cli)) chmodSync(cli, 0o755)
}

function filesOf(folder) {
  return readdirSync(folder, { recursive: true })
    .map((file) => join(folder, file))
    .filter((path) => statSync(path).isFile())
}
