/** What the TCP proxy loses, delays and cuts. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { expectNothingLeft } from '../leak-check.js'
import { type PlainOptions, plainClient } from '../plain-client.js'
import { settlesWithin, waitUntil } from '../wait-until.js'
import { type RedisServer, startRedis } from './redis-server.js'
import { startProxy, type TcpProxy } from './tcp-proxy.js'

/** How each of several commands, written in one packet, settled. */
async function settled(...commands: Promise<unknown>[]): Promise<string[]> {
  const outcomes = await Promise.allSettled(commands)
  return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? String(outcome.value) : 'lost'))
}

describe('tcp-proxy', () => {
  let server: RedisServer
  let proxy: TcpProxy
  const clients: Redis[] = []
  const connect = async (options?: PlainOptions) => {
    const client = await plainClient(proxy.url, options)
    clients.push(client)
    return client
  }

  before(async () => {
    server = await startRedis()
    proxy = await startProxy(server.port)
  })
  after(async () => {
    for (const client of clients) client.disconnect()
    await expectNothingLeft(server, { keys: /^/ })
    await proxy.stop()
    await server.stop()
  })

  it('tcp-proxy passes what is sent, and counts the connections', async () => {
    const before = proxy.connections
    const client = await connect()
    const big = 'x'.repeat(3_000_000)
    await client.set('big', big)
    assert.equal(await client.get('big'), big)
    assert.equal(proxy.connections, before + 1)
    client.disconnect()
    await waitUntil(() => proxy.connections === before)
  })

  it('tcp-proxy delays a round trip, and keeps the order when the delay ends', async () => {
    const client = await connect()
    proxy.delay(60)
    const start = performance.now()
    await client.ping()
    assert.ok(performance.now() - start >= 59)
    let waiting = false
    proxy.delay(30, () => (waiting = true))
    const slow = client.append('order', 'a')
    await waitUntil(() => waiting)
    proxy.pass()
    const fast = client.append('order', 'b')
    assert.deepEqual(await Promise.all([slow, fast]), [1, 2])
    assert.equal(await server.admin.get('order'), 'ab')
  })

  it('tcp-proxy delays only the requests that match', async () => {
    const [client, subscriber] = [await connect(), await connect()]
    proxy.delay(80, (request) => request.startsWith('SUBSCRIBE'))
    const start = performance.now()
    const subscribed = subscriber.subscribe('news')
    await client.ping()
    assert.ok(performance.now() - start < 60)
    await subscribed
    assert.ok(performance.now() - start >= 79)
    proxy.pass()
  })

  it('tcp-proxy lets nothing pass while frozen, and delivers it afterwards', async () => {
    const client = await connect()
    proxy.freeze()
    const counted = client.incr('frozen')
    await assert.rejects(settlesWithin(counted, 40), /still pending/)
    assert.equal(await server.admin.get('frozen'), null)
    proxy.pass()
    assert.equal(await counted, 1)
  })

  it('tcp-proxy loses replies while muted, but not requests, and resets the connection afterwards', async () => {
    const client = await connect({ commandTimeout: 300 })
    proxy.mute()
    const counted = client.incr('muted')
    await waitUntil(() => server.admin.get('muted'))
    assert.deepEqual(await settled(counted), ['lost'])
    proxy.pass()
    await waitUntil(() => client.status === 'end')
  })

  it('tcp-proxy keeps a muted connection that lost nothing', async () => {
    const client = await connect()
    proxy.mute()
    proxy.pass()
    assert.equal(await client.ping(), 'PONG')
  })

  it('tcp-proxy holds replies back while requests pass', async () => {
    const client = await connect()
    proxy.holdReplies()
    const counted = client.incr('late')
    await waitUntil(() => server.admin.get('late'))
    await assert.rejects(settlesWithin(counted, 20), /still pending/)
    proxy.pass()
    assert.equal(await counted, 1)
  })

  it("tcp-proxy drops just the matching request's reply of a pipeline, and nothing after it arrives", async () => {
    const [client, other] = [await connect(), await connect()]
    proxy.dropNextReply((request) => request.startsWith('EVAL '))
    const commands = settled(
      client.incr('p:before'),
      client.eval("return redis.call('incr', KEYS[1])", 1, 'p:script'),
      client.incr('p:behind'),
    )
    assert.match(await proxy.dropped, /^EVAL .* 1 p:script$/)
    assert.equal(await other.ping(), 'PONG')
    assert.deepEqual(await commands, ['1', 'lost', 'lost'])
    assert.deepEqual(await server.admin.mget('p:before', 'p:script', 'p:behind'), ['1', '1', null])
    assert.equal(await other.eval('return 1', 0), 1, 'the fault happens once')
  })

  it('tcp-proxy drops exactly the matching request of a pipeline, after the replies before it', async () => {
    const client = await connect()
    proxy.dropNextRequest((request) => request.includes('q:lost'))
    const commands = settled(client.incr('q:before'), client.incr('q:lost'), client.incr('q:behind'))
    assert.equal(await proxy.dropped, 'INCR q:lost')
    assert.deepEqual(await commands, ['1', 'lost', 'lost'])
    assert.deepEqual(await server.admin.mget('q:before', 'q:lost', 'q:behind'), ['1', null, null])
  })

  it('tcp-proxy resets the connection (RST) of a dropped command', async () => {
    const client = await connect()
    const errors: (string | undefined)[] = []
    client.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code))
    proxy.dropNextRequest()
    await settled(client.ping())
    await waitUntil(() => client.status === 'end')
    assert.deepEqual(errors, ['ECONNRESET'])
  })

  for (const protocol of [2, 3] as const) {
    it(`tcp-proxy tells replies from messages on a subscribed RESP${protocol} connection`, async () => {
      const subscriber = await connect({ protocol })
      const received: string[] = []
      subscriber.on('message', (_channel: string, payload: string) => received.push(payload))
      await subscriber.subscribe('a', 'b')
      await server.admin.publish('a', 'one')
      proxy.dropNextReply((request) => request === 'SUBSCRIBE c')
      proxy.holdReplies()
      const subscribed = settled(subscriber.subscribe('c'))
      await waitUntil(async () => (await server.admin.publish('c', 'too early')) > 0)
      proxy.pass()
      await proxy.dropped
      assert.deepEqual(await subscribed, ['lost'])
      assert.deepEqual(received, ['one'])
    })
  }

  it('tcp-proxy cuts all connections', async () => {
    const [one, two] = [await connect(), await connect()]
    proxy.cutAll()
    await waitUntil(() => one.status === 'end' && two.status === 'end')
    assert.equal(proxy.connections, 0)
  })

  it('tcp-proxy refuses new connections, takes them again on the same port, and keeps open ones', async () => {
    const client = await connect()
    proxy.refuse()
    await assert.rejects(connect(), /Connection is closed|ECONNREFUSED/)
    assert.equal(await client.ping(), 'PONG')
    await proxy.accept()
    assert.equal(await (await connect()).ping(), 'PONG')
  })

  it('tcp-proxy lets a client that ioredis reconnects count one command twice after a lost reply', async () => {
    const client = new Redis(proxy.url, { retryStrategy: () => 1 })
    client.on('error', () => {})
    clients.push(client)
    proxy.dropNextReply((request) => request.startsWith('INCR'))
    assert.equal(await client.incr('twice'), 2)
  })
})
