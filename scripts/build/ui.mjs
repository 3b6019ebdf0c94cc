// ui → dist/dashboard/page: the page of the dashboard in files named by their content, within a budget. Called by build.mjs.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { fail, root } from '../run.mjs'

const PAGE = join(root, 'dist', 'dashboard', 'page')
/** Maximum size of everything that a browser loads, gzipped, and of the part before somebody opens the graph. */
const MAX_BYTES = 90_000
const MAX_BYTES_WITHOUT_GRAPH = 60_000

/**
 * Ends the process if the page is over its budget.
 * @param folder  where to
 * @returns the paths of its sources
 */
export async function buildUi(folder = PAGE) {
  rmSync(folder, { recursive: true, force: true })
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { app: 'ui/app.tsx' },
    outdir: folder,
    entryNames: 'assets/[name]-[hash]',
    chunkNames: 'assets/[name]-[hash]',
    bundle: true,
    preserveSymlinks: true, // a linked node_modules makes the same page
    splitting: true,
    format: 'esm',
    target: ['chrome123', 'firefox120', 'safari17.5'], // from these on CSS has light-dark()
    jsx: 'automatic',
    jsxImportSource: 'preact',
    tsconfigRaw: {}, // that of the package is for Node
    minify: true,
    legalComments: 'none', // licenses.txt has them whole
    metafile: true,
  })
  writePage(folder)
  expectWithinBudget(folder)
  const inputs = Object.keys(metafile.inputs)
  writeLicenses(folder, inputs) // last, for scripts/build/fresh.mjs
  return inputs
}

function writePage(folder) {
  const assets = readdirSync(join(folder, 'assets'))
  const named = (pattern) => `assets/${assets.find((file) => pattern.test(file))}`
  const icon = readFileSync(join(root, 'site', 'icon.svg'), 'utf8').replace(/\s*\n\s*/g, '')
  const html = readFileSync(join(root, 'ui', 'index.html'), 'utf8')
    .replace('%ICON%', `data:image/svg+xml,${encodeURIComponent(icon)}`)
    .replace('%CSS%', named(/^app-.*\.css$/))
    .replace('%JS%', named(/^app-.*\.js$/))
  writeFileSync(join(folder, 'index.html'), html)
}

/** Writes the licences of the bundled packages: whatever is bundled is published. */
export function writeLicenses(folder, inputs) {
  const packages = new Set(inputs.flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))
  const texts = [...packages].sort().map((name) => {
    const home = join(root, 'node_modules', name)
    const file = readdirSync(home).find((one) => /^licen[cs]e/i.test(one))
    if (file === undefined) fail(`${name} has no licence to publish`)
    return `${name}\n\n${readFileSync(join(home, file), 'utf8').trim()}\n`
  })
  writeFileSync(join(folder, 'licenses.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`))
}

function expectWithinBudget(folder) {
  const sizes = readdirSync(folder, { recursive: true })
    .filter((file) => /\.(html|js|css)$/.test(file))
    .map((file) => ({ file: basename(file), bytes: gzipSync(readFileSync(join(folder, file))).length }))
  const sum = (some) => some.reduce((total, { bytes }) => total + bytes, 0)
  const all = sum(sizes)
  const withoutGraph = sum(sizes.filter(({ file }) => !file.startsWith('graph-')))
  if (all > MAX_BYTES || withoutGraph > MAX_BYTES_WITHOUT_GRAPH)
    fail(
      `The page has ${all} bytes gzipped, ${withoutGraph} without the graph; at most ${MAX_BYTES} and ` +
        `${MAX_BYTES_WITHOUT_GRAPH}:\n${sizes.map(({ file, bytes }) => `  ${bytes}  ${file}`).join('\n')}`,
    )
  console.log(`Built the page: ${all} bytes gzipped, ${withoutGraph} without the graph`)
}
