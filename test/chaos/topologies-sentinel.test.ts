/** Sentinels replace the master: with acknowledgement, sections never overlap. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import type { Client, ClientOptions, LeaseLostError } from '../../src/index.js'
import {
  assertExclusive,
  DRIVERS,
  type DriverName,
  monotonicMs,
  openClient,
  overlaps,
  type Place,
  recovery,
  Storm,
} from '../support/failover.js'
import { watchWholeProcess } from '../support/fixture.js'
import { type SentinelGroup, startSentinels } from '../support/servers/redis-sentinel.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Of the storms: a lease that a failover outlives is over soon. */
const OPTIONS: ClientOptions = { lockWatchdogTimeoutMs: 5_000, commandTimeoutMs: 1_500 }

const ms = (time: number) => `${Math.round(time)} ms`
const placeOf = ({ sentinels, masterName }: SentinelGroup): Place => ({
  sentinels: sentinels.map(({ host, port }) => ({ host, port })),
  masterName,
})

describe('sentinel', { concurrency: 1 }, () => {
  watchWholeProcess()
  let group: SentinelGroup
  let place: Place
  const ends: (() => Promise<unknown>)[] = []

  before(async () => {
    group = await startSentinels()
    place = placeOf(group)
  })
  after(() => group.stop())
  afterEach(async () => {
    await group.heal()
    for (const end of ends.splice(0)) await end()
    const { admin } = await group.master()
    // Grants that belong to nobody are released, or their lease ends. The record of a client that is closed just before a
    // failover may stay.
    let left: string[] = []
    try {
      await waitUntil(
        async () => {
          left = (await admin.keys('*')).filter(
            (key) => !/^(redisson_lock_token|holdfast_idempotency|holdfast_generation|holdfast_client):|^s$/.test(key),
          )
          return left.length === 0
        },
        { timeoutMs: 8_000, message: () => `nothing stays taken: ${left.join()}` },
      )
    } finally {
      await group.flush()
    }
  })

  async function open(driver: DriverName, options: ClientOptions = {}, userOptions: object = {}): Promise<Client> {
    const { client, end } = await openClient(driver, place, options, userOptions)
    ends.push(end)
    return client
  }

  it('the checker reports overlapping sections and repeated tokens', () => {
    const section = { lock: 'a', by: 'ioredis', askedAt: 0, from: 1, to: 5, token: '1' } as const
    assert.equal(overlaps([section, { ...section, from: 5, to: 6 }]).length, 0)
    assert.equal(overlaps([{ ...section, from: 4, to: 6 }, section, { ...section, from: 5.5, to: 7 }]).length, 2)
    assert.throws(() =>
      assertExclusive({ sections: [section, { ...section, from: 5, to: 6 }], errors: {}, failures: [], lastWaitMs: 0 }),
    )
  })

  describe('many tasks of several clients and processes that acquire and release locks', () => {
    async function stormAround(servers: SentinelGroup, fault: string, inject: () => Promise<{ ms: number }>) {
      const storm = await Storm.start(placeOf(servers), OPTIONS)
      await sleep(500)
      const faultAt = monotonicMs()
      const { ms: failoverMs } = await inject()
      await sleep(500)
      const history = await storm.stop()
      assertExclusive(history)
      return `sentinel, ${fault}: new master after ${ms(failoverMs)}; ${recovery(history, faultAt)}`
    }

    // With one replica, the one that takes over is the one that acknowledges. With more, Redis itself loses what the old
    // master takes in after the order, and another replica may have acknowledged that: against it there is
    // min-replicas-to-write with the number of replicas.
    it('SENTINEL FAILOVER: no sections overlap, and all callers are served', async (t) => {
      await using pair = await startSentinels({ replicas: 1 })
      t.diagnostic(await stormAround(pair, 'SENTINEL FAILOVER', () => pair.failover()))
    })

    const faults: Record<string, () => Promise<{ ms: number }>> = {
      async 'the master is killed'() {
        await group.killMaster()
        return await group.waitForFailover()
      },
      async 'the master is frozen and continues after its replacement'() {
        const master = await group.freezeMaster()
        const failover = await group.waitForFailover()
        await sleep(500)
        master.thaw()
        await group.settled()
        return failover
      },
    }
    for (const [fault, inject] of Object.entries(faults)) {
      it(`${fault}: no sections overlap, and all callers are served`, async (t) => {
        t.diagnostic(await stormAround(group, fault, inject))
      })
    }
  })

  for (const driver of DRIVERS) {
    describe(`Sentinel through ${driver}`, () => {
      it('the master is killed: acknowledged holds stay held and are renewed at the new master', async (t) => {
        const client = await open(driver, { lockWatchdogTimeoutMs: 9_000, commandTimeoutMs: 1_500 })
        const lost: LeaseLostError[] = []
        client.on('lost', ({ error }) => lost.push(error))
        await client.getPermitExpirableSemaphore('p').trySetPermits(1)
        const holds = [
          await client.getLock('a').lock(),
          await client.getFairLock('b').lock(),
          await client.getFencedLock('c').lock(),
          await client.getReadWriteLock('d').readLock().lock(),
          await client.getFasterMultiLock('e', ['1', '2']).lock(),
          await client.getPermitExpirableSemaphore('p').acquire(),
        ]
        const startedAt = performance.now()
        const before = holds.map((hold) => performance.now() + hold.remainingMs())
        await group.killMaster()
        await group.waitForFailover()
        await waitUntil(
          () => holds.every((hold, at) => performance.now() + hold.remainingMs() > (before[at] ?? 0) + 500),
          { timeoutMs: 9_000, message: 'all are renewed' },
        )
        t.diagnostic(`sentinel, ${driver}: all holds renewed ${ms(performance.now() - startedAt)} after the kill`)
        for (const hold of holds) assert.equal(await hold.isHeld(), true)
        assert.deepEqual(lost, [])
        for (const hold of holds) await hold.unlock()
        await client.getPermitExpirableSemaphore('p').delete()
      })

      it('a failover by command right after a permit was granted: the semaphore does not grant it twice', async () => {
        const [one, other] = [await open(driver, OPTIONS), await open(driver, OPTIONS)]
        await one.getSemaphore('s').trySetPermits(1)
        assert.equal(await one.getSemaphore('s').tryAcquire(), true)
        await group.failover()
        const again = await settlesWithin(other.getSemaphore('s').tryAcquire({ waitTimeMs: 2_000 }), 10_000)
        assert(again.status === 'fulfilled')
        assert.equal(again.value, false)
        await one.getSemaphore('s').release()
        assert.equal(await other.getSemaphore('s').tryAcquire({ waitTimeMs: 2_000 }), true)
      })

      it('replicas are cut off without acknowledgement: the loss is reported at once, and so are repeated tokens', async (t) => {
        const options = { ...OPTIONS, lockWatchdogTimeoutMs: 30_000 }
        const careless = await open(driver, { ...options, checkLockSyncedSlaves: false })
        const careful = await open(driver, { ...options, slavesSyncTimeoutMs: 300 })
        const lost: { lockName: string; reason: string }[] = []
        const warnings: string[] = []
        careless.on('lost', ({ error }) => lost.push({ lockName: String(error.lockName), reason: error.reason }))
        careless.on('warning', (warning) => warnings.push((warning as { code?: string }).code ?? warning.message))
        for (const client of [careless, careful]) await client.getFencedLock('cut').withLock(() => {})
        const replicas = await group.replicas()
        const { admin } = await group.master()
        for (const replica of replicas) replica.freeze()
        // What is in the sockets of a frozen server would still arrive.
        await waitUntil(
          async () => {
            await admin.call('CLIENT', 'KILL', 'TYPE', 'replica')
            return /connected_slaves:0/.test(await admin.info('replication'))
          },
          { message: 'the master has no replicas' },
        )
        const hold = await careless.getFencedLock('cut').lock()
        await assert.rejects(careful.getLock('other').tryLock(), { code: 'LOCK_NOT_REPLICATED' })
        await group.killMaster()
        const killedAt = performance.now()
        for (const replica of replicas) replica.thaw()
        await group.waitForFailover()
        const successor = await group.master()
        assert.equal(await successor.admin.exists('cut'), 0, 'the successor does not have the grant')
        await waitUntil(() => hold.signal.aborted, { timeoutMs: 8_000, message: 'the audit finds the hold gone' })
        t.diagnostic(`sentinel, ${driver}: a lost hold is reported ${ms(performance.now() - killedAt)} after the kill`)
        assert.deepEqual(lost, [{ lockName: 'cut', reason: 'gone' }])
        const next = await careless.getFencedLock('cut').lock()
        assert(next.fencingToken > hold.fencingToken, `${next.fencingToken} after ${hold.fencingToken}`)
        await next.unlock()
        // A connection that first led to a replica was replaced, and says so.
        const others = warnings.filter((code) => code !== 'CONNECTION_REPLACED')
        assert.deepEqual(others, ['FENCING_TOKENS_WENT_BACK'])
      })

      it('a master replaced while it was frozen grants nothing when it continues', async (t) => {
        // As users have it: this ioredis stays with the old master until its connection is closed.
        const userOptions = driver === 'ioredis' ? { failoverDetector: false } : {}
        const stale = await open(driver, { ...OPTIONS, lockWatchdogTimeoutMs: 30_000 }, userOptions)
        const kept = await stale.getLock('kept').lock()
        const frozen = await group.freezeMaster()
        await group.waitForFailover()
        const current = await open(driver, { ...OPTIONS, lockWatchdogTimeoutMs: 30_000 })
        assert.equal(await current.getLock('kept').tryLock(), null)
        const taken = await current.getLock('taken').lock({ waitTimeMs: 5_000 })
        let isOver = false
        let tries = 0
        const codes = new Set<string>()
        const trying = (async () => {
          while (!isOver) {
            tries++
            const outcome = await stale
              .getLock('taken')
              .tryLock()
              .catch((error: { code?: string; message: string }) => void codes.add(error.code ?? error.message))
            if (outcome) codes.add('granted')
            await sleep(5)
          }
        })()
        frozen.thaw()
        await group.settled()
        await sleep(300)
        isOver = true
        await trying
        t.diagnostic(`sentinel, ${driver}: ${tries} tries around the thaw, refused or ended by ${[...codes].join()}`)
        // `granted`: by the old master, what its successor had granted already.
        for (const code of codes) assert.match(code, /^LOCK_(OUTCOME_UNKNOWN|NOT_REPLICATED|LEASE_LOST)$/)
        await waitUntil(async () => (await kept.isHeld().catch(() => false)) === true, { message: 'it is still held' })
        await kept.unlock()
        await taken.unlock()
        await (await stale.getLock('taken').lock({ waitTimeMs: 5_000 })).unlock()
      })
    })
  }
})
