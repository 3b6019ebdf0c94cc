// node scripts/build/exports.mjs: writes `exports` and `typesVersions` of package.json. `npm run check` compares them.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../run.mjs'

/** The entries that programs can import and require, with their modules in src/. */
const ENTRIES = {
  '.': 'index',
  './ioredis': 'adapters/ioredis/port',
  './node-redis': 'adapters/node-redis/port',
  './valkey-glide': 'adapters/valkey-glide/port',
  './bun': 'adapters/bun/port',
  './http': 'adapters/http/port',
  './config': 'config/load',
  './nestjs': 'nestjs/index',
  './opentelemetry': 'telemetry/opentelemetry',
  './prometheus': 'telemetry/prometheus',
  './testing': 'testing/index',
  './dashboard': 'dashboard/dashboard',
}
/** Node from 22.12, Bun, bundlers and Node before take the ES module; only `require` of older tools the other one. */
const ESM_CONDITIONS = ['module-sync', 'bun', 'module', 'import']
/** Vercel and Next.js, Cloudflare. */
const EDGE_CONDITIONS = ['edge-light', 'workerd']
/** What they get: an entry of their own, or the same as all. The import of any other fails, and says why. */
const ON_EDGE = { '.': target('edge/index'), './http': undefined }

/** @returns pkg with both */
export function withExports(pkg) {
  const exports = Object.fromEntries(
    Object.entries(ENTRIES).map(([name, module]) => [name, conditionsOf(name, module)]),
  )
  exports['./edge'] = target('edge/index')
  exports['./watchdog-thread'] = target('watchdog-thread')
  exports['./package.json'] = './package.json'
  // For TypeScript with moduleResolution node10, which does not read `exports`.
  const old = Object.entries(ENTRIES).filter(([name]) => name !== '.')
  old.push(['./edge', 'edge/index'])
  const types = Object.fromEntries(old.map(([name, module]) => [name.slice(2), [target(`cjs/${module}`).types]]))
  return { ...pkg, exports, typesVersions: { '*': types } }
}

function conditionsOf(name, module) {
  const onEdge = name in ON_EDGE ? ON_EDGE[name] : './dist/edge/unsupported.cjs'
  const edge = Object.fromEntries(EDGE_CONDITIONS.map((condition) => [condition, onEdge]))
  const esm = Object.fromEntries(ESM_CONDITIONS.map((condition) => [condition, target(module)]))
  return { ...edge, ...esm, require: target(`cjs/${module}`) }
}

function target(module) {
  return { types: `./dist/${module}.d.ts`, default: `./dist/${module}.js` }
}

if (import.meta.filename === process.argv[1]) {
  const path = join(root, 'package.json')
  writeFileSync(path, `${JSON.stringify(withExports(JSON.parse(readFileSync(path, 'utf8'))), null, 2)}\n`)
}
