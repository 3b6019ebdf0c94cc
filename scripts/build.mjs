// src → dist (ESM) and dist/cjs (CommonJS).
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { build, transform } from 'esbuild'
import { layersOf } from './build/layers.mjs'
import { buildUi } from './build/ui.mjs'
import { capture, fail, root, run, since } from './run.mjs'

const DIST = join(root, 'dist')
const CJS = join(DIST, 'cjs')
const start = performance.now()
run(process.execPath, ['scripts/lua/embed.mjs'])
run(process.execPath, ['scripts/lua/translate.mjs'])

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
/** Few step through anything but locks. A file is left readable if most of it is this. */
const READABLE = /^src\/(locks|waiting)\//
/** Users meet none of the names of functions and classes in them. */
const NAMELESS =
  /^src\/((cli|config|dashboard|doctor|fleet|lua|telemetry|util|wire|testing(?!\/(index|test-)))\/|errors|warnings)/
/** The entries that can be required as well as imported. */
const entries = Object.values(exports).filter((target) => target.require)
/** Programs of their own, which no entry imports: started by name, or as a process or a thread. */
const PROGRAMS = ['watchdog-thread.js', 'cli/main.js', 'cli/demo/flash-sale-worker.js']
const ESM = [
  ...entries.map(({ import: { default: file } }) => file.replace('./dist/', '')),
  'edge/index.js',
  ...PROGRAMS,
]
/** Who connects loads the entry, so that it is one file with `connect`, which edge runtimes must not load. */
const CONNECT = join(root, 'src', 'connect.ts')
/** Generated code that ESM and CommonJS share. */
const SHARED = ['lua/generated.js', 'testing/engine.js']
/** What stands for `import.meta.url` until it is known in which file of dist the code ends up. */
const FILE = /__file\("([^"]+)"\)/g

const SHAPE = { platform: 'node', target: 'es2022', minify: true, keepNames: true, lineLimit: 160 }

/** Types that no user meets: without their comments. Of the Redis in memory, users meet `TestRedis` and its time. */
const INTERNAL_TYPES =
  /^(delivery|lua|util|waiting|watchdog|locks\/kinds)\/|^adapters\/(?!\S+\/port\.)|^config\/(address|checks|delay|ports|tls)\.d\.ts$|^dashboard\/totals\.|^fleet\/client-info\.|^locks\/(context|joint-lock|lease|lease-registry|breaking\/mark|reporting\/recent-losses)\.d\.ts$|^testing\/(?!index|test-)|^wire\/(?!names\.)/

rmSync(DIST, { recursive: true, force: true })
const layers = await layersOf(ESM.map(sourceOf))
const { readable, others } = await bundleEsm()
for (const [path, code] of readable) write(path, withoutDocs(code))
buildTypes()
format()
for (const [path, code, options] of others) write(path, (await minify(code, path, options)).code)
await buildCommonJs()
await buildEdge()
await buildUi()
setModes()
console.log(`Built dist in ${since(start)}`)

/** One set of types, those of CommonJS, which ESM can import as well. Only what the entries reach is published. */
function buildTypes() {
  const declarations = ['--declaration', '--emitDeclarationOnly', '--removeComments', 'false', '--outDir', 'dist/cjs']
  run('tsc', ['-p', 'tsconfig.json', ...declarations])
  const kept = new Set()
  for (const { types: ofEsm } of [...entries.map((target) => target.import), exports['./edge']]) {
    const types = ofEsm.replace('./dist/', './dist/cjs/')
    keep(join(root, types), kept)
    const depth = types.split('/').length - 3
    const facade = `${'../'.repeat(depth - 1) || './'}${types.replace('./dist/', '').replace(/d\.ts$/, 'js')}`
    write(join(root, ofEsm), `export * from '${facade}'\n`)
  }
  writeFileSync(join(DIST, 'watchdog-thread.d.ts'), 'export {}\n')
  for (const path of filesOf(CJS)) if (!kept.has(path)) rmSync(path)
  for (const path of filesOf(CJS).filter((path) => INTERNAL_TYPES.test(relative(CJS, path))))
    writeFileSync(path, withoutDocs(readFileSync(path, 'utf8')))
}

/** Editors show what the published types say; esbuild keeps the comments of members, and drops all others. */
function withoutDocs(code) {
  return code.replace(/^\s*(?:\/\*\*[\s\S]*?\*\/|\/\/ .*)\n/gm, '')
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
  const shape = ['--indent-style=tab', '--line-width=160', '--trailing-commas=none', '--bracket-spacing=false']
  const options = ['--vcs-enabled=false', ...shape]
  const { ok, output } = capture('biome', ['format', '--write', ...options, 'dist'])
  if (!ok) fail(output)
}

/**
 * Bundled, with what the entries share in a few layers: a file of its own costs half a millisecond when it is loaded, and
 * there are more than a hundred modules. Names and lines stay where people read stack traces; the rest is minified.
 */
async function bundleEsm() {
  const { outputFiles, metafile } = await bundle({
    entryPoints: ESM,
    outdir: DIST,
    metafile: true,
  })
  const [readable, others] = [[], []]
  for (const { path, text } of outputFiles) {
    const { bytes, inputs } = metafile.outputs[relative(root, path)]
    const ofThese = (pattern) =>
      Object.entries(inputs).reduce(
        (sum, [input, { bytesInOutput }]) => sum + (pattern.test(input) ? bytesInOutput : 0),
        0,
      )
    const code = withFiles(
      withShared(text, path, DIST).replace(/^\/\/ src\/.*\n/gm, ''),
      path,
      // Not `new URL('…', import.meta.url)`, for which bundlers look for a file.
      (file) => `new URL(import.meta.url?.replace(/[^/]*$/, '${file}')).href`,
    )
    if (ofThese(READABLE) > bytes / 2) readable.push([path, code])
    else others.push([path, code, { keepNames: ofThese(NAMELESS) < bytes / 2 }])
  }
  return { readable, others }
}

/**
 * Minified, because only tools that cannot load ESM by `require` use it; names of classes and functions stay. Without the
 * programs: those are ESM only.
 */
async function buildCommonJs() {
  const { outputFiles } = await bundle({
    ...SHAPE,
    entryPoints: [...entries.map(({ require }) => require.default.replace('./dist/cjs/', '')), ...SHARED],
    outdir: CJS,
  })
  for (const { path, text } of outputFiles) {
    // CommonJS knows its own file by another name.
    const code = withFiles(
      withShared(text, path, CJS),
      path,
      (file) => `require('node:url').pathToFileURL(__dirname + '/${file}').href`,
    )
    // Tools that cannot require ESM cannot `import()` either.
    const supported = { 'dynamic-import': false }
    write(path, (await minify(code, path, { keepNames: false, supported, format: 'cjs' })).code)
  }
  writeFileSync(join(CJS, 'package.json'), '{ "type": "commonjs" }\n')
}

/** What edge runtimes get of entries that cannot run there. */
async function buildEdge() {
  const { code } = await transform(readFileSync(join(root, 'src/edge/unsupported.cts'), 'utf8'), {
    loader: 'ts',
    minify: true,
  })
  write(join(DIST, 'edge', 'unsupported.cjs'), code)
}

/** Bundles modules of src, named as in dist, into memory. */
async function bundle({ entryPoints, ...options }) {
  return await build({
    ...options,
    absWorkingDir: root,
    platform: 'node',
    target: 'esnext', // `minify` lowers it: together, the helper for `using` would be a file of its own
    entryPoints: entryPoints.map(sourceOf),
    bundle: true,
    splitting: true, // which esbuild has for ESM only, so CommonJS is a second step
    format: 'esm',
    packages: 'external',
    outbase: 'src',
    write: false,
    logOverride: { 'ignored-bare-import': 'silent' }, // those that `layers` appends
    plugins: [{ name: 'files', setup }],
  })
}

/** The module of src that becomes a file of dist. */
function sourceOf(file) {
  return `src/${file.replace(/js$/, 'ts')}`
}

function setup({ onLoad, onResolve }) {
  onLoad({ filter: /\/src\/.*\.ts$/ }, load)
  onResolve({ filter: /\/connect\.js$/ }, ({ path, resolveDir, importer }) => {
    const isIt = join(resolveDir, path).replace(/js$/, 'ts') === CONNECT && importer !== join(root, 'src', 'index.ts')
    return isIt ? { path: 'index.js', external: true } : undefined
  })
  onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
    const shared = SHARED.find((file) => join(resolveDir, path) === join(root, 'src', file))
    return shared && { path: shared, external: true }
  })
}

/** Names the files that were kept apart from where they are imported. @param home  where `path` has its entry */
function withShared(text, path, home) {
  const apart = [...SHARED.map((file) => [file, CJS]), ['index.js', home]]
  return apart.reduce((code, [file, folder]) => {
    const from = relative(dirname(path), join(folder, file))
    return code.replaceAll(`"${file}"`, JSON.stringify(from.startsWith('.') ? from : `./${from}`))
  }, text)
}

function load({ path }) {
  const file = relative(join(root, 'src'), path).replace(/ts$/, 'js')
  const source = readFileSync(path, 'utf8').replaceAll('import.meta.url', `__file("${file}")`)
  return { contents: source + layers(path), loader: 'ts' }
}

/** @param urlOf  the code for the URL of a file, named from the folder of the one that has the code */
function withFiles(text, path, urlOf) {
  return text.replace(FILE, (_, file) => {
    const from = relative(dirname(path), join(DIST, file))
    return urlOf(from.startsWith('.') ? from : `./${from}`)
  })
}

async function minify(code, path, options = {}) {
  return await transform(code, { ...SHAPE, lineLimit: lineLimitOf(path), ...options })
}

function write(path, code) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, code)
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
