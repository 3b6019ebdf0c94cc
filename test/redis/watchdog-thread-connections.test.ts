/** The connection of the watchdog's thread: it is cut, or slow. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect as connectSocket, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { connect } from '../../src/index.js'
import { block } from '../support/block.js'
import { setUpFixture } from '../support/fixture.js'
import { reset, startProxy } from '../support/servers/tcp-proxy.js'
import { sleep } from '../support/wait-until.js'

const LEASE_MS = 3_000

const fixture = setUpFixture()

/** Where the first connections are cut as soon as something is sent on them. */
async function cutting(connections: number): Promise<{ url: string; count: () => number }> {
  let count = 0
  const server = createServer((socket) => {
    socket.on('error', () => {})
    if (count++ < connections) return void socket.once('data', () => reset(socket))
    const onward = connectSocket(fixture.server.port, '127.0.0.1')
    onward.on('error', () => {})
    socket.pipe(onward).pipe(socket)
    socket.on('close', () => onward.destroy())
  }).listen(0, '127.0.0.1')
  fixture.onEnd(() => server.close())
  await once(server, 'listening')
  return { url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`, count: () => count }
}

describe('the first connections of the watchdog thread', () => {
  it('a cut first connection of the watchdog thread is replaced, and connect() waits for it', async () => {
    const { url, count } = await cutting(2)
    const client = await connect({ url: fixture.server.url, watchdog: { thread: true, connection: url } })
    assert.equal(count(), 3)
    await client.close()
  })

  it('connect() rejects with the last error when every connection of the watchdog thread is cut', async () => {
    const { url } = await cutting(Number.POSITIVE_INFINITY)
    const connecting = connect({ url: fixture.server.url, watchdog: { thread: true, connection: url } })
    await assert.rejects(connecting, { code: 'ECONNRESET', message: /^watchdog thread: / })
  })
})

describe('a slow renewal of the watchdog thread', () => {
  it('a slow renewal does not extend the lease of the next hold in the same scope, which has another holder', async () => {
    const proxy = await startProxy(fixture.server.port)
    fixture.onEnd(() => proxy.stop())
    const client = await connect({
      url: fixture.server.url,
      lockWatchdogTimeoutMs: LEASE_MS,
      watchdog: { thread: true, connection: proxy.url },
    })
    const lock = client.getLock('a')
    await (await lock.lock()).unlock()
    await client.runInScope(async () => {
      const first = await lock.lock()
      proxy.delay(2_000) // half of it on the way to Redis
      block((LEASE_MS / 3) * 1.5) // the thread renews after 1.25 periods
      first.assertHeld()
      await first.unlock()
      const second = await lock.lock({ leaseTimeMs: 1_500 })
      await sleep(1_100)
      const left = await fixture.server.admin.pttl('a')
      assert(left < 600, `${left} ms are left of 1 500 ms, 1 100 ms later`)
      assert.notEqual(second.holder, first.holder)
      await second.unlock().catch(() => {})
    })
    proxy.pass()
    await client.close()
  })
})
