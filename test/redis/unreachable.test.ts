import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { ConnectionError } from '../../src/adapters/connection-error.js'
import { connect } from '../../src/index.js'
import { freePort } from '../support/servers/free-port.js'
import { startRedis } from '../support/servers/redis-server.js'
import { makeCertificates, startTlsRedis } from '../support/servers/tls.js'
import { waitUntil } from '../support/wait-until.js'

describe('a Redis that never came up', () => {
  it('a Redis that never came up is named with ECONNREFUSED by connect', async () => {
    const port = await freePort()
    for (const host of ['127.0.0.1', 'localhost']) {
      await assert.rejects(connect(`redis://${host}:${port}`), { message: new RegExp(`ECONNREFUSED .*:${port}`) })
    }
  })

  for (const [listens, title] of [
    [false, 'an ioredis client without a listener of error'],
    [true, 'an ioredis client with a listener of error'],
  ] as const) {
    it(`a Redis that never came up is named with ECONNREFUSED by lock() through ${title}`, async (t) => {
      const port = await freePort()
      t.mock.method(console, 'error', () => {}) // where ioredis prints errors without a listener
      const redis = new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: null })
      if (listens) redis.on('error', () => {})
      const client = await connect({ client: redis, commandTimeoutMs: 300 })
      await assert.rejects(client.getLock('a').tryLock(), {
        code: 'LOCK_OUTCOME_UNKNOWN',
        message: new RegExp(`no reply within 300 ms \\(connect ECONNREFUSED 127\\.0\\.0\\.1:${port}\\)`),
      })
      assert.equal(redis.listenerCount('error'), listens ? 1 : 0)
      await client.close()
      redis.disconnect()
    })
  }

  it('a Redis that never came up is named with ECONNREFUSED by lock() through node-redis', async () => {
    const server = await startRedis()
    const redis = createClient({ url: server.url })
    redis.on('error', () => {})
    await redis.connect()
    const client = await connect({ client: redis, commandTimeoutMs: 500 })
    await (await client.getLock('a').lock()).unlock()
    await server.stop()
    await waitUntil(async () => {
      const error = await client.getLock('a').tryLock().catch(String)
      return new RegExp(`ECONNREFUSED 127\\.0\\.0\\.1:${server.port}`).test(String(error))
    })
    await client.close()
    redis.destroy()
  })

  it('a Redis that never came up is no longer named once the client is connected again', () => {
    const redis = new EventEmitter()
    const error = new ConnectionError(redis)
    redis.on('error', () => {})
    redis.emit('error', new Error('ECONNREFUSED'))
    assert.match(String(error.last), /ECONNREFUSED/)
    redis.emit('ready')
    assert.equal(error.last, undefined)
    error.close()
    assert.deepEqual(redis.eventNames(), ['error'])
  })
})

describe('a URL with TLS on one side only', () => {
  it('rediss:// to a port without TLS says so', async () => {
    const server = await startRedis()
    try {
      const url = server.url.replace('redis:', 'rediss:')
      await assert.rejects(connect(url), {
        message: /^127\.0\.0\.1:\d+: no reply within 10000 ms\. If it does not use TLS, write redis:\/\/ instead of/,
      })
    } finally {
      await server.stop()
    }
  })

  it('redis:// to a port with TLS says what it may be', async () => {
    const certificates = makeCertificates()
    const server = await startTlsRedis(await certificates)
    try {
      await assert.rejects(connect(server.url.replace('rediss:', 'redis:')), {
        message: /^127\.0\.0\.1:\d+ closed the connection before it was ready\. If it uses TLS, write rediss:\/\//,
      })
    } finally {
      await server.stop()
    }
  })
})
