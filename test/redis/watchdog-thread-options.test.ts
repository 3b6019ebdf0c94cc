/** The options of the watchdog thread: what connect() refuses, and what it reports. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { type ConnectOptions, connect } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { guarded } from '../support/guarded.js'

describe('connect() with a watchdog thread', () => {
  const fixture = setUpFixture()

  const refused: [title: string, options: ConnectOptions, path: string, allowed: RegExp][] = [
    ['an unknown option', { watchdog: { threads: true } as object }, 'threads', /thread, maxBlockMs, connection/],
    ['no options', { watchdog: true as unknown as object }, 'options', /an object/],
    ['a thread that is no file', { watchdog: { thread: 1 as unknown as true } }, 'watchdog.thread', /true, false/],
    ['less than a lease', { watchdog: { thread: true, maxBlockMs: 29_999 } }, 'watchdog.maxBlockMs', /from 30000/],
    ['a URL of something else', { watchdog: { connection: 'http://a' } }, 'watchdog.connection', /a Redis URL/],
    [
      'a configuration that cannot work',
      { watchdog: { thread: true, connection: { singleServerConfig: { address: 'redis://a' } } } },
      'singleServerConfig.address',
      /port/,
    ],
  ]
  for (const [title, options, path, allowed] of refused) {
    it(`connect() refuses ${title} before it connects`, async () => {
      await assert.rejects(connect({ url: 'redis://127.0.0.1:1', ...options }), (error) => {
        assert(error instanceof Error)
        assert.deepEqual((error as { path?: string }).path, path)
        assert.match(error.message, allowed)
        return true
      })
    })
  }

  it('connect() refuses a client of the user if the watchdog thread has no connection', async () => {
    const redis = new Redis(fixture.server.url, { lazyConnect: true })
    await assert.rejects(connect({ client: redis, watchdog: { thread: true } }), {
      path: 'watchdog.connection',
      message: /the thread cannot use the client/,
    })
    redis.disconnect()
  })

  it('connect() refuses a configuration with functions, unless the thread gets another one', async () => {
    const config = { singleServerConfig: { address: fixture.server.url } }
    const credentialsResolver = () => ({})
    await assert.rejects(connect({ config, credentialsResolver, watchdog: { thread: true } }), {
      path: 'watchdog.connection',
      message: /credentialsResolver/,
    })
    const client = await guarded(fixture, { config, credentialsResolver, watchdog: { connection: config } })
    await client.getLock('a').withLock(() => {})
  })

  it('connect() reports a thread file that cannot be loaded or is another one, and leaves nothing', async () => {
    for (const thread of ['/nowhere/watchdog-thread.js', new URL('../support/kinds.js', import.meta.url)]) {
      await assert.rejects(guarded(fixture, { watchdog: { thread } }), {
        code: 'LOCK_CONFIG',
        path: 'watchdog.thread',
        message: /the file of holdfast\/watchdog-thread/,
      })
    }
  })

  it('connect() reports that the thread cannot reach Redis, and leaves nothing', async () => {
    await assert.rejects(guarded(fixture, { watchdog: { connection: 'redis://127.0.0.1:1' } }), {
      code: 'ECONNREFUSED',
      message: /^watchdog thread: connect ECONNREFUSED/,
    })
  })
})
