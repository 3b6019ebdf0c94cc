import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpLab } from '../support/lab.js'
import { waitUntil } from '../support/wait-until.js'

describe('a multi-lock of values', () => {
  const lab = setUpLab()

  it('that is free is not held up by those of its client who wait for other values of the group', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const busy = await other.getFasterMultiLock('order', ['a']).lock()
    const waiting = client.getFasterMultiLock('order', ['a', 'b']).lock()
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)

    const free = await client.getFasterMultiLock('order', ['c']).lock({ waitTimeMs: 3_000 })
    await free.unlock()

    await busy.unlock()
    await (await waiting).unlock()
  })

  it('that is free is had at once by the next in line of its client, whoever of them got other values before', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const busy = await other.getFasterMultiLock('order', ['a', 'b']).lock()
    const waiting = ['a', 'b'].map(async (value) => await client.getFasterMultiLock('order', [value]).lock())
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)

    await busy.unlock()
    const startedAt = performance.now()
    const holds = await Promise.all(waiting) // neither waits for the other to release
    assert.ok(performance.now() - startedAt < 3_000)
    for (const hold of holds) await hold.unlock()
  })
})
