import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort, type Sent } from '../support/fakes/fake-port.js'

const LEASE_MS = 1_000
/** One batch more than may be in flight at once, so that no other call shares a batch with them. */
const SILENT = LEASE_MS / 4 + 32

let clock: FakeClock
let port: FakePort
let client: Client
let lost: number
let refused: number

beforeEach(() => {
  clock = new FakeClock()
  port = new FakePort(clock)
  client = fakeClient(clock, port, { lockWatchdogTimeoutMs: LEASE_MS })
  lost = 0
  refused = 0
  client.on('lost', () => lost++)
})

/** Redis processes one call after the other, and needs this long for each lock, ms. */
function processEachIn(acquireMs: number, renewMs: number): void {
  let freeAt = 0
  port.fault = ({ name, keys }: Sent) => {
    const costMs = name === 'lock/renew' ? renewMs * keys.length : acquireMs
    freeAt = Math.max(freeAt, clock.now()) + costMs
    return { requestMs: freeAt - clock.now() }
  }
}

async function takeAtOnce(count: number): Promise<void> {
  const locks = Array.from({ length: count }, (_, n) => client.getLock(`lock:${n}`))
  const taken = locks.map((lock) => lock.lock().catch(() => void refused++))
  await clock.until(Promise.all(taken))
}

describe('locks requested in one turn of the event loop', () => {
  it('locks of one turn are all granted and none is lost, although that takes longer than a lease', async () => {
    processEachIn(0.8, 0.02)
    const startedAt = clock.now()
    await takeAtOnce(2_000)
    assert(clock.now() - startedAt > LEASE_MS)
    await clock.advance(2 * LEASE_MS)
    assert.deepEqual({ lost, refused }, { lost: 0, refused: 0 })
    port.fault = () => undefined
    await clock.until(client.close())
  })

  it('locks of one turn in flight are limited to a quarter of their lease in milliseconds', async () => {
    let most = 0
    let inFlight = 0
    port.fault = ({ name }) => {
      if (name !== 'lock/acquire') return undefined
      most = Math.max(most, ++inFlight)
      clock.after(10, () => inFlight--)
      return { requestMs: 10 }
    }
    await takeAtOnce(2_000)
    assert(most <= LEASE_MS / 4, `${most} were in flight at once`)
    await clock.until(client.close())
  })

  it('locks of one turn do not wait forever behind calls without a reply', async () => {
    port.fault = ({ keys }) => (Number(keys[0]?.slice('lock:'.length)) < SILENT ? { lost: 'request' } : undefined)
    const silent = Array.from({ length: 300 }, (_, n) =>
      client
        .getLock(`lock:${n}`)
        .tryLock()
        .catch(() => null),
    )
    await clock.advance(10)
    const startedAt = clock.now()
    const hold = await clock.until(client.getLock('served').lock())
    assert(clock.now() - startedAt < LEASE_MS / 2, `after ${clock.now() - startedAt} ms`)
    await clock.until(hold.unlock())
    await clock.until(Promise.all(silent))
    port.fault = () => undefined
    await clock.until(client.close())
  })

  it('locks of one turn are rejected when the client closes before they are sent', async () => {
    port.fault = ({ name }) => (name === 'lock/acquire' ? { requestMs: 10 } : undefined)
    const taking = Array.from({ length: 1_000 }, (_, n) => client.getLock(`lock:${n}`).tryLock())
    const outcomes = Promise.allSettled(taking)
    await clock.until(client.close())
    assert((await clock.until(outcomes)).every(({ status }) => status === 'rejected'))
    assert.deepEqual(port.redis.keys, [])
    assert(port.count('lock/acquire') <= LEASE_MS / 4)
  })
})
