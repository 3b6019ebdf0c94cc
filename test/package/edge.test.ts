/** The built package on edge runtimes: what it needs of them, what it costs, and that it runs with no more than that. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createContext, runInContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { type BuildOptions, build, type Metafile } from 'esbuild'
import type * as Edge from '../../src/edge/index.js'
import * as holdfast from '../../src/index.js'
import { SCRIPTS } from '../../src/lua/generated.js'
import { sha1 } from '../../src/lua/sha1.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { startUpstashFront } from '../support/servers/upstash-front.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CONDITIONS = ['edge-light', 'workerd']

/** Most that an edge runtime loads: at once, and with what the fleet and `client.locks` load later. Minified, gzipped. */
const MAX_BYTES = 86_000
const MAX_BYTES_WITH_ALL = 95_000

/** What these modules have in Next.js, which has the fewest. */
const MODULES: Readonly<Record<string, object>> = {
  'node:async_hooks': { AsyncLocalStorage, AsyncResource },
  'node:buffer': { Buffer },
  'node:events': { EventEmitter },
}

interface Bundle {
  readonly files: readonly { readonly path: string; readonly contents: Uint8Array; readonly text: string }[]
  readonly metafile: Metafile
}

async function bundled(contents: string, options: BuildOptions = {}): Promise<Bundle> {
  const { outputFiles, metafile, warnings } = await build({
    stdin: { contents, resolveDir: ROOT },
    absWorkingDir: ROOT,
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    outdir: 'out',
    platform: 'browser',
    conditions: ['workerd'],
    external: ['node:*'],
    logOverride: { 'ignored-bare-import': 'silent' }, // as for every package in node_modules
    ...options,
  })
  assert.deepEqual(warnings, [])
  return { files: outputFiles ?? [], metafile: metafile as Metafile }
}

const gzipped = (contents: Uint8Array): number => gzipSync(contents).length

/** Runs a bundle where there is nothing but what every edge runtime has. */
function loadedOnEdge(code: string, others: object = {}): typeof Edge {
  const { fetch, setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask, performance, crypto } =
    globalThis
  const { URL, AbortController, AbortSignal, TextEncoder, console } = globalThis
  const process = { env: {}, getBuiltinModule: () => assert.fail('process.getBuiltinModule is not supported') }
  const module = { exports: {} as typeof Edge }
  const require = (name: string): object => MODULES[name] ?? assert.fail(`there is no ${name}`)
  const timers = { setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask, performance }
  const web = { fetch, crypto, URL, AbortController, AbortSignal, TextEncoder, console }
  runInContext(code, createContext({ ...timers, ...web, process, module, require, ...others }))
  return module.exports
}

describe('the package on an edge runtime', () => {
  const fixture = setUpFixture(drivers[0], [])

  for (const condition of CONDITIONS) {
    it(`for ${condition} it imports three modules of Node, and of another entry says what can run`, async () => {
      const program = "export { connect } from 'holdfast'\nexport { http } from 'holdfast/http'"
      const { metafile } = await bundled(program, { conditions: [condition], format: 'esm' })
      const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path))
      assert.deepEqual([...new Set(imports)].sort(), Object.keys(MODULES))
      const refused = await bundled("import { createTestRedis } from 'holdfast/testing'\ncreateTestRedis()", {
        conditions: [condition],
      })
      assert.deepEqual(Object.keys(refused.metafile.inputs), ['dist/edge/unsupported.cjs', '<stdin>'])
      const [{ text = '' } = {}] = refused.files
      assert.throws(() => runInContext(text, createContext({})), { message: /^this part of Holdfast.*edge runtime/ })
    })
  }

  it('it exports what the package exports elsewhere, and http', async () => {
    const { files } = await bundled("export * from 'holdfast/edge'", { format: 'cjs' })
    const names = Object.keys(loadedOnEdge(files[0]?.text ?? ''))
    assert.deepEqual(names.sort(), [...Object.keys(holdfast), 'http'].sort())
  })

  it('its locks exclude each other and those of Node', async () => {
    const { files } = await bundled("export * from 'holdfast'", { format: 'cjs' })
    const front = await startUpstashFront(fixture.server.url)
    fixture.onEnd(() => front.stop())
    const { connect, http } = loadedOnEdge(files[0]?.text ?? '')
    const client = await connect({ client: http({ url: front.url, token: front.token }) })
    fixture.onEnd(() => client.close())
    const other = await fixture.connect()
    const lock = client.getLock('a')
    const inside = await lock.withLock(async () => [
      await lock.withLock(({ count }) => count),
      await other.getLock('a').tryLock(),
    ])
    assert.deepEqual(inside, [2, null])
    const hold = await other.getLock('a').lock()
    assert.equal(await lock.tryLock(), null)
    await hold.unlock()
    assert.equal(await client.locks.request('b', ({ mode }) => mode), 'exclusive')
    assert.throws(() => client.closeOnSignals(), { code: 'LOCK_CONFIG', path: 'closeOnSignals' })
  })

  it('a hold has expired there once the machine has slept, which only the time of day shows', async () => {
    let sleptMs = 0
    class OwnDate extends Date {
      static override now(): number {
        return Date.now() + sleptMs
      }
    }
    const { files } = await bundled("export * from 'holdfast'", { format: 'cjs' })
    const front = await startUpstashFront(fixture.server.url)
    fixture.onEnd(() => front.stop())
    const { connect, http } = loadedOnEdge(files[0]?.text ?? '', { Date: OwnDate })
    const client = await connect({ client: http({ url: front.url, token: front.token }) })
    fixture.onEnd(() => client.close())
    const hold = await client.getLock('a').lock({ leaseTimeMs: 600_000 })
    hold.assertHeld()
    sleptMs = 601_000
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    await fixture.server.admin.del('a')
  })

  it('a target that is not over HTTP is one error, and nothing is sent', async () => {
    const { files } = await bundled("export * from 'holdfast'", { format: 'cjs' })
    const { connect } = loadedOnEdge(files[0]?.text ?? '')
    const url = fixture.server.url
    for (const target of [undefined, url, { url }, { config: {} }, { client: fixture.server.admin }, { client: {} }]) {
      await assert.rejects(connect(target as never), {
        code: 'LOCK_CONFIG',
        path: 'client',
        message: /@upstash\/redis/,
      })
    }
  })

  it(`it is at most ${MAX_BYTES} bytes at once, and ${MAX_BYTES_WITH_ALL} with all`, async () => {
    const program =
      "import { connect } from 'holdfast'\nimport { http } from 'holdfast/http'\nconsole.log(connect, http)"
    const { files, metafile } = await bundled(program, { format: 'esm', splitting: true })
    const atOnce = new Set<string>()
    const load = (path: string): void => {
      if (atOnce.has(path)) return
      atOnce.add(path)
      for (const { kind, path: next, external } of metafile.outputs[path]?.imports ?? [])
        if (kind === 'import-statement' && !external) load(next)
    }
    load('out/stdin.js')
    const sizes = files
      .filter(({ path }) => atOnce.has(path.slice(ROOT.length)))
      .map(({ contents }) => gzipped(contents))
    const bytes = sizes.reduce((sum, size) => sum + size, 0)
    assert(bytes > 40_000 && bytes <= MAX_BYTES, `${bytes} bytes`)
    const [{ contents = new Uint8Array() } = {}] = (await bundled(program, { format: 'esm' })).files
    assert(gzipped(contents) <= MAX_BYTES_WITH_ALL, `${gzipped(contents)} bytes`)
  })

  it('its SHA-1 is that of Node', () => {
    const texts = [
      ...SCRIPTS.map(({ text }) => text),
      ...Array.from({ length: 130 }, (_, length) => 'ä€'.repeat(length)),
    ]
    for (const text of texts) assert.equal(sha1(text), createHash('sha1').update(text).digest('hex'))
  })
})
