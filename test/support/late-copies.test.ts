import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { startRedis } from './servers/redis-server.js'
import { startProxy } from './servers/tcp-proxy.js'
import { sleep, waitUntil } from './wait-until.js'

describe('tcp-proxy, late copies', () => {
  it('tcp-proxy delivers requests in flight on a broken connection after newer ones on another', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy(server.port)
    const connect = async (): Promise<Redis> => {
      const client = new Redis(proxy.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 }).on('error', () => {})
      await client.ping()
      return client
    }
    const first = await connect()
    proxy.freeze()
    const lost = assert.rejects(first.append('a', 'first'))
    await sleep(100)
    proxy.orphan(1_000)
    proxy.pass()
    await lost
    const second = await connect()
    assert.equal(await second.append('a', 'second '), 7)
    await waitUntil(async () => (await server.admin.get('a')) === 'second first')
    first.disconnect()
    second.disconnect()
  })
})
