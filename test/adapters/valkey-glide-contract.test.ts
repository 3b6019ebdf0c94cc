/** The contracts of locks and synchronizers, through valkey-glide: on one server, and in a cluster. */
import { randomUUID } from 'node:crypto'
import { describe } from 'node:test'
import { GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { connect } from '../../src/index.js'
import { latchContract } from '../contract/count-down-latch.js'
import { contract } from '../contract/locks.js'
import { permitContract } from '../contract/permit-expirable-semaphore.js'
import { semaphoreContract } from '../contract/semaphore.js'
import type { Driver } from '../support/drivers.js'
import { type SetUp, setUpFixture, setUpFixtureAt, watchWholeProcess } from '../support/fixture.js'
import { kindNamed } from '../support/kinds.js'
import { setUpCluster } from '../support/places.js'
import { AS_ADMIN } from '../support/rights.js'
import { waitUntil } from '../support/wait-until.js'

// Glide prints each error reply and each failed reconnect.
Logger.setLoggerConfig('off')

function addressesOf(url: string): { host: string; port: number }[] {
  const { hostname, port } = new URL(url)
  return [{ host: hostname, port: Number(port) }]
}

/** Glide ends the connections of a closed client up to 3 s later, and may even reopen one. */
async function endAll(url: string, clientName: string): Promise<void> {
  const admin = new Redis(url, AS_ADMIN)
  try {
    await waitUntil(
      async () => {
        const lines = String(await admin.client('LIST')).split('\n')
        const left = lines.filter((line) => line.includes(` name=${clientName} `))
        for (const line of left) await admin.call('CLIENT', 'KILL', 'ID', /^id=(\d+)/.exec(line)?.[1] ?? '')
        return left.length === 0
      },
      { timeoutMs: 10_000, message: 'glide ends its connections' },
    )
  } finally {
    admin.disconnect()
  }
}

/** Its own limit for a command is 250 ms, which a busy machine uses up; the contract is not about that. */
const REQUEST_TIMEOUT_MS = 3_000

const onOneServer: Driver = {
  name: 'a GlideClient of the user',
  lingersMs: 5_000, // connections that it reopens after `endAll`
  async open(url, options) {
    const clientName = randomUUID()
    const addresses = addressesOf(url)
    const open = () => GlideClient.createClient({ addresses, clientName, requestTimeout: REQUEST_TIMEOUT_MS })
    const glide = await open()
    const end = async (): Promise<void> => {
      glide.close()
      await endAll(url, clientName)
    }
    return { client: await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options }), end }
  },
}

const inCluster: Driver = {
  name: 'a GlideClusterClient of the user',
  async open(url, options) {
    // In a cluster it ends its connections at this interval.
    const advancedConfiguration = { pubsubReconciliationIntervalMs: 200 }
    const addresses = addressesOf(url)
    const open = () =>
      GlideClusterClient.createClient({ addresses, advancedConfiguration, requestTimeout: REQUEST_TIMEOUT_MS })
    const glide = await open()
    const end = async (): Promise<void> => glide.close()
    return { client: await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options }), end }
  },
  openRaw: (url) => new Cluster([url]),
}

function contracts(setUp: SetUp): void {
  for (const name of ['lock', 'fair lock']) describe(`a ${name}`, () => contract(kindNamed(name), setUp))
  describe('a semaphore', () => semaphoreContract(setUp))
  describe('a permit-expirable semaphore', () => permitContract(setUp))
  describe('a count-down latch', () => latchContract(setUp))
}

describe('every contract through valkey-glide', { concurrency: 2 }, () => {
  watchWholeProcess()
  describe('one server', { concurrency: 1 }, () => {
    contracts((options) => setUpFixture(onOneServer, [], { ...options, isBesideOthers: true }))
  })
  describe('a cluster', { concurrency: 1 }, () => {
    const place = setUpCluster()
    contracts((options) => setUpFixtureAt(place, inCluster, { ...options, isBesideOthers: true }))
  })
})
