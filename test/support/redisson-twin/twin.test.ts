/** The twin does what Redisson does. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { recordMonitor } from '../command-stats.js'
import { expectNothingLeft } from '../leak-check.js'
import { type RedisServer, startRedis } from '../servers/redis-server.js'
import { waitUntil } from '../wait-until.js'
import { keyNames, startTwin, type Twin } from './twin.js'

describe('twin', () => {
  let server: RedisServer
  let twin: Twin
  let other: Twin

  before(async () => {
    server = await startRedis()
    ;[twin, other] = await Promise.all([startTwin(server.url), startTwin(server.url)])
  })
  after(async () => {
    twin.close()
    other.close()
    await expectNothingLeft(server)
    await server.stop()
  })

  it('the twin names keys and channels by the brace rule', () => {
    const names = (name: string) => {
      const { lock, channel, latch } = keyNames(name)
      return [lock, channel, latch('0f')]
    }
    const expected = ['order', 'redisson_lock__channel:{order}', 'redisson_unlock_latch:{order}:0f']
    assert.deepEqual(names('order'), expected)
    const tagged = ['{shop}:a', 'redisson_lock__channel:{shop}:a', 'redisson_unlock_latch:{shop}:a:0f']
    assert.deepEqual(names('{shop}:a'), tagged)
    assert.equal(keyNames('a{b').channel, 'redisson_lock__channel:a{b')
  })

  it('the twin holds a lock as one hash field that counts, with a TTL', async () => {
    const { admin } = server
    assert.equal(await twin.acquire('lock', 47, 30_000), null)
    assert.equal(await twin.acquire('lock', 47, 5_000), null)
    assert.deepEqual(await admin.hgetall('lock'), { [`${twin.clientId}:47`]: '2' })
    assert.ok((await admin.pttl('lock')) <= 5_000)
    const leftMs = await other.acquire('lock', 47, 30_000)
    assert.ok(leftMs !== null && leftMs > 4_000 && leftMs <= 5_000)
    assert.equal(await twin.renew('lock', 47, 20_000), 1)
    assert.ok((await admin.pttl('lock')) > 19_000)
    assert.equal(await other.renew('lock', 47, 20_000), 0)
    assert.equal(await other.release('lock', 47), null)
    assert.equal(await twin.release('lock', 47, 9_000), 0)
    assert.ok((await admin.pttl('lock')) <= 9_000)
    assert.equal(await twin.release('lock', 47), 1)
    assert.deepEqual(await admin.keys('*'), [])
  })

  it('the twin publishes 0 when the lock becomes free, and only then', async () => {
    const listening = await other.listen('lock')
    await twin.acquire('lock', 1, 30_000)
    await twin.acquire('lock', 1, 30_000)
    await twin.release('lock', 1)
    await twin.release('lock', 1)
    const { channel, payload } = await listening.next()
    assert.deepEqual({ channel, payload }, { channel: 'redisson_lock__channel:{lock}', payload: '0' })
    await twin.acquire('lock', 1, 30_000)
    assert.equal(await other.force('lock'), 1)
    assert.equal(await other.force('lock'), 0)
    assert.equal((await listening.next()).payload, '0')
    assert.equal(listening.messages.length, 2)
    await listening.stop()
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 0)
  })

  it('the twin leaves the reply of an unlock in a latch key, and deletes it at once', async () => {
    const record = await recordMonitor(server)
    await twin.acquire('lock', 1, 30_000)
    await twin.release('lock', 1)
    const lines = await record.stop()
    const set = lines.find((line) => line.source === 'lua' && line.args[0] === 'set')
    assert.match(set?.args[1] ?? '', /^redisson_unlock_latch:\{lock\}:[0-9a-f]{32}$/)
    assert.deepEqual(set?.args.slice(2), ['1', 'px', '18000'])
    assert.deepEqual(lines.at(-1)?.args, ['del', set?.args[1]])
  })

  it('the twin waits for a message, the end of the lease, or its own time, whichever comes first', async () => {
    await twin.acquire('lock', 1, 30_000)
    const woken = other.lock('lock', 2, 30_000, 5_000)
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 1)
    const releasedAt = performance.now()
    await twin.release('lock', 1)
    assert.equal(await woken, true)
    assert.ok(performance.now() - releasedAt < 500)
    await other.renew('lock', 2, 60)
    assert.equal(await twin.lock('lock', 3, 30_000, Infinity), true)
    const start = performance.now()
    assert.equal(await other.lock('lock', 4, 30_000, 50), false)
    assert.ok(performance.now() - start >= 49)
    assert.equal(await twin.release('lock', 3), 1)
  })

  it('the twin wakes one waiter of its process for each message', async () => {
    await twin.acquire('lock', 1, 30_000)
    let held = 0
    const section = async (threadId: number) => {
      assert.equal(await other.lock('lock', threadId, 30_000, Infinity), true)
      assert.equal(++held, 1)
      await nextTurn()
      held--
      assert.equal(await other.release('lock', threadId), 1)
    }
    const sections = [2, 3, 4, 5].map(section)
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 1)
    await twin.release('lock', 1)
    await Promise.all(sections)
  })
})
