import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'

/** Where the file of the thread is found: the same program in the ways in which programs are run. */

const PROGRAM = new URL('../support/processes/guarded-program.js', import.meta.url)
const THREAD = new URL('../../src/watchdog-thread.js', import.meta.url)
/** In the project, so that what is not bundled is found. Two versions of Node may run this file at the same time. */
const OUT = fileURLToPath(new URL(`../bundles-${process.pid}/`, import.meta.url))

const fixture = setUpFixture()

before(() => mkdirSync(OUT, { recursive: true }))
after(() => rmSync(OUT, { recursive: true, force: true }))

async function bundle(source: URL, file: string, format: 'esm' | 'cjs', packages?: 'external'): Promise<string> {
  const outfile = join(OUT, file)
  await build({
    entryPoints: [fileURLToPath(source)],
    outfile,
    bundle: true,
    platform: 'node',
    format,
    logLevel: 'silent',
    ...(packages ? { packages } : { external: ['@valkey/valkey-glide', 'redis', 'yaml'] }),
  })
  return outfile
}

async function run(
  program: string | URL,
  thread: string[] = [],
  how: Parameters<typeof spawnChild>[2] = {},
): Promise<string> {
  await using child = spawnChild(program, [fixture.server.url, ...thread], how)
  child.endCommands()
  const { at, message } = await child.nextMessage<{ at: string; message?: string }>(() => true, 30_000)
  assert.deepEqual(await child.exit, { code: 0, signal: null }, child.stderr)
  return message ?? at
}

describe('the file of the watchdog thread', () => {
  it('an ES module program finds the thread file and exits by itself', async () => {
    assert.equal(await run(PROGRAM), 'done')
  })

  it('the thread file runs unchanged under a loader: no hook of the program affects it', async () => {
    const log = join(OUT, 'loaded.txt')
    const hooks = join(OUT, 'hooks.mjs')
    writeFileSync(
      hooks,
      `import { appendFileSync } from 'node:fs'
       export async function load(url, context, next) {
         appendFileSync(${JSON.stringify(log)}, url + '\\n')
         return await next(url, context)
       }`,
    )
    const loader = join(OUT, 'loader.mjs')
    writeFileSync(loader, `import { register } from 'node:module'\nregister('./hooks.mjs', import.meta.url)`)
    const option = `--import=${pathToFileURL(loader)}`
    for (const how of [{ nodeArgs: [option] }, { env: { NODE_OPTIONS: option } }]) {
      assert.equal(await run(PROGRAM, [], how), 'done')
      const loaded = readFileSync(log, 'utf8')
      assert.match(loaded, /guarded-program\.js/)
      assert.doesNotMatch(loaded, /watchdog-thread\.js/)
      rmSync(log)
    }
  })

  it('connect() reports that the thread file is missing from a bundle', async () => {
    for (const format of ['esm', 'cjs'] as const) {
      const program = await bundle(
        PROGRAM,
        `guarded-program-alone.${format === 'esm' ? 'mjs' : 'cjs'}`,
        format,
        'external',
      )
      assert.match(
        await run(program),
        /watchdog\.thread: expected the file of holdfast\/watchdog-thread.*In a bundle specify/,
      )
    }
  })

  it('the thread file may be next to a bundle, bundled or not', async () => {
    await bundle(THREAD, 'watchdog-thread.js', 'esm', 'external')
    const program = await bundle(PROGRAM, 'guarded-program-beside.mjs', 'esm', 'external')
    assert.equal(await run(program), 'done')
  })

  it('the thread file may be anywhere if the program names its location', async () => {
    const program = await bundle(PROGRAM, 'guarded-program-far.cjs', 'cjs')
    assert.equal(await run(program, [fileURLToPath(THREAD)]), 'done')
    assert.equal(await run(program, [THREAD.href]), 'done')
    const whole = await bundle(THREAD, 'whole-thread.cjs', 'cjs')
    assert.equal(await run(program, [whole]), 'done')
  })
})
