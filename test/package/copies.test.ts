/** `import` and `require` load one copy of the built package; where a tool makes it two, both work, or say what is wrong. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startRedis } from '../support/servers/redis-server.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** As in tools that do not know `module-sync`: `import` and `require` load different files. */
const TWO_COPIES = ['--no-experimental-require-module']
const PATHS = ['', '/ioredis', '/node-redis', '/valkey-glide', '/http', '/config', '/nestjs']

/** Runs a CommonJS program, which finds the package by its name. */
function run(program: string, nodeArgs: readonly string[] = [], args: readonly string[] = []): void {
  const source = `const assert = require('node:assert/strict'); (async () => {${program}\n})().catch((error) => {
    console.error(error)
    process.exitCode = 1
  })`
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, NODE_OPTIONS: '', NODE_NO_WARNINGS: '1' }
  const { status, stderr } = spawnSync(process.execPath, [...nodeArgs, '-e', source, ...args], {
    cwd: ROOT,
    env,
    encoding: 'utf8',
    timeout: 60_000,
  })
  assert.equal(status, 0, stderr)
}

describe('the package', () => {
  for (const path of PATHS) {
    it(`the package has one copy of holdfast${path}, by import and by require`, () => {
      run(`
        const required = require('holdfast${path}')
        const imported = await import('holdfast${path}')
        assert(Object.keys(required).length > 0)
        for (const [name, value] of Object.entries(required)) assert.equal(imported[name], value, name)`)
    })

    it(`the package has one file of holdfast${path} for import and require in Bun and in bundlers`, () => {
      for (const condition of ['bun', 'module']) {
        run(`assert.doesNotMatch(require.resolve('holdfast${path}'), /cjs/)`, ['-C', condition, ...TWO_COPIES])
      }
    })

    if (path === '/nestjs') continue // Nest 12 is ESM itself; with Nest 11 scripts/verify/consumers.mjs tries it
    it(`the package has holdfast${path} as CommonJS for tools that cannot require ESM`, () => {
      run(
        `
        const required = require('holdfast${path}')
        const imported = await import('holdfast${path}')
        assert.deepEqual(Object.keys(required).sort(), Object.keys(imported).sort())`,
        TWO_COPIES,
      )
    })
  }
})

describe('two copies of the package in one process', () => {
  it('two copies of the package recognize the errors of each other', () => {
    run(
      `
      const a = require('holdfast')
      const b = await import('holdfast')
      assert.notEqual(a.ConfigError, b.ConfigError)
      const error = new a.ConfigError('url', undefined, 'a URL')
      assert(error instanceof b.ConfigError && error instanceof b.LockError && error instanceof Error)
      assert(!(error instanceof b.NotHeldError))
      class Own extends b.ConfigError {}
      assert(!(error instanceof Own))
      assert(new Own('url', undefined, 'a URL') instanceof a.ConfigError)
      assert(!(null instanceof b.LockError) && !({} instanceof b.LockError))`,
      TWO_COPIES,
    )
  })

  it('two copies of the package refuse a multi-lock of locks of both, and say why', async () => {
    await using redis = await startRedis()
    run(
      `
      const a = require('holdfast')
      const b = await import('holdfast')
      const client = await a.connect(process.argv[1])
      const lock = client.getLock('a')
      assert.throws(() => b.getMultiLock(lock), (error) => error.code === 'LOCK_CONFIG' && /loaded two copies/.test(error.message))
      assert.throws(() => b.getRedLock(lock), /loaded two copies/)
      await lock.withLock(() => lock.withLock(async (hold) => assert.equal(hold.count, 2)))
      await client.close()`,
      TWO_COPIES,
      [redis.url],
    )
  })

  it('two copies of the package share the watchdog thread', async () => {
    await using redis = await startRedis()
    run(
      `
      const clients = []
      for (const { connect } of [require('holdfast'), await import('holdfast')]) {
        clients.push(await connect({ url: process.argv[1], watchdog: { thread: true } }))
      }
      const hold = await clients[0].getLock('a').lock()
      const other = await clients[1].getLock('b').lock()
      const threads = process.report.getReport().workers ?? []
      assert.equal(threads.length, 1)
      await hold.unlock()
      await other.unlock()
      for (const client of clients) await client.close()`,
      TWO_COPIES,
      [redis.url],
    )
  })
})
