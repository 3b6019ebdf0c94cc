/** The vote of a red lock, to the turn of the event loop. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Client } from '../../src/client.js'
import { getRedLock, type RedLock } from '../../src/index.js'
import { FakeClock } from '../support/fake-clock.js'
import { FakePort } from '../support/fake-port.js'

describe('a red lock of three servers', () => {
  let clock: FakeClock
  let ports: FakePort[]
  let clients: Client[]
  let red: RedLock

  beforeEach(() => {
    clock = new FakeClock()
    const random = { uuid: () => `client-${clients.length}`, fraction: () => 0.5 }
    ports = []
    clients = []
    for (let n = 0; n < 3; n++) {
      const port = new FakePort(clock)
      ports.push(port)
      clients.push(new Client(port, {}, { clock, random }))
    }
    red = getRedLock(...clients.map((client) => client.getLock('a')))
  })

  afterEach(async () => {
    await clock.until(Promise.all(clients.map((client) => client.close())))
    assert.deepEqual(
      ports.flatMap(({ redis }) => redis.keys),
      [],
      'nothing is held',
    )
  })

  it('a majority of which one lock was lost before the last grant arrived is no majority', async () => {
    const [first, second, third] = ports as [FakePort, FakePort, FakePort]
    second.once('lock/acquire', { replyMs: 100 })
    third.redis.set('a', 'somebody:1', 1, 60_000)
    const outcome = red.tryLock()
    await clock.advance(50)
    assert.deepEqual(first.redis.keys, ['a'])
    await clients[0]?.getLock('a').forceUnlock()
    assert.equal(await clock.until(outcome), null)
    third.redis.delete('a')
  })

  it('a majority is granted as soon as it is complete', async () => {
    ports[2]?.once('lock/acquire', { replyMs: 500 })
    const hold = await red.tryLock()
    assert.equal(hold?.signal.aborted, false)
    await clock.advance(500)
    await hold?.unlock()
  })
})
