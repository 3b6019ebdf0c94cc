/** Inspecting and listing locks where there are several masters, or one that can change. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Client, LockInfo } from '../../src/index.js'
import { clusterDrivers, type Driver, sentinelDrivers } from '../support/drivers.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { startSentinels } from '../support/servers/redis-sentinel.js'
import { GLIDE_TOPOLOGIES, setUpGlide } from '../support/valkey-glide.js'
import { waitUntil } from '../support/wait-until.js'

const NAMES = Array.from({ length: 12 }, (_, at) => `lock:${at}`).sort()

async function names(found: AsyncIterable<LockInfo>): Promise<string[]> {
  const list: string[] = []
  for await (const { name } of found) list.push(name)
  return list.sort()
}

async function withClients(driver: Driver, url: string, run: typeof lookAt): Promise<void> {
  const opened = await Promise.all([1, 2, 3].map(() => driver.open(url, {})))
  try {
    await run(...(opened.map(({ client }) => client) as [Client, Client, Client]))
  } finally {
    for (const { client } of opened) await client.close()
    for (const { end } of opened) await end()
  }
}

/** Holds locks with one client, waits for one of them with another, and looks at all with a third. */
async function lookAt(observer: Client, holder: Client, waiter: Client): Promise<void> {
  const holds = await Promise.all(NAMES.map((name) => holder.getLock(name).lock({ label: 'nightly' })))
  const waiting = waiter.getLock('lock:7').lock({ label: 'order' })
  waiting.catch(() => {})
  let heard = 0
  const hearings = ['lock:3', 'lock:7'].map((name) => observer.fleet.subscribeToLock(name, () => heard++))
  await waitUntil(() => hearings.every(({ isLive }) => isLive), { timeoutMs: 30_000, message: 'all is subscribed to' })
  const info = await waitUntil(
    async () => {
      const found = await observer.fleet.inspect('lock:7')
      return found.waiters.length > 0 && found.doubts.length === 0 && found
    },
    { timeoutMs: 30_000, message: 'the waiter is seen' },
  )
  assert.deepEqual(
    info.holders.map(({ holder: found }) => found),
    holds.filter(({ lockName }) => lockName === 'lock:7').map(({ holder: found }) => found),
  )
  assert.equal(info.waiters[0]?.label, 'order')
  assert.equal(info.waiters[0].client?.id, waiter.id)
  assert.equal(info.otherListeners, 0)
  assert.deepEqual(await names(observer.fleet.locks({ match: 'lock:*' })), NAMES)
  const contended = async (): Promise<string> => (await names(observer.fleet.locks({ contended: true }))).join()
  await waitUntil(async () => (await contended()) === 'lock:7', { timeoutMs: 30_000, message: 'one is contended' })
  assert((await observer.fleet.clients()).some(({ id }) => id === waiter.id))
  for (const { lockName: name, holder: one } of holds) {
    const run = { name, label: '', everyMs: undefined, ranMs: 0 }
    await holder.fleet.recordJob({ ...run, holder: name === 'lock:5' ? 'gone:1' : one }, 30_000)
  }
  const jobs = await observer.fleet.jobs()
  assert.deepEqual(
    jobs.map(({ name, state }) => `${name} ${state}`),
    NAMES.map((name) => `${name} ${name === 'lock:5' ? 'killed' : 'running'}`),
  )
  const before = heard
  await holds.find(({ lockName }) => lockName === 'lock:3')?.unlock()
  await waitUntil(() => heard > before, { timeoutMs: 30_000, message: 'the release is heard' })
  for (const hearing of hearings) hearing.leave()
  for (const hold of holds) if (hold.lockName !== 'lock:3') await hold.unlock()
  await (await waiting).unlock()
}

describe('inspecting locks in a cluster', { concurrency: 1 }, () => {
  let cluster: Awaited<ReturnType<typeof startCluster>>
  before(async () => {
    cluster = await startCluster()
  })
  after(() => cluster?.stop())

  for (const driver of clusterDrivers) {
    it(`an inspection of a cluster finds holders, waiters and locks of every master with ${driver.name}`, async () => {
      await withClients(driver, cluster.urls[0] as string, lookAt)
    })
  }
})

describe('inspecting locks with Sentinel', { concurrency: 1 }, () => {
  let group: Awaited<ReturnType<typeof startSentinels>>
  before(async () => {
    group = await startSentinels()
  })
  after(() => group?.stop())

  for (const driver of sentinelDrivers) {
    it(`an inspection with Sentinel finds holders, waiters and locks of the master with ${driver.name}`, async () => {
      const url = group.sentinels[0]?.url as string
      await withClients(driver, url, lookAt)
    })
  }
})

for (const topology of GLIDE_TOPOLOGIES) {
  describe(`inspecting locks with valkey-glide on ${topology.name}`, () => {
    const fixture = setUpGlide(topology)

    it('an inspection with valkey-glide finds holders, waiters and locks of every master', async () => {
      await lookAt(await fixture.client(), await fixture.client(), await fixture.client())
    })
  })
}
