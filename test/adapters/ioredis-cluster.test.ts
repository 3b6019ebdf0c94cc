import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Cluster } from 'ioredis'
import { ownedIoredis } from '../../src/adapters/ioredis/port.js'
import { isErrorReply } from '../../src/adapters/node-redis/client.js'
import { waitUntil } from '../support/wait-until.js'

describe('the port of an ioredis Cluster', () => {
  const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true })
  after(() => cluster.disconnect())

  it('an ioredis Cluster port refreshes the slots by a timer only from listen() until close()', async () => {
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

  it('too many redirections in ioredis are no error reply: a connection may have been lost before', async () => {
    const port = ownedIoredis(cluster)
    const quoting = 'Too many Cluster redirections. Last error: ReplyError: MOVED 3999 127.0.0.1:6381'
    assert.equal(port.isErrorReply(new Error(quoting)), false)
    await port.close()
  })

  it('too many redirections in node-redis are an error reply: it follows nothing but replies', () => {
    assert.equal(isErrorReply(new Error('Too many Cluster redirections')), true)
  })
})

/** Long enough for a timer of 1 ms, however slow the machine is: timers fire in the order of their deadlines. */
async function turnsOfTimers(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 2))
}
