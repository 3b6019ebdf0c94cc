// npm run standalone -- [--executable]: the program holdfast in one file, which needs no node_modules.
//
// build/standalone/holdfast.cjs runs with Node; --executable also writes build/standalone/holdfast, which has Node inside and
// needs nothing else, on this operating system and processor.
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'
import { root, run } from '../run.mjs'
import { ltsNode } from '../setup/lts.mjs'
import { buildUi, writeLicenses } from './ui.mjs'

const OUT = join(root, 'build', 'standalone')
const FILE = join(OUT, 'holdfast.cjs')
const PAGE = join(OUT, 'page')
/** Where the file is: `import.meta.url` of its modules, which is undefined in CommonJS. */
const URL_OF_FILE = '__url_of_file'

const { values } = parseArgs({ options: { executable: { type: 'boolean', default: false } } })

/** The modules that read files beside them, or start one, and what stands for them here. */
const REPLACED = {
  'src/cli/version.ts': () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    return `export const version = () => ${JSON.stringify(version)}`
  },
  'src/dashboard/page-files.ts': () => {
    const paths = ['index.html', ...readdirSync(join(PAGE, 'assets')).map((name) => `assets/${name}`)]
    const files = paths.map((path) => [path, readFileSync(join(PAGE, path), 'base64')])
    return `export const pageFiles = () => new Map(${JSON.stringify(files)}.map(([path, text]) => [path, Buffer.from(text, 'base64')]))`
  },
  'src/cli/demo/demo.ts': () => `
    import { EXIT, Failure } from '../exit-codes.js'
    export const demo = () => {
      throw new Failure(EXIT.usage, 'the demo is not in this file: npx -p holdfast -p ioredis holdfast demo')
    }`,
}

rmSync(OUT, { recursive: true, force: true })
mkdirSync(OUT, { recursive: true })
const ofPage = await buildUi(PAGE)
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ['src/cli/main.ts'],
  outfile: FILE,
  bundle: true,
  preserveSymlinks: true, // a linked node_modules makes the same file
  platform: 'node',
  target: 'node20.19',
  format: 'cjs', // what Node can put into an executable
  external: ['@valkey/valkey-glide'], // native, and not used by the program
  banner: { js: `const ${URL_OF_FILE} = require('node:url').pathToFileURL(__filename).href` },
  define: { 'import.meta.url': URL_OF_FILE },
  minify: true,
  keepNames: true,
  lineLimit: 160,
  legalComments: 'none', // licenses.txt has them whole
  metafile: true,
  plugins: [{ name: 'replaced', setup: ({ onLoad }) => onLoad({ filter: /\/src\/.*\.ts$/ }, replace) }],
})
chmodSync(FILE, 0o755)
writeLicenses(OUT, [...ofPage, ...Object.keys(metafile.inputs)])
rmSync(PAGE, { recursive: true })
report(FILE)
if (values.executable) report(executable())

function replace({ path }) {
  const contents = REPLACED[relative(root, path)]?.()
  return contents === undefined ? undefined : { contents, loader: 'ts' }
}

/** @returns its path */
function executable() {
  const output = join(OUT, process.platform === 'win32' ? 'holdfast.exe' : 'holdfast')
  const config = join(OUT, 'sea.json')
  writeFileSync(config, JSON.stringify({ main: FILE, output, disableExperimentalSEAWarning: true, useCodeCache: true }))
  run(ltsNode(), ['--build-sea', config]) // from Node 25.5 on
  rmSync(config)
  return output
}

function report(path) {
  console.log(`${relative(root, path)}: ${(statSync(path).size / 1e6).toFixed(1)} MB`)
}
