import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Cluster } from 'ioredis'
import { ownedIoredis } from '../../src/adapters/ioredis/port.js'
import { isErrorReply } from '../../src/adapters/node-redis/client.js'
import { waitUntil } from '../support/wait-until.js'

describe('the port of an ioredis Cluster', () => {
  const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true })
  after(() => cluster.disconnect())

  it('refreshes the slots from listen() until close(): a port that nobody listens to has no timer', async () => {
    let refreshes = 0
    cluster.refreshSlotsCache = () => void refreshes++
    const port = ownedIoredis(cluster, { scanIntervalMs: 1 })
    await turnsOfTimers()
    assert.equal(refreshes, 0)
    port.listen({ reconnected() {}, resubscribed() {} })
    await waitUntil(() => refreshes > 0)
    await port.close()
    const before = refreshes
    await turnsOfTimers()
    assert.equal(refreshes, before)
  })
})

describe('an error after too many redirections', () => {
  const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true })
  after(() => cluster.disconnect())

  it('is no error reply of ioredis, which may have lost a connection before the reply that it quotes', async () => {
    const port = ownedIoredis(cluster)
    const quoting = 'Too many Cluster redirections. Last error: ReplyError: MOVED 3999 127.0.0.1:6381'
    assert.equal(port.isErrorReply(new Error(quoting)), false)
    await port.close()
  })

  it('is one of node-redis, which follows nothing but replies', () => {
    assert.equal(isErrorReply(new Error('Too many Cluster redirections')), true)
  })
})

/** Long enough for a timer of 1 ms, however slow the machine is: timers fire in the order of their deadlines. */
async function turnsOfTimers(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 2))
}
