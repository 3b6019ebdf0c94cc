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
/** Vercel and Next.js, Cloudflare: the import fails, and says why. */
const EDGE_CONDITIONS = ['edge-light', 'workerd']

/** @returns pkg with both */
export function withExports(pkg) {
  const exports = Object.fromEntries(Object.entries(ENTRIES).map(([name, module]) => [name, conditionsOf(module)]))
  exports['./watchdog-thread'] = target('watchdog-thread')
  exports['./package.json'] = './package.json'
  // For TypeScript with moduleResolution node10, which does not read `exports`.
  const old = Object.entries(ENTRIES).filter(([name]) => name !== '.')
  const types = Object.fromEntries(old.map(([name, module]) => [name.slice(2), [target(`cjs/${module}`).types]]))
  return { ...pkg, exports, typesVersions: { '*': types } }
}

function conditionsOf(module) {
  const edge = Object.fromEntries(EDGE_CONDITIONS.map((condition) => [condition, './dist/edge.cjs']))
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
