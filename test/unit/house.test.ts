/** Reads the source itself: what imports what, and whether every error has its code and its page. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { test } from 'node:test'

/**
 * The house, from the top floor down: a file of `src/` may import from its own floor and from below, never from above. A
 * room is a folder of `src/` or a file at its top.
 */
const FLOORS = [
  ['cli', 'nestjs'],
  ['doctor', 'testing', 'telemetry', 'dashboard'],
  ['index', 'connect', 'edge', 'open-clients', 'watchdog-thread'],
  ['config'],
  ['client'],
  ['synchronizers', 'client-events', 'client-options', 'client-context', 'shutdown', 'fleet', 'web-locks'],
  ['locks'],
  ['watchdog'],
  ['delivery', 'waiting'],
  ['adapters'],
  ['wire', 'fencing', 'warnings'],
  ['util'],
  ['lua', 'errors', 'holder-info', 'platform'],
]

const CLIENT_PACKAGES = ['ioredis', 'redis', '@valkey/valkey-glide']
/** Reads configuration files. */
const YAML = 'yaml'
const NEST_PACKAGES = ['@nestjs/common', '@nestjs/core']
const TELEMETRY_PACKAGES = ['@opentelemetry/api', 'prom-client']

/** From the compiled test in build/test/unit. */
const ROOT = new URL('../../../', import.meta.url)

interface Import {
  from: string
  /** A file of src, or the name of a package. */
  to: string
  /** `dynamic` is done when it is needed, `type` leaves nothing in the JavaScript. */
  kind: 'static' | 'dynamic' | 'type'
}

const files = readdirSync(new URL('src/', ROOT), { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts'))
const imports = files.flatMap(importsOf)
const isAdapter = (file: string): boolean => file.startsWith('adapters/') && file !== 'adapters/port.ts'

test('every source file is in a room with a floor', () => {
  const homeless = files.filter((file) => floorOf(file) === -1)
  assert.ok(homeless.length === 0, `give ${homeless.join(', ')} a floor, in FLOORS of this test`)
})

test('imports go down or stay on the same floor', () => {
  expectNone(({ from, to }) => files.includes(to) && floorOf(to) < floorOf(from))
})

test('the map in docs/architecture.md has every room', () => {
  const [, map = ''] =
    /```\nsrc\/\n([\s\S]*?)```/.exec(readFileSync(new URL('docs/architecture.md', ROOT), 'utf8')) ?? []
  const drawn = [...map.matchAll(/[\w-]+(?:\.ts|(?=\/))/g)].map(([room]) => room)
  const rooms = files.flatMap((file) => (file.includes('/') ? file.split('/').slice(0, -1) : file))
  assert.deepEqual(
    [...new Set(rooms)].filter((room) => !drawn.includes(room)),
    [],
  )
})

test('every source file begins with a comment', () => {
  const begins = (file: string): boolean =>
    /^(?:#!.*\n)?\/[/*]/.test(readFileSync(new URL(`src/${file}`, ROOT), 'utf8'))
  assert.deepEqual(
    files.filter((file) => !begins(file) && !file.endsWith('generated.ts')),
    [],
  )
})

test('no import cycles, not even of types, also in the page of the dashboard', () => {
  const page = readdirSync(new URL('ui/', ROOT))
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => `../ui/${file}`)
  const all = [...imports, ...page.flatMap(importsOf)]
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (file: string, path: string[]): void => {
    if (path.includes(file)) cycles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file) || path.includes(file)) return
    for (const { from, to } of all) if (from === file) visit(to, [...path, file])
    done.add(file)
  }
  for (const file of [...files, ...page]) visit(file, [])
  assert.ok(cycles.length === 0, cycles.join('\n'))
})

test("import 'holdfast' loads what a lock needs; the rest of the fleet, of configuration and of the thread when it is used", () => {
  const loaded = new Set<string>()
  const load = (file: string): void => {
    if (loaded.has(file)) return
    loaded.add(file)
    for (const { from, to, kind } of imports) if (from === file && kind === 'static' && files.includes(to)) load(to)
  }
  load('index.ts')
  assert.deepEqual([...loaded].filter((file) => /^(?:adapters|config|fleet|watchdog)\//.test(file)).sort(), [
    'config/misuse.ts',
    'config/ports.ts',
    // what a client tells others about itself
    'fleet/client-info.ts',
    'fleet/fleet.ts',
    'fleet/lock-channels.ts',
    'fleet/own-state.ts',
    'fleet/presence.ts',
    'fleet/protocol.ts',
    'fleet/record.ts',
    'watchdog/renewer.ts',
    'watchdog/watchdog.ts',
  ])
})

// Biome limits the lines of TypeScript.
test('no Lua file is longer than 59 lines', () => {
  const lua = readdirSync(new URL('src/lua/', ROOT), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.lua'),
  )
  const lengthOf = (file: string): number =>
    readFileSync(new URL(`src/lua/${file}`, ROOT), 'utf8')
      .trimEnd()
      .split('\n').length
  assert.deepEqual(
    lua.filter((file) => lengthOf(file) > 59),
    [],
  )
})

test('errors.ts imports nothing but types', () => {
  expectNone(({ from, kind }) => from === 'errors.ts' && kind !== 'type')
})

test('index.ts only re-exports, by name', () => {
  const other = code('index.ts').replace(/^export (type )?\{[^}]*\} from '[^']+'$/gm, '')
  assert.equal(other.trim(), '')
})

test('only config/ imports adapters, dynamically; index.ts re-exports their types, and edge/ has the one over HTTP', () => {
  expectNone(({ from, to, kind }) => {
    const allowed =
      isAdapter(from) ||
      (/^config\/(ports|open)\.ts$/.test(from) && kind !== 'static') ||
      (from === 'index.ts' && kind === 'type') ||
      (from.startsWith('edge/') && to === 'adapters/http/port.ts')
    return isAdapter(to) && !allowed
  })
})

test('only its adapter and the command line import a Redis client; config and doctor import it dynamically', () => {
  expectNone(({ from, to, kind }) => {
    const mayLoad = from.startsWith('config/') || from.startsWith('doctor/')
    const allowed = isAdapter(from) || from.startsWith('cli/') || (mayLoad && kind !== 'static')
    return CLIENT_PACKAGES.includes(to) && !allowed
  })
})

test('nothing else is imported except Node itself, Nest by its module, and what telemetry reports to', () => {
  expectNone(({ from, to }) => {
    const allowed = [
      ...files,
      ...CLIENT_PACKAGES,
      ...(from.startsWith('nestjs/') ? NEST_PACKAGES : []),
      ...(from.startsWith('telemetry/') ? TELEMETRY_PACKAGES : []),
      ...(from.startsWith('config/') ? [YAML] : []),
    ]
    return !to.startsWith('node:') && !allowed.includes(to)
  })
})

const errorClasses = [...code('errors.ts').matchAll(/^export class (\w+) extends \w+ \{([\s\S]*?)^\}/gm)].map(
  ([, name = '', body = '']) => ({ name, code: /readonly code = '(LOCK_\w+)'/.exec(body)?.[1] ?? 'no code' }),
)

test('every error class has a code of its own', () => {
  const codes = errorClasses.map((error) => error.code)
  assert.ok(codes.length > 0 && !codes.includes('no code'), codes.join())
  assert.equal(new Set(codes).size, codes.length, codes.join())
})

test('every error class keeps its name when minified, and is recognized by other copies of the package', () => {
  const [, branded = ''] = /of Object\.entries\(\{([\s\S]*?)\}\)/.exec(code('errors.ts')) ?? []
  expectNamed(wordsOf(branded), ['LockError', ...errorClasses.map((error) => error.name)])
})

test('every error class is exported from index.ts', () => {
  expectNamed(wordsOf(code('index.ts')), ['LockError', ...errorClasses.map((error) => error.name)])
})

test('every error class and code is explained in docs/errors.md', () => {
  const page = new URL('docs/errors.md', ROOT)
  assert.ok(existsSync(page), 'docs/errors.md is missing')
  expectNamed(
    wordsOf(readFileSync(page, 'utf8')),
    errorClasses.flatMap((error) => [error.name, error.code]),
  )
})

test('timers and clocks come from util/real-time.ts, except in what no test with fake timers runs', () => {
  const ofNode = /\b(?:setTimeout|clearTimeout|setInterval|clearInterval|setImmediate|queueMicrotask)\(/
  const clocks = /\bperformance\.now\(|\bprocess\.(?:nextTick|hrtime)\b/
  const wrong = files
    // and what follows fake timers on purpose
    .filter((file) => !/^(?:cli|doctor)\/|^util\/real-time|^testing\/test-time/.test(file))
    .filter((file) => {
      const text = code(file)
      return clocks.test(text) || (ofNode.test(text) && !text.includes('/real-time.js'))
    })
  assert.deepEqual(wrong, [])
})

function expectNamed(words: Set<string>, names: string[]): void {
  const missing = names.filter((name) => !words.has(name))
  assert.ok(missing.length === 0, `not named there: ${missing.join(', ')}`)
}

function floorOf(file: string): number {
  const room = file.split('/')[0]?.replace(/\.ts$/, '') ?? ''
  return FLOORS.findIndex((rooms) => rooms.includes(room))
}

function expectNone(isWrong: (found: Import) => boolean): void {
  const wrong = imports.filter(isWrong).map(({ from, to, kind }) => `${from} imports ${to} (${kind})`)
  assert.ok(wrong.length === 0, wrong.join('\n'))
}

function importsOf(from: string): Import[] {
  const text = code(from)
  const found = (to: string, kind: Import['kind']): Import => ({ from, to: resolve(from, to), kind })
  return [
    ...[...text.matchAll(/^(?:import|export) (type )?(?:[\w\s*{},$]+ from )?'([^']+)'/gm)].map(([, type, to = '']) =>
      found(to, type ? 'type' : 'static'),
    ),
    ...[...text.matchAll(/(typeof )?\bimport\(\s*'([^']+)'/g)].map(([, type, to = '']) =>
      found(to, type ? 'type' : 'dynamic'),
    ),
  ]
}

function resolve(from: string, to: string): string {
  if (!to.startsWith('.')) return to
  const file = posix.join(posix.dirname(from), to).replace(/\.js$/, '.ts')
  return existsSync(new URL(`src/${file}`, ROOT)) ? file : `${file}x`
}

function wordsOf(text: string): Set<string> {
  return new Set(text.match(/\w+/g))
}

/** A source file without its comments, which may show imports as examples. */
function code(file: string): string {
  const path = new URL(`src/${file}`, ROOT)
  if (!existsSync(path)) return ''
  return readFileSync(path, 'utf8').replace(/^\s*(\/\*[\s\S]*?\*\/|\/\/.*)$/gm, '')
}
