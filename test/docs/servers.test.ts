/** The servers of docs/recipes/http-servers.md as printed: on SIGTERM each answers the requests in flight, then it ends. */
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect as open } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { transform } from 'esbuild'
import { connect } from '../../src/index.js'
import { measureLateness } from '../support/lateness.js'
import { spawnChild } from '../support/processes/child.js'
import { freePort } from '../support/servers/free-port.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { codeBlocksOf, ROOT } from './code-blocks.js'

const PAGE = 'docs/recipes/http-servers.md'
const OUT = fileURLToPath(new URL('build/servers/', ROOT))
const LOOPBACK = new URL('../support/servers/loopback.js', import.meta.url).href
const REQUESTS = Array.from({ length: 30 }, (_, n) => n)

describe('a server that closes on signals', () => {
  let redis: RedisServer

  before(async () => {
    redis = await startRedis()
    rmSync(OUT, { recursive: true, force: true })
    mkdirSync(OUT, { recursive: true })
  })
  after(() => redis.stop())

  for (const { line, lines } of codeBlocksOf(PAGE).filter(({ language }) => language === 'ts')) {
    it(`a server that closes on SIGTERM answers 30 of 30 waiting requests: ${PAGE}:${line}`, async () => {
      const source = lines.join('\n').replace('redis://127.0.0.1:6379', redis.url)
      const path = join(OUT, `L${line}.mjs`)
      writeFileSync(path, (await transform(source, { loader: 'ts', format: 'esm' })).code)
      const port = await freePort()
      await using server = spawnChild(path, [], { env: { PORT: String(port) }, nodeArgs: ['--import', LOOPBACK] })
      await waitUntil(() => accepts(port), { timeoutMs: 30_000, message: () => `${PAGE}:${line}: ${server.stderr}` })

      await using client = await connect(redis.url)
      // What the blocks lock: some the id of an order, others the path.
      const names = REQUESTS.flatMap((n) => [`lock:order:${n}`, `lock:/orders/${n}`])
      const holds = await Promise.all(names.map((name) => client.getLock(name).lock()))
      const answers = REQUESTS.map((n) =>
        fetch(`http://127.0.0.1:${port}/orders/${n}`).then(
          async (response) => `${response.status} ${await response.text()}`,
          (error: Error) => error.message,
        ),
      )
      const inLine = async (): Promise<number> => (await redis.admin.keys('holdfast_turn_queue:*')).length
      await waitUntil(async () => (await inLine()) === REQUESTS.length, { timeoutMs: 30_000 })

      process.kill(server.pid ?? 0, 'SIGTERM')
      await waitUntil(async () => !(await accepts(port)), { timeoutMs: 30_000 })
      await Promise.all(holds.map((hold) => hold.unlock()))
      assert.deepEqual(
        await Promise.all(answers),
        REQUESTS.map(() => '200 paid'),
      )
      // Not only after `drainMs`, because of connections that HTTP clients keep open.
      const lateness = measureLateness()
      const answeredAt = performance.now()
      await server.exit
      const took = performance.now() - answeredAt
      assert.ok(took < 2_000 + 2 * lateness(), `it ended ${Math.round(took)} ms after its last answer`)
      const hasOwnHandler = source.includes("process.on('SIGTERM'")
      assert.deepEqual(await server.exit, hasOwnHandler ? { code: 0, signal: null } : { code: null, signal: 'SIGTERM' })
      assert.equal(server.stderr, '')
      assert.deepEqual(await redis.admin.keys('lock:*'), [])
    })
  }
})

describe('a server whose requests take longer than drainMs', () => {
  it(`a server slower than drainMs answers with what its handler makes of the error, 503: ${PAGE}`, async () => {
    await using redis = await startRedis()
    const [block] = codeBlocksOf(PAGE).filter(({ language }) => language === 'ts')
    const source = (block?.lines.join('\n') ?? '')
      .replace('redis://127.0.0.1:6379', redis.url)
      .replace('closeOnSignals({', 'closeOnSignals({ drainMs: 500,')
    mkdirSync(OUT, { recursive: true })
    const path = join(OUT, 'too-long.mjs')
    writeFileSync(path, (await transform(source, { loader: 'ts', format: 'esm' })).code)
    const port = await freePort()
    await using server = spawnChild(path, [], { env: { PORT: String(port) }, nodeArgs: ['--import', LOOPBACK] })
    await waitUntil(() => accepts(port), { timeoutMs: 30_000, message: () => server.stderr })

    await using client = await connect(redis.url)
    const holds = await Promise.all(REQUESTS.map((n) => client.getLock(`lock:/orders/${n}`).lock()))
    const answers = REQUESTS.map((n) =>
      fetch(`http://127.0.0.1:${port}/orders/${n}`).then(
        ({ status }) => status,
        (error: Error) => error.message,
      ),
    )
    await waitUntil(async () => (await redis.admin.keys('holdfast_turn_queue:*')).length === REQUESTS.length)
    process.kill(server.pid ?? 0, 'SIGTERM')
    assert.deepEqual(
      await Promise.all(answers),
      REQUESTS.map(() => 503),
    )
    assert.deepEqual(await server.exit, { code: null, signal: 'SIGTERM' })
    await Promise.all(holds.map((hold) => hold.unlock()))
  })
})

async function accepts(port: number): Promise<boolean> {
  const socket = open(port, '127.0.0.1')
  try {
    return await new Promise((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    })
  } finally {
    socket.destroy()
  }
}
