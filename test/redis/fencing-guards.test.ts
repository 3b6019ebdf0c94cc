import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { createClient } from 'redis'
import { FENCED_SET, fencedSet } from '../../src/fencing.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const BIG = 2n ** 53n
const MAX_TOKEN = 2n ** 63n - 1n

describe('a fenced write to Redis', () => {
  let server: RedisServer

  before(async () => {
    server = await startRedis()
  })

  afterEach(async () => {
    await server.admin.flushall()
  })

  after(async () => {
    await server.stop()
  })

  async function write(value: string, token: bigint): Promise<unknown> {
    return await server.admin.call(...fencedSet(token, { key: 'report', tokenKey: 'report:token', value }))
  }

  async function stored(): Promise<(string | null)[]> {
    return await server.admin.mget('report', 'report:token')
  }

  /** Where `write` should be refused with an error, what that says. */
  async function errorOf(reply: Promise<unknown>): Promise<string> {
    return await reply.then(String, (error: Error) => error.message)
  }

  it('a fenced write accepts any first token, and the same token again', async () => {
    assert.equal(await write('a', 7n), 1)
    assert.deepEqual(await stored(), ['a', '7'])
    assert.equal(await write('b', 7n), 1)
    assert.deepEqual(await stored(), ['b', '7'])
  })

  it('a fenced write with a token lower than the highest seen returns 0 and changes nothing', async () => {
    await write('new', 10n)
    assert.equal(await write('stale', 9n), 0)
    assert.deepEqual(await stored(), ['new', '10'])
    assert.equal(await write('newer', 11n), 1)
    assert.deepEqual(await stored(), ['newer', '11'])
  })

  it('fenced writes compare tokens as numbers, even beyond the integers of Lua and JavaScript', async () => {
    const tokens = [9n, 10n, 9n, 99n, 100n, 11n, BIG, BIG + 2n, BIG + 1n, 100n, MAX_TOKEN, MAX_TOKEN - 1n, MAX_TOKEN]
    const replies: unknown[] = []
    for (const token of tokens) replies.push(await write(String(token), token))
    assert.deepEqual(replies, [1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1])
    assert.deepEqual(await stored(), [String(MAX_TOKEN), String(MAX_TOKEN)])
  })

  it('a fenced write works through node-redis with the same reply', async () => {
    const redis = await createClient({ url: server.url }).connect()
    const options = { key: 'report', tokenKey: 'report:token', value: 'Straße 🔒' }
    assert.equal(await redis.sendCommand(fencedSet(2n, options)), 1)
    assert.equal(await redis.sendCommand(fencedSet(1n, { ...options, value: 'stale' })), 0)
    await redis.close()
    assert.deepEqual(await stored(), ['Straße 🔒', '2'])
  })

  it('a fenced write works by EVALSHA or a defined command, and with a binary value', async () => {
    const value = Buffer.from([0, 255, 13, 10])
    const sha1 = String(await server.admin.script('LOAD', FENCED_SET))
    assert.equal(await server.admin.evalsha(sha1, 2, 'report', 'report:token', '5', value), 1)
    assert.equal(await server.admin.evalsha(sha1, 2, 'report', 'report:token', '4', 'stale'), 0)
    assert.deepEqual(await server.admin.getBuffer('report'), value)
  })

  it('a fenced write is guarded across all values that share a token key', async () => {
    const options = { tokenKey: 'shop:token', value: 'v' }
    assert.equal(await server.admin.call(...fencedSet(8n, { ...options, key: 'shop:stock' })), 1)
    assert.equal(await server.admin.call(...fencedSet(7n, { ...options, key: 'shop:price' })), 0)
    assert.equal(await server.admin.exists('shop:price'), 0)
  })

  it('fenced writes continue after the token key is deleted or set to 0', async () => {
    await write('a', 100n)
    await server.admin.set('report:token', '0')
    assert.equal(await write('b', 2n), 1)
    await server.admin.del('report:token')
    assert.equal(await write('c', 1n), 1)
    assert.deepEqual(await stored(), ['c', '1'])
  })

  for (const found of ['abc', '', '-1', '1.5', '007', '1\n', ' 1', '1e3']) {
    it(`a fenced write fails when the token key contains ${JSON.stringify(found)}, and changes nothing`, async () => {
      await server.admin.mset('report', 'old', 'report:token', found)
      assert.match(await errorOf(write('new', 5n)), /^ERR KEYS\[2\] is not a fencing token/)
      assert.deepEqual(await stored(), ['old', found])
    })

    it(`a fenced write fails when the token passed is ${JSON.stringify(found)}, and changes nothing`, async () => {
      const reply = server.admin.eval(FENCED_SET, 2, 'report', 'report:token', found, 'new')
      assert.match(await errorOf(reply), /^ERR ARGV\[1\] is not a fencing token/)
      assert.deepEqual(await stored(), [null, null])
    })
  }

  it('a fenced write fails when the token key has another type, and leaves that key alone', async () => {
    await server.admin.hset('report:token', 'a', '1')
    assert.match(await errorOf(write('new', 5n)), /^(ERR Error running script .*)?WRONGTYPE/)
    assert.deepEqual(await server.admin.hgetall('report:token'), { a: '1' })
    assert.equal(await server.admin.exists('report'), 0)
  })
})
