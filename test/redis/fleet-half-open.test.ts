/** What `client.fleet.inspect()` shows of a client whose connections were cut off without a FIN, as by a firewall. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, HolderStatus } from '../../src/index.js'
import { drivers, type Fixture, setUpFixture } from '../support/fixture.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

/** A client that is silent costs an observer this much, and no more. */
const TIMEOUT_MS = 300
/** For a busy machine, where a reply takes long. */
const PATIENT_MS = 5_000
/** Far beyond the timeout: an observer that waits for a connection that is cut off would take longer. */
const HANG_MS = 20_000

for (const driver of drivers) {
  describe(`a holder that is cut off without a FIN, through ${driver.name},`, () => {
    const fixture = setUpFixture(driver)

    it('a holder cut off without a FIN is silent, and responds again once the network is back', async () => {
      const { proxy, warnings, status, hold } = await reachableHolder(fixture)
      proxy.freeze()
      assert.equal(await status(TIMEOUT_MS), 'silent')
      proxy.pass()
      assert.equal(await status(PATIENT_MS), 'responding')
      assert.ok(warnings.length <= 1, String(warnings))
      await hold.unlock()
    })

    it('a holder cut off without a FIN is silent until it has other connections, with one warning', async () => {
      const { proxy, warnings, status, hold } = await reachableHolder(fixture)
      proxy.silence()
      assert.equal(await status(TIMEOUT_MS), 'silent')
      await waitUntil(async () => (await status(TIMEOUT_MS)) === 'responding', { timeoutMs: 60_000 })
      assert.deepEqual(
        warnings.map(({ code }) => code),
        ['CONNECTION_REPLACED'],
      )
      await hold.unlock()
    })

    it('a holder cut off without a FIN is disconnected when Redis gives up, and responds when back', async () => {
      const { proxy, warnings, status, hold } = await reachableHolder(fixture)
      proxy.freeze()
      await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      assert.equal(await status(TIMEOUT_MS), 'disconnected')
      proxy.pass()
      await waitUntil(async () => (await status(PATIENT_MS)) === 'responding', { timeoutMs: 60_000 })
      assert.ok(warnings.length <= 1, String(warnings))
      await hold.unlock()
    })
  })
}

describe('an observer', () => {
  const fixture = setUpFixture()

  it('an observer whose connection for messages is cut off says that something is missing', async () => {
    const { client: observer, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 1_000 })
    const hold = await (await fixture.connect()).getLock('a').lock()
    await fixture.server.admin.call('ACL', 'SETUSER', 'default', '+pubsub')
    assert.deepEqual((await observer.fleet.inspect('a', { timeoutMs: PATIENT_MS })).doubts, [])
    proxy.delay(600_000, (request) => request.startsWith('SUBSCRIBE'))
    const { holders, doubts } = await observer.fleet.inspect('a')
    assert.deepEqual(
      [holders.map(({ holder }) => holder), doubts.map(({ about }) => about)],
      [[hold.holder], ['unasked-clients']],
    )
    await hold.unlock()
  })

  it('an observer that is cut off rejects within its command timeout', async () => {
    const { client: observer, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 500 })
    await observer.fleet.inspect('a')
    proxy.freeze()
    const outcome = await settlesWithin(observer.fleet.inspect('a'), HANG_MS)
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
  })
})

/** A client behind a proxy that holds `a` and can be asked, and how another one sees it. */
async function reachableHolder(fixture: Fixture) {
  const observer = await fixture.connect()
  const { client, proxy } = await fixture.connectThroughProxy({ inspection: true })
  const warnings: (Error & { code?: string })[] = []
  client.on('warning', (warning) => warnings.push(warning))
  await waitOnce(fixture, client)
  const hold = await client.getLock('a').lock({ leaseTimeMs: 600_000 })
  const status = async (timeoutMs: number): Promise<HolderStatus | undefined> => {
    const info = await settlesWithin(observer.fleet.inspect('a', { timeoutMs }), HANG_MS)
    assert(info.status === 'fulfilled')
    return info.value.holders[0]?.status
  }
  assert.equal(await status(PATIENT_MS), 'responding')
  return { proxy, warnings, status, hold }
}

/** A client makes itself known when it first waits. */
async function waitOnce({ connect, server }: Fixture, client: Client): Promise<void> {
  const busy = await (await connect()).getLock('busy').lock()
  const waiting = client.getLock('busy').lock()
  await waitUntil(async () => (await server.admin.exists(`holdfast_client:${client.id}`)) === 1)
  await busy.unlock()
  await (await waiting).unlock()
}
