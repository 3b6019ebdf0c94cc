/** Scripts with several keys, while a slot is being moved from one master to another for long. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { GlideClusterClient } from '@valkey/valkey-glide'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, connect } from '../../src/index.js'
import { clusterDrivers, type Driver } from '../support/drivers.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-server.js'
import '../support/valkey-glide.js' // silences glide
import { waitUntil } from '../support/wait-until.js'

const glideDriver: Driver = {
  name: 'a glide cluster client of the user',
  async open(url, options) {
    const { hostname: host, port } = new URL(url)
    const open = (): Promise<GlideClusterClient> =>
      GlideClusterClient.createClient({ addresses: [{ host, port: Number(port) }], requestTimeout: 5_000 })
    const glide = await open()
    const client = await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options })
    return { client, end: async () => glide.close() }
  },
}
/** Longer than a server may be silent before its connection is replaced. */
const LONG_MS = 4_000
/** So many refusals that they were repeated by us. */
const REFUSALS = 5

/** Moves the key of a read hold, ahead of the lock itself. */
async function moveHold(name: string, from: RedisServer, to: RedisServer): Promise<void> {
  const [key] = await from.admin.keys(`${name}:*:rwlock_timeout:1`)
  await from.admin.call('MIGRATE', to.host, to.port, '', 0, 5_000, 'KEYS', key as string)
}

describe('a slot that is being moved', { concurrency: 1 }, () => {
  let cluster: Cluster
  before(async () => {
    cluster = await startCluster({ replicasEach: 0 })
  })
  after(() => cluster.stop())

  const refusals = async (reply: string): Promise<number> => {
    const found = await Promise.all(cluster.admins.map((admin) => admin.info('errorstats')))
    return found.reduce(
      (sum, text) => sum + Number(new RegExp(`errorstat_${reply}:count=(\\d+)`).exec(text)?.[1] ?? 0),
      0,
    )
  }
  const refusedOften = async (reply: string): Promise<void> => {
    const earlier = await refusals(reply)
    await waitUntil(async () => (await refusals(reply)) >= earlier + REFUSALS, {
      timeoutMs: 10_000,
      message: `${reply} is replied ${REFUSALS} times`,
    })
  }

  it('a client of one node is told to be a cluster client, or to wait', async () => {
    const owner = await cluster.nodeOf('{m}')
    const client = await connect({ url: owner.url, commandTimeoutMs: 1_000 })
    try {
      const held = await client.getReadWriteLock('{m}alone').readLock().lock()
      const duringMove = async (from: RedisServer, to: RedisServer): Promise<void> => {
        await moveHold('{m}alone', from, to)
        await assert.rejects(held.unlock(), {
          message: /non local key.*is being moved.*clusterServersConfig or a cluster client/,
        })
      }
      await cluster.moveSlot('{m}', {
        onStep: (step, { from, to }) => (step === 'migrating' ? duringMove(from, to) : undefined),
      })
    } finally {
      await client.close()
    }
  })

  for (const driver of [...clusterDrivers, glideDriver]) {
    describe(`a moving slot, through ${driver.name}`, { concurrency: 1 }, () => {
      let client: Client
      let end: () => Promise<void>
      const warnings: string[] = []

      before(async () => {
        const opened = await driver.open(cluster.urls[0] as string, { commandTimeoutMs: 20_000 })
        client = opened.client
        end = opened.end
        client.on('warning', ({ message }) => warnings.push(message))
      })
      after(async () => {
        await client?.close()
        await end?.()
      })
      afterEach(() => {
        assert.deepEqual(warnings, [])
      })

      it('calls wait until a slot has moved, an error says so, and no connection is replaced', async () => {
        const held = await client.getFairLock('{m}held').lock()
        let pending: Promise<unknown> = Promise.resolve()
        const duringMove = async (): Promise<void> => {
          await assert.rejects(client.getFairLock('{m}late').lock({ waitTimeMs: LONG_MS }), {
            message: /^TRYAGAIN .*: a slot of the cluster is being moved.*wait until that has ended/,
          })
          pending = Promise.all([
            held.unlock(),
            client.getFairLock('{m}fair').withLock(async () => {}),
            client.getFencedLock('{m}fenced').withLock(async () => {}),
            client
              .getReadWriteLock('{m}read')
              .readLock()
              .withLock(async () => {}),
            client.getPermitExpirableSemaphore('{m}permits').trySetPermits(1),
          ])
          pending.catch(() => {})
          await refusedOften('TRYAGAIN')
        }
        await cluster.moveSlot('{m}', { onStep: (step) => (step === 'migrating' ? duringMove() : undefined) })
        await pending
      })

      it('a read lock whose own key has gone ahead is released once the rest has followed', async () => {
        const held = await client.getReadWriteLock('{m}shared').readLock().lock()
        let released: Promise<unknown> = Promise.resolve()
        const duringMove = async (from: RedisServer, to: RedisServer): Promise<void> => {
          await moveHold('{m}shared', from, to)
          released = held.unlock()
          released.catch(() => {})
          await refusedOften('ERR')
        }
        await cluster.moveSlot('{m}', {
          onStep: (step, { from, to }) => (step === 'migrating' ? duringMove(from, to) : undefined),
        })
        await released
        assert.equal(await client.getReadWriteLock('{m}shared').writeLock().isLocked(), false)
        await client
          .getReadWriteLock('{m}shared')
          .writeLock()
          .withLock(async () => {})
      })
    })
  }
})
