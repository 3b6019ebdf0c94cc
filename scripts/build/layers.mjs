// Which modules load together. Left to itself, esbuild makes a file of every set of entries that share a module: dozens.
import { join, relative } from 'node:path'
import { build } from 'esbuild'
import { root } from '../run.mjs'

/**
 * What `connect` loads, also on edge runtimes, from the bottom up: what adapters and the watchdog thread share with it,
 * locks, the rest. A layer is these modules, with what they import and no layer below has.
 */
const LAYERS = [
  /^src\/(adapters|config|watchdog-thread)\b/,
  /^src\/(locks|waiting)\//,
  /^src\/(client|fencing|locks\/red-lock)\.ts/,
]

/** Not worth a file of their own, which they would be: the layers do not need them. */
const TINY = ['src/util/unusual-servers.ts', 'src/util/timeout.ts', 'src/util/similar.ts']
/** Nor is the second: it goes with the first, which one more adapter needs. */
const BESIDE = ['src/adapters/replaceable-port.ts', 'src/adapters/cluster-master-status.ts']

/**
 * Whoever needs a module of a layer loads it whole, with those below.
 * @param entryPoints  of the whole package
 * @returns what to append to a module, so that esbuild sees that it reaches a layer. These imports are not in the bundle:
 *   package.json says that modules have no effects
 */
export async function layersOf(entryPoints) {
  const options = { absWorkingDir: root, entryPoints, bundle: true, splitting: true, format: 'esm', outdir: 'dist' }
  const { metafile } = await build({ ...options, platform: 'node', packages: 'external', write: false, metafile: true })
  const importsOf = (module) =>
    metafile.inputs[module].imports
      .filter(({ kind, external }) => kind === 'import-statement' && !external)
      .map(({ path }) => path)
  const reach = (modules, found = new Set()) => {
    for (const module of modules) if (!found.has(module)) reach(importsOf(module), found.add(module))
    return found
  }

  const reached = LAYERS.map((pattern) => reach(Object.keys(metafile.inputs).filter((module) => pattern.test(module))))
  const shared = TINY.reduce((modules, one) => modules.add(one), reached.at(-1))
  const layerOf = (module) => (shared.has(module) ? reached.findIndex((modules) => modules.has(module)) : -1)
  const appendices = LAYERS.map((_, layer) => {
    const modules = [...shared].filter((module) => layerOf(module) <= layer)
    const imported = new Set(modules.flatMap(importsOf))
    const roots = modules.filter((module) => !imported.has(module))
    return roots.map((module) => `\nimport ${JSON.stringify(join(root, module))}`).join('')
  })
  return (path) => {
    const module = relative(root, path)
    const beside = module === BESIDE[0] ? `\nimport ${JSON.stringify(join(root, BESIDE[1]))}` : ''
    return shared.has(module) ? '' : beside + (appendices[Math.max(...[...reach([module])].map(layerOf))] ?? '')
  }
}
