/** Whatever happens to a master behind Sentinel, every client of it takes locks again, by itself and soon. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { type Client, connect, type RedissonConfig } from '../../src/index.js'
import { DRIVERS, openClient, type Place } from '../support/failover.js'
import { measureLateness } from '../support/lateness.js'
import { timersLeft } from '../support/leak-check.js'
import { type SentinelGroup, type SentinelOptions, startSentinels } from '../support/servers/redis-sentinel.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** From the first write that the new master takes until every client takes locks there, ms. */
const SOON_MS = 5_000
const AFTER_FREEZE_MS = 10_000
/** No test waits longer for a client. */
const NEVER_MS = 30_000
/**
 * A client that a sentinel of node-redis ends while that opens its socket connects nevertheless, and carries no command:
 * topologies/sentinels.test.ts shows it without Holdfast.
 */
const MAX_UNUSED = 2
/** How many clients are opened by a configuration. */
const BY_CONFIG = 10

interface Contender {
  readonly way: string
  readonly client: Client
  readonly end: () => Promise<void>
}

async function openByConfig(group: SentinelGroup, host: string): Promise<Contender> {
  const config: RedissonConfig = {
    sentinelServersConfig: {
      sentinelAddresses: group.sentinels.map(({ port }) => `redis://${host}:${port}`),
      masterName: group.masterName,
    },
  }
  const client = await connect({ config })
  return { way: 'config', client, end: () => client.close() }
}

async function openAll(group: SentinelGroup, host: string): Promise<Contender[]> {
  const byConfig = Array.from({ length: BY_CONFIG }, () => openByConfig(group, host))
  const place: Place = { sentinels: group.sentinels.map(({ port }) => ({ host, port })), masterName: group.masterName }
  const byUser = DRIVERS.map(async (driver) => ({
    way: driver,
    ...(await openClient(driver, place, {}, driver === 'ioredis' ? { failoverDetector: false } : {})),
  }))
  return await Promise.all([...byConfig, ...byUser])
}

/** Tries until a lock is taken at the server that is the master then. @returns when that was */
async function servesAt(group: SentinelGroup, { client, way }: Contender, index: number): Promise<number> {
  let last: unknown
  const endsAt = performance.now() + NEVER_MS
  for (let attempt = 0; performance.now() < endsAt; attempt++) {
    const name = `comeback:${index}:${attempt}`
    try {
      const hold = await client.getLock(name).tryLock()
      const isAtMaster = hold && (await (await group.master()).admin.exists(name)) === 1
      await hold?.unlock()
      if (isAtMaster) return performance.now()
    } catch (error) {
      last = error
    }
    await sleep(20)
  }
  throw new Error(`${way}: no lock within ${NEVER_MS} ms`, { cause: last })
}

/** @returns when the master that the Sentinels name has taken a write, unless it is `former` */
async function firstWrite(group: SentinelGroup, former?: { readonly port: number }): Promise<number> {
  await waitUntil(
    async () => {
      const master = await group.master().catch(() => undefined)
      if (!master?.isUp || master.port === former?.port) return false
      return await master.admin.set('written', '1').then(
        () => true,
        () => false,
      )
    },
    { timeoutMs: NEVER_MS, message: 'a new master takes writes' },
  )
  return performance.now()
}

interface Fault {
  /** Resolves when the first write was taken after it. */
  readonly inject: (group: SentinelGroup) => Promise<number>
  readonly limitMs?: number
}

const faults: Record<string, Fault> = {
  'the master is killed': {
    async inject(group) {
      return await firstWrite(group, await group.killMaster())
    },
  },
  'the master freezes': {
    async inject(group) {
      return await firstWrite(group, await group.freezeMaster())
    },
    limitMs: AFTER_FREEZE_MS,
  },
  'SENTINEL FAILOVER': {
    async inject(group) {
      const former = await group.master()
      const [at] = await Promise.all([firstWrite(group, former), group.failover()])
      return at
    },
  },
  'the Sentinels are restarted, and then the master is killed': {
    async inject(group) {
      await Promise.all(group.sentinels.map((sentinel) => sentinel.kill()))
      await sleep(500)
      await group.heal()
      return await firstWrite(group, await group.killMaster())
    },
  },
  'servers and Sentinels are all restarted': {
    async inject(group) {
      await Promise.all([...group.servers, ...group.sentinels].map((server) => server.kill()))
      await sleep(2_000)
      const [at] = await Promise.all([firstWrite(group), group.heal()])
      return at
    },
  },
}

const places: Record<string, { host: string; options: SentinelOptions; faults: readonly string[] }> = {
  'by address': { host: '127.0.0.1', options: {}, faults: Object.keys(faults) },
  'by host name': {
    host: 'localhost',
    options: { hostName: 'localhost' },
    faults: ['the master is killed', 'SENTINEL FAILOVER'],
  },
}

for (const [naming, place] of Object.entries(places)) {
  describe(`clients behind Sentinels that name servers ${naming}`, { concurrency: 1 }, () => {
    let group: SentinelGroup
    let contenders: Contender[] = []
    const timers = timersLeft()

    before(async () => {
      group = await startSentinels(place.options)
    })
    afterEach(async () => {
      for (const { end } of contenders.splice(0)) await end()
      await group.heal()
      let left: readonly string[] = []
      const isNoneLeft = async (): Promise<boolean> => {
        left = await group.connections()
        return left.length <= MAX_UNUSED && left.every((line) => line.includes(' cmd=NULL '))
      }
      await waitUntil(isNoneLeft, {
        timeoutMs: 10_000,
        message: () => `no connection is left, but there is\n  ${left.join('\n  ')}`,
      })
      await waitUntil(() => timersLeft(timers) <= 0, { message: 'no timer is left' })
      await group.flush()
    })
    after(() => group.stop())

    it('connect() called while the master is frozen resolves with the next master', async () => {
      const frozen = await group.freezeMaster()
      const opening = openByConfig(group, place.host)
      contenders = [await opening]
      await group.waitForFailover()
      frozen.thaw()
      const { client } = contenders[0] as Contender
      const hold = await client.getLock('frozen').lock({ waitTimeMs: SOON_MS })
      assert.equal(await (await group.master()).admin.exists('frozen'), 1)
      assert.notEqual((await group.master()).port, frozen.port)
      await hold.unlock()
    })

    it('an ioredis client ended by its failover detector is replaced, one closed by its owner is not', async () => {
      const sentinels = group.sentinels.map(({ port }) => ({ host: place.host, port }))
      const open = async (): Promise<{ user: Redis; client: Client }> => {
        const user = new Redis({ sentinels, name: group.masterName, failoverDetector: true })
        user.on('error', () => {})
        const client = await connect({ client: user })
        contenders.push({ way: 'ioredis', client, end: () => client.close().then(() => user.disconnect()) })
        return { user, client }
      }
      const [ended, closed] = [await open(), await open()]
      // While they query the Sentinels for the master. What the detector does at +switch-master is to disconnect the connector.
      const { connector } = ended.user as unknown as { connector: { disconnect(): void } }
      ended.user.once('connecting', () => connector.disconnect())
      closed.user.once('connecting', () => closed.user.disconnect())
      await group.killMaster()
      await waitUntil(() => ended.user.status === 'end' && closed.user.status === 'end', { timeoutMs: 5_000 })
      await group.waitForFailover()
      const hold = await ended.client.getLock('ended').lock({ waitTimeMs: AFTER_FREEZE_MS })
      assert.equal(await (await group.master()).admin.exists('ended'), 1)
      await assert.rejects(closed.client.getLock('closed').lock({ waitTimeMs: SOON_MS }), /the client was closed/)
      await hold.unlock()
    })

    for (const [fault, { inject, limitMs = SOON_MS }] of Object.entries(faults)) {
      if (!place.faults.includes(fault)) continue
      it(`${fault}: every client acquires locks again within ${limitMs / 1_000} s of the new master`, async (t) => {
        contenders = await openAll(group, place.host)
        for (const [index, contender] of contenders.entries()) await servesAt(group, contender, index)
        const writtenAt = await inject(group)
        const latenessMs = measureLateness()
        const served = await Promise.all(
          contenders.map(async (contender, index) => {
            const at = await servesAt(group, contender, index).catch((error: Error) => error)
            return { way: contender.way, at }
          }),
        )
        const boundMs = limitMs + latenessMs()
        const late = served.flatMap(({ way, at }) => {
          if (at instanceof Error) return [`${at.message} (${String(at.cause)})`]
          return at - writtenAt > boundMs ? [`${way}: ${Math.round(at - writtenAt)} ms`] : []
        })
        const times = served.map(({ at }) => (at instanceof Error ? Number.NaN : Math.round(at - writtenAt)))
        t.diagnostic(`${fault}, ${naming}: ${times.join(', ')} ms after the first write of the new master`)
        assert.deepEqual(late, [])
      })
    }
  })
}
