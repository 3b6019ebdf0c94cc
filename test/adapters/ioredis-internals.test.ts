/**
 * What Holdfast relies on in ioredis beyond its documentation: connectors (`config/connectors.ts`) and `manuallyClosing`
 * (`adapters/ioredis/client.ts`). If a test here fails after an upgrade of ioredis, these files need a change.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import { after, afterEach, before, describe, it } from 'node:test'
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

type Connector = NonNullable<RedisOptions['Connector']>

describe('a connector of ioredis', () => {
  let server: RedisServer
  let redis: Redis | undefined
  before(async () => {
    server = await startRedis()
  })
  afterEach(() => redis?.disconnect())
  after(() => server.stop())

  async function openSocket(): Promise<Socket> {
    const socket = connect({ host: server.host, port: server.port })
    await once(socket, 'connect')
    return socket
  }

  /** @param open  called for each connection, with the options of the client */
  function clientWith(open: (attempt: number, options: RedisOptions) => Promise<Socket>, isMaster = () => true): Redis {
    let attempts = 0
    class TestConnector extends AbstractConnector {
      readonly #options: RedisOptions

      constructor(options: unknown) {
        super((options as { disconnectTimeout: number }).disconnectTimeout)
        this.#options = options as RedisOptions
      }

      override check(): boolean {
        return isMaster()
      }

      override async connect(): Promise<Socket> {
        try {
          this.stream = await open(++attempts, this.#options)
        } catch (error) {
          this.firstError = error as Error
          this.stream = new Socket().destroy()
        }
        return this.stream as Socket
      }
    }
    const options = { lazyConnect: true, retryStrategy: () => 10, disconnectTimeout: 123 }
    const client = new Redis({ ...options, Connector: TestConnector as Connector })
    redis = client
    return client
  }

  it('a connector of ioredis may resolve to a connection that is open and has already been used', async () => {
    const client = clientWith(async () => {
      const socket = await openSocket()
      socket.write('PING\r\n')
      const [reply] = (await once(socket, 'data')) as [Buffer]
      assert.equal(String(reply), '+PONG\r\n')
      socket.pause()
      return socket
    })
    await client.connect()
    assert.equal(await client.ping(), 'PONG')
  })

  it('a connector of ioredis may resolve to a closed connection: retryStrategy decides the rest', async () => {
    const errors: string[] = []
    const client = clientWith(async (attempt) => {
      if (attempt <= 2) throw new Error(`attempt ${attempt} failed`)
      return await openSocket()
    })
    client.on('error', ({ message }) => errors.push(message))
    await client.connect().catch(() => {})
    await waitUntil(() => client.status === 'ready')
    assert.deepEqual(errors, ['attempt 1 failed', 'attempt 2 failed'])
  })

  it('a connector of ioredis may reject a server with check(): then the client connects again', async () => {
    let checks = 0
    const client = clientWith(openSocket, () => ++checks > 2)
    client.on('error', () => {})
    await client.connect().catch(() => {})
    await waitUntil(() => client.status === 'ready')
    assert.equal(checks, 3)
  })

  it('a connector of ioredis gets the options object of the client itself, which it may change', async () => {
    const client = clientWith(async (_, options) => {
      assert.equal((options as { disconnectTimeout?: number }).disconnectTimeout, 123)
      options.connectionName = 'changed by the connector'
      return await openSocket()
    })
    await client.connect()
    assert.equal(client.options.connectionName, 'changed by the connector')
  })

  it('a connector of ioredis ends its connection with disconnect()', async () => {
    const client = clientWith(openSocket)
    await client.connect()
    const ended = once(client, 'end')
    client.disconnect()
    await ended
    assert.equal(client.status, 'end')
  })
})

describe('manuallyClosing of ioredis', () => {
  it('manuallyClosing of ioredis is set by disconnect() and quit(), and not while the client is open', async () => {
    const server = await startRedis()
    try {
      for (const close of [(redis: Redis) => redis.disconnect(), (redis: Redis) => redis.quit()]) {
        const redis = new Redis(server.url)
        const isClosing = (): unknown => (redis as unknown as { manuallyClosing: unknown }).manuallyClosing
        await redis.ping()
        assert.ok(!isClosing())
        await close(redis)
        assert.equal(isClosing(), true)
        await waitUntil(() => redis.status === 'end')
      }
    } finally {
      await server.stop()
    }
  })
})
