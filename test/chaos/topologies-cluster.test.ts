/** What holds when nodes of a cluster fail, change places or hand over slots. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { type Client, type ClientOptions, connect, type LeaseLostError } from '../../src/index.js'
import { block } from '../support/block.js'
import {
  assertExclusive,
  DRIVERS,
  type DriverName,
  monotonicMs,
  openClient,
  type Place,
  recovery,
  Storm,
} from '../support/failover.js'
import { watchWholeProcess } from '../support/fixture.js'
import type { SlotStep } from '../support/servers/cluster-nodes.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-server.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Of the storms: a lease that a failover outlives is over soon. */
const OPTIONS: ClientOptions = { lockWatchdogTimeoutMs: 5_000, commandTimeoutMs: 1_500 }
/** A lost message would cost at least this much: a waiter served earlier was woken. */
const WOKEN_MS = 3_000
const CONTENDED = 'storm:1'

const ms = (time: number) => `${Math.round(time)} ms`
const channelOf = (lock: string) => `redisson_lock__channel:{${lock}}`

describe('cluster', { concurrency: 1 }, () => {
  watchWholeProcess()
  let cluster: Cluster
  let place: Place
  const ends: (() => Promise<unknown>)[] = []

  before(async () => {
    cluster = await startCluster()
    place = { nodes: cluster.urls }
  })
  after(() => cluster.stop())
  afterEach(async () => {
    await cluster.heal()
    for (const end of ends.splice(0)) await end()
    // Grants that belong to nobody are released, or their lease ends.
    let left: string[] = []
    await waitUntil(
      async () => {
        left = (await cluster.keys()).filter(
          (key) => !/^(redisson_lock_token|holdfast_idempotency|holdfast_generation|holdfast_client):/.test(key),
        )
        return left.length === 0
      },
      { timeoutMs: 8_000, message: () => `nothing stays taken: ${left.join()}` },
    )
    await waitUntil(async () => (await cluster.channels()).length + (await cluster.shardChannels()).length === 0, {
      message: 'no subscription is left',
    })
    await cluster.flush()
  })

  async function open(driver: DriverName, options: ClientOptions = {}, userOptions: object = {}): Promise<Client> {
    const { client, end } = await openClient(driver, place, options, userOptions)
    ends.push(end)
    return client
  }

  /** Resolves when a client is subscribed to releases of a lock at the node of its slot, in the way that it publishes. */
  async function listenedOnAt(node: RedisServer, lock: string): Promise<void> {
    const message = `${channelOf(lock)} is listened on at ${node.port}`
    await waitUntil(
      async () => {
        const channels = (await node.admin.pubsub('SHARDCHANNELS')) as string[]
        return channels.includes(channelOf(lock))
      },
      { message },
    )
  }

  it('the event loop is blocked for two leases: a thread renews the holds in every slot', async () => {
    const client = await connect({
      config: { clusterServersConfig: { nodeAddresses: [...cluster.urls] } },
      lockWatchdogTimeoutMs: 1_500,
      watchdog: { thread: true },
    })
    ends.push(() => client.close())
    const holds = await Promise.all(Array.from({ length: 60 }, (_, n) => client.getLock(`lock:${n}`).lock()))
    block(3_000)
    for (const hold of holds) hold.assertHeld()
    assert(!(await Promise.all(holds.map((hold) => hold.isHeld()))).includes(false))
    await Promise.all(holds.map((hold) => hold.unlock()))
  })

  describe('many tasks of several clients and processes that acquire and release locks', () => {
    const faults: Record<string, () => Promise<{ ms: number }>> = {
      'CLUSTER FAILOVER': () => cluster.failover(CONTENDED),
      'CLUSTER FAILOVER TAKEOVER': () => cluster.failover(CONTENDED, { mode: 'TAKEOVER' }),
      async 'a master is killed'() {
        const master = await cluster.nodeOf(CONTENDED)
        await cluster.kill(master)
        return await cluster.waitForFailover(master)
      },
      async 'a master is frozen and continues after its replacement'() {
        const master = await cluster.nodeOf(CONTENDED)
        await cluster.freeze(master)
        const failover = await cluster.waitForFailover(master)
        await sleep(500)
        cluster.thaw(master)
        await cluster.settled()
        return failover
      },
    }
    for (const [fault, inject] of Object.entries(faults)) {
      it(`${fault}: no sections overlap, and all callers are served`, async (t) => {
        const storm = await Storm.start(place, OPTIONS)
        await sleep(500)
        const faultAt = monotonicMs()
        const { ms: failoverMs } = await inject()
        await sleep(500)
        const history = await storm.stop()
        t.diagnostic(`cluster, ${fault}: new master after ${ms(failoverMs)}; ${recovery(history, faultAt)}`)
        assertExclusive(history)
      })
    }
  })

  for (const driver of DRIVERS) {
    describe(`a cluster through ${driver}`, () => {
      for (const mode of [undefined, 'TAKEOVER'] as const) {
        it(`the slot fails over (${mode ?? 'by agreement'}) during a wait: the waiter is served after the release`, async (t) => {
          const [owner, client] = [await open(driver, OPTIONS), await open(driver, OPTIONS)]
          const hold = await owner.getLock('w').lock()
          const waiting = client.getLock('w').lock()
          waiting.catch(() => {})
          await listenedOnAt(await cluster.nodeOf('w'), 'w')
          const { to } = await cluster.failover('w', mode ? { mode } : {})
          const failedOverAt = performance.now()
          await listenedOnAt(to, 'w')
          t.diagnostic(
            `cluster, ${driver}, ${mode ?? 'by agreement'}: listens at the new master ` +
              `${ms(performance.now() - failedOverAt)} after it was known everywhere`,
          )
          const releasedAt = performance.now()
          await hold.unlock()
          const outcome = await settlesWithin(waiting, WOKEN_MS)
          assert(outcome.status === 'fulfilled')
          t.diagnostic(`served ${ms(performance.now() - releasedAt)} after the release`)
          await outcome.value.unlock()
        })
      }

      it('a master is killed: acknowledged holds stay held and are renewed at the new master', async (t) => {
        const client = await open(driver, { lockWatchdogTimeoutMs: 9_000, commandTimeoutMs: 1_500 })
        const lost: LeaseLostError[] = []
        client.on('lost', ({ error }) => lost.push(error))
        const semaphore = client.getPermitExpirableSemaphore('{k}:p')
        await semaphore.trySetPermits(1)
        const holds = [
          await client.getLock('{k}:a').lock(),
          await client.getFairLock('{k}:b').lock(),
          await client.getFencedLock('{k}:c').lock(),
          await client.getReadWriteLock('{k}:d').readLock().lock(),
          await client.getFasterMultiLock('{k}:e', ['1', '2']).lock(),
          await semaphore.acquire(),
          await client.getLock('elsewhere').lock(),
        ]
        const startedAt = performance.now()
        const before = holds.map((hold) => performance.now() + hold.remainingMs())
        const master = await cluster.nodeOf('{k}')
        await cluster.kill(master)
        await cluster.waitForFailover(master)
        await waitUntil(
          () => holds.every((hold, at) => performance.now() + hold.remainingMs() > (before[at] ?? 0) + 500),
          { timeoutMs: 9_000, message: 'all are renewed' },
        )
        t.diagnostic(`cluster, ${driver}: all holds renewed ${ms(performance.now() - startedAt)} after the kill`)
        for (const hold of holds) assert.equal(await hold.isHeld(), true)
        assert.deepEqual(lost, [])
        for (const hold of holds) await hold.unlock()
        await semaphore.delete()
      })

      it('a slot is uncovered: callers wait until the cluster is whole again', async (t) => {
        const client = await open(driver, OPTIONS)
        await client.getLock('covered').withLock(() => {})
        const master = await cluster.nodeOf('uncovered')
        for (const replica of await cluster.replicasOf(master)) await cluster.kill(replica)
        await cluster.kill(master)
        const startedAt = performance.now()
        const [other] = (await cluster.masters()).filter((node) => node.isUp) as [RedisServer]
        const isDown = async () => String(await other.admin.call('CLUSTER', 'INFO')).includes('cluster_state:fail')
        await waitUntil(isDown, { message: 'the cluster says that it is down' })
        const waiting = client.getLock('uncovered').lock()
        waiting.catch(() => {})
        await sleep(300)
        await cluster.heal()
        const outcome = await settlesWithin(waiting, 10_000)
        assert(outcome.status === 'fulfilled', String((outcome as PromiseRejectedResult).reason))
        t.diagnostic(`cluster, ${driver}: granted ${ms(performance.now() - startedAt)} after the last copy was killed`)
        await outcome.value.unlock()
      })

      it('a slot moves while its lock is held: renewals and releases follow it, and nothing is lost', async (t) => {
        const client = await open(driver, { lockWatchdogTimeoutMs: 1_500 })
        const lost: LeaseLostError[] = []
        client.on('lost', ({ error }) => lost.push(error))
        const kept = [
          await client.getLock('{m}:a').lock(),
          await client.getFairLock('{m}:b').lock(),
          await client.getFencedLock('{m}:c').lock(),
          await client.getReadWriteLock('{m}:d').writeLock().lock(),
          await client.getFasterMultiLock('{m}:e', ['1', '2']).lock(),
        ]
        // Not read locks: each read hold has a separate key, as in Redisson, which may be on another node than the lock.
        // Their releases have to wait for the slot, and are not renewed meanwhile.
        const leaver = await open(driver)
        const steps: SlotStep[] = ['importing', 'migrating', 'key moved', 'keys moved', 'moved']
        const leaving = new Map<SlotStep, { unlock(): Promise<void> }[]>()
        for (const step of steps) {
          const key = step.replace(' ', '-')
          leaving.set(step, [
            await leaver.getLock(`{m}:${key}`).lock(),
            await leaver.getFairLock(`{m}:fair-${key}`).lock(),
            await leaver.getReadWriteLock(`{m}:write-${key}`).writeLock().lock(),
          ])
        }
        const settling: Promise<PromiseSettledResult<void>>[] = []
        const follow = (call: Promise<void>) => settling.push(settlesWithin(call, 15_000))
        const startedAt = performance.now()
        await cluster.moveSlot('{m}', {
          pauseMs: 20,
          onStep: async (step) => {
            for (const hold of leaving.get(step) ?? []) follow(hold.unlock())
            if (leaving.has(step)) follow(client.getFairLock(`{m}:new-${step}`).withLock(() => {}))
            leaving.delete(step)
            // Long enough for renewals to go to a slot that is neither here nor there.
            if (step === 'migrating' || step === 'keys moved') await sleep(700)
          },
        })
        const movedMs = performance.now() - startedAt
        for (const outcome of await Promise.all(settling)) {
          assert.equal(outcome.status, 'fulfilled', String((outcome as PromiseRejectedResult).reason))
        }
        t.diagnostic(
          `cluster, ${driver}: moved in ${ms(movedMs)}, all released ${ms(performance.now() - startedAt - movedMs)} later`,
        )
        await sleep(700)
        for (const hold of kept) assert.equal(await hold.isHeld(), true)
        assert.deepEqual(lost, [])
        for (const hold of kept) await hold.unlock()
      })

      for (const how of ['PUBLISH', 'SPUBLISH'] as const) {
        it(`a slot moves during a wait: the waiter is woken by ${how} at its new node`, async (t) => {
          const client = await open(driver, OPTIONS)
          const lock = `moving by ${how}`
          const before = await cluster.nodeOf(lock)
          await before.admin.hset(lock, 'somebody:1', 1)
          await before.admin.pexpire(lock, 60_000)
          const waiting = client.getLock(lock).lock()
          waiting.catch(() => {})
          await listenedOnAt(before, lock)
          const { to } = await cluster.moveSlot(lock)
          const movedAt = performance.now()
          await listenedOnAt(to, lock)
          const listeningMs = performance.now() - movedAt
          // As Redisson does; a plain message goes everywhere, from whatever node.
          await to.admin.del(lock)
          await (how === 'PUBLISH' ? before : to).admin.call(how, channelOf(lock), '0')
          const releasedAt = performance.now()
          const outcome = await settlesWithin(waiting, WOKEN_MS)
          assert(outcome.status === 'fulfilled')
          t.diagnostic(
            `cluster, ${driver}, ${how}: listens ${ms(listeningMs)} after the move, served ` +
              `${ms(performance.now() - releasedAt)} after the release`,
          )
          await outcome.value.unlock()
        })
      }
    })
  }
})
