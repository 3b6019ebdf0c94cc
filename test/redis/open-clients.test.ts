/** A program that opens clients again and again, such as a module that a development server loads with each edit. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileIn } from '../../src/open-clients.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const HOLDFAST = new URL('../../src/index.js', import.meta.url).href
const IOREDIS = import.meta.resolve('ioredis')

describe('many open clients', () => {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-open-clients-'))
  let redis: RedisServer

  before(async () => {
    redis = await startRedis()
  })
  after(async () => {
    await redis.stop()
    rmSync(dir, { recursive: true })
  })

  /** Runs `main`, which may load `module` with `load()`. @returns the warnings of its clients and of the process */
  function warningsOf(module: string, main: string): string[] {
    const program = `
      import { connect } from '${HOLDFAST}'
      import { Redis } from '${IOREDIS}'
      const url = '${redis.url}'`
    const at = mkdtempSync(join(dir, 'program-'))
    writeFileSync(join(at, 'module.mjs'), `${program}\n${module}`)
    writeFileSync(
      join(at, 'main.mjs'),
      `${program}
      let loads = 0
      const load = async () => (await import('./module.mjs?edit=' + ++loads)).client
      const warnings = []
      process.on('warning', ({ code, message }) => warnings.push('process: ' + code + ' ' + message))
      ${main}
      await new Promise((resolve) => setTimeout(resolve, 20))
      console.log(JSON.stringify(warnings))
      process.exit()`,
    )
    const { stdout, stderr } = spawnSync(process.execPath, [join(at, 'main.mjs')], { encoding: 'utf8' })
    assert(stdout, stderr)
    return JSON.parse(stdout)
  }

  it('many clients of one module, loaded again with each edit, are one warning of the process', () => {
    for (const connect of ['connect(url)', 'connect({ config: { singleServerConfig: { address: url } } })']) {
      const [warning, ...more] = warningsOf(`export const client = await ${connect}`, 'while (loads < 20) await load()')
      assert.match(warning ?? '', /^process: MANY_CLIENTS 10 clients of one Redis .*\/module\.mjs: .*globalThis/)
      assert.deepEqual(more, [])
    }
  })

  it('many clients with Redis clients of their own are a warning of the client, if anyone listens', () => {
    const module = 'export const client = await connect({ client: new Redis(url) })'
    const main = `while (loads < 12) {
      const client = await load()
      const name = 'client ' + loads
      client.on('warning', ({ code }) => warnings.push(name + ': ' + code))
    }`
    assert.deepEqual(warningsOf(module, main), ['client 10: MANY_CLIENTS'])
  })

  it('many clients are no warning if each is closed, or they are kept in globalThis', () => {
    const one = 'export const client = await connect(url)'
    assert.deepEqual(warningsOf(one, 'while (loads < 20) await (await load()).close()'), [])
    const kept = 'export const client = (globalThis.holdfast ??= await connect(url))'
    assert.deepEqual(warningsOf(kept, 'while (loads < 20) await load()'), [])
  })

  it('many clients are no warning if of several places or databases, or fewer than ten', () => {
    const nine = 'for (let n = 0; n < 9; n++)'
    const one = 'export const client = await connect(url)'
    const main = `${nine} { await load(); await connect(url); await connect(url + '/1')
      await connect({ client: new Redis(url + '/2') }) }`
    assert.deepEqual(warningsOf(one, main), [])
  })
})

describe('the file that called', () => {
  it('the file that called is found in stacks of modules of all kinds, not of packages or of Node', () => {
    const found = {
      'at load (file:///app/lock.mjs:3:14)': 'file:///app/lock.mjs',
      'at async file:///app/lock.mjs?t=1:3:14': 'file:///app/lock.mjs',
      'at Object.<anonymous> (/app (new)/lock.js:3:14)': '/app (new)/lock.js',
      'at /app (new)/lock.js:3:14': '/app (new)/lock.js',
      'at new Locks (C:\\app\\lock.js:3:14)': 'C:\\app\\lock.js',
      'at eval (webpack-internal:///(rsc)/./lib/lock.ts:3:14)': 'webpack-internal:///(rsc)/./lib/lock.ts',
      'at Array.map (<anonymous>)': undefined,
      'at async Promise.all (index 0)': undefined,
      'at Module._compile (node:internal/modules/cjs/loader:1:2)': undefined,
      'at connect (/app/node_modules/holdfast/dist/connect.js:1:2)': undefined,
      'somewhere else': undefined,
    }
    for (const [frame, file] of Object.entries(found)) assert.equal(fileIn(`Error\n    ${frame}`), file, frame)
    for (const stack of [undefined, '', 'Error', []]) assert.equal(fileIn(stack), undefined)
    const behind = Object.keys(found)
      .reverse()
      .map((frame) => `    ${frame}`)
    assert.equal(fileIn(['Error', ...behind].join('\n')), 'webpack-internal:///(rsc)/./lib/lock.ts')
  })
})
