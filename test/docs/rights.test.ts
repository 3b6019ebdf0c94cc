/** The user of Redis that docs/architecture.md describes can do all that Holdfast does, and is refused nothing. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type ConnectOptions, connect } from 'holdfast'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { codeBlocksOf } from './code-blocks.js'

const shown = codeBlocksOf('docs/architecture.md').find(({ lines }) => lines[0]?.startsWith('ACL SETUSER app '))
const words = shown?.lines.join(' ').split(/\s+/).slice(1) ?? []

describe('the rights in docs/architecture.md', () => {
  let server: RedisServer
  let url: string

  before(async () => {
    assert.ok(shown, 'there is no block that begins with ACL SETUSER app')
    server = await startRedis()
    await server.admin.call('ACL', ...words)
    url = server.url.replace('//', '//app:secret@')
  })

  after(async () => {
    await server.stop()
  })

  it('are enough for ioredis', async () => {
    const redis = new Redis(url)
    await exercise({ client: redis })
    redis.disconnect()
  })

  it('are enough for node-redis', async () => {
    const redis = await createClient({ url }).connect()
    await exercise({ client: redis })
    await redis.close()
  })

  async function exercise(options: ConnectOptions): Promise<void> {
    await server.admin.acl('LOG', 'RESET')
    await server.admin.script('FLUSH') // EVAL has to be allowed, too
    await using client = await connect({ ...options, lockWatchdogTimeoutMs: 600 })
    await using other = await connect({ url })
    const complaints: string[] = []
    client.on('warning', ({ message }) => complaints.push(message))
    client.on('lost', ({ error }) => complaints.push(error.message))
    const lock = client.getLock('lock:order:1001')

    const hold = await other.getLock(lock.name).lock()
    const waiting = lock.lock()
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 1)
    await hold.unlock()
    await (await waiting).unlock()

    const kept = await lock.lock()
    await (await lock.lock({ within: kept })).unlock()
    const before = await expiriesSet()
    await waitUntil(async () => (await expiriesSet()) > before, { message: 'a renewal' })
    assert.equal(await kept.isHeld(), true)
    assert.equal(await lock.isLocked(), true)
    assert.ok((await lock.remainingLeaseMs()) > 0)
    await (await other.adopt(lock.name, kept.handOver())).unlock()
    assert.deepEqual(complaints, [])

    await other.getLock(lock.name).lock()
    assert.equal(await lock.forceUnlock(), true)
    const refused = (await server.admin.acl('LOG')) as unknown[]
    assert.deepEqual(refused, [])
  }

  async function expiriesSet(): Promise<number> {
    return Number(/^cmdstat_pexpire:calls=(\d+)/m.exec(await server.admin.info('commandstats'))?.[1] ?? 0)
  }
})
