import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import type { Permit } from '../../src/index.js'
import { permitAcquire } from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
import { recordMonitor } from '../support/command-stats.js'
import { expectKeys, type KeyContent, NAMES, recordMessages } from '../support/key-contents.js'
import { type Lab, setUpLab } from '../support/lab.js'
import { listening, repliesForgotten } from '../support/synchronizers.js'
import { type SynchronizerTwin, startSynchronizerTwin } from '../support/twin-synchronizers.js'
import { waitUntil } from '../support/wait-until.js'

/** Redisson's lease that never ends, as a score. */
const NEVER = 922_337_203_685_477
const WATCHDOG_MS = 30_000

async function twin(lab: Lab): Promise<SynchronizerTwin> {
  const opened = await startSynchronizerTwin(lab.server.url)
  lab.onEnd(() => opened.close())
  return opened
}

/** Fails unless these are all keys beside that of the generation, once what was answered is forgotten. */
async function expectOnly(lab: Lab, expected: Readonly<Record<string, KeyContent>>): Promise<void> {
  await repliesForgotten(lab)
  await expectKeys(lab.server, expected, /^holdfast_generation:/)
}

/** The permits that are held: ids as hexadecimal digits, and ms until their leases end. */
async function leases(lab: Lab, key: string): Promise<Map<string, number>> {
  const found = await lab.server.admin.zrangeBuffer(key, 0, '-1', 'WITHSCORES')
  const held = new Map<string, number>()
  for (let n = 0; n < found.length; n += 2) {
    const [member, score] = [found[n], String(found[n + 1])]
    assert(member)
    assert.equal(member.length, 16, 'a permit is 16 bytes')
    assert.match(score, /^\d+$/, 'a score is a whole number')
    held.set(member.toString('hex'), Number(score) - Date.now())
  }
  return held
}

/** Fails unless exactly these permits are held, each with about this lease. */
async function expectLeases(lab: Lab, key: string, expected: readonly (readonly [Permit, number])[]): Promise<void> {
  const held = await leases(lab, key)
  const ids = expected.flatMap(([permit]) => permit.permitIds)
  assert.deepEqual([...held.keys()].sort(), [...ids].sort())
  for (const [{ permitIds }, leaseMs] of expected) {
    for (const id of permitIds) {
      const left = held.get(id) ?? -1
      assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `${left} ms left, not about ${leaseMs}`)
    }
  }
}

async function run(lab: Lab, { script, keys, args }: ScriptCall): Promise<unknown> {
  return await lab.server.admin.eval(script.text, keys.length, ...keys, ...args)
}

describe('the wire of a semaphore', () => {
  const lab = setUpLab()

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is a string with the number of permits, and messages that say how many there are`, async () => {
      const semaphore = (await lab.connect()).getSemaphore(name)
      const messages = await recordMessages(lab)
      const expectPermits = (permits: number) => expectOnly(lab, { [name]: { string: String(permits) } })
      await semaphore.trySetPermits(3)
      await expectPermits(3)
      await semaphore.trySetPermits(9)
      await semaphore.acquire({ permits: 2 })
      await expectPermits(1)
      assert.equal(await semaphore.tryAcquire({ permits: 2 }), false)
      await expectPermits(1)
      await semaphore.release(2)
      await expectPermits(3)
      await semaphore.releaseIfExists()
      await expectPermits(4)
      await semaphore.addPermits(2)
      await expectPermits(6)
      await semaphore.reducePermits(8)
      await expectPermits(-2)
      await semaphore.addPermits(1)
      await expectPermits(-1)
      await semaphore.release(3)
      await expectPermits(2)
      await semaphore.drainPermits()
      await expectPermits(0)
      await semaphore.delete()
      await expectOnly(lab, {})
      await semaphore.releaseIfExists()
      await expectOnly(lab, {})
      const heard = ['3', '3', '4', '6', '2'].map((permits) => [`redisson_sc:${tagged}`, permits])
      assert.deepEqual(await messages(), heard)
    })
  }

  it('has a TTL if it was created with one, and release after its end creates it without', async () => {
    const semaphore = (await lab.connect()).getSemaphore('order')
    await semaphore.trySetPermits(3, { timeToLiveMs: 60_000 })
    await expectOnly(lab, { order: { string: '3', ttl: 60_000 } })
    await semaphore.acquire()
    await semaphore.release(2)
    await expectOnly(lab, { order: { string: '4', ttl: 60_000 } })
    await lab.server.admin.del('order')
    await semaphore.release()
    await expectOnly(lab, { order: { string: '1' } })
    await semaphore.delete()
  })

  for (const [name, tagged] of [['order', '{order}'] as const, ['{shop}:order', '{shop}:order'] as const]) {
    it(`has what was answered in a hash of its own for 20 minutes, until it is forgotten: ${name}`, async () => {
      lab.onEnd(() => lab.server.admin.del(name))
      const client = await lab.connect()
      const record = await recordMonitor(lab.server)
      lab.onEnd(() => record.stop())
      const semaphore = client.getSemaphore(name)
      await semaphore.trySetPermits(2)
      await semaphore.acquire()
      await semaphore.tryAcquire({ permits: 2 })
      await semaphore.release()
      await repliesForgotten(lab)
      const key = `holdfast_idempotency:${tagged}:${client.id}`
      const lines = (await record.stop()).filter(({ source, args }) => source === 'lua' && args[1] === key)
      const told = lines.map(({ args: [command = '', , ...rest] }) => [command.toLowerCase(), ...rest])
      assert.deepEqual(
        told.filter(([command]) => command === 'hset' || command === 'pexpire'),
        ['1', '2', '4'].flatMap((operation) => [
          ...(operation === '4' ? [['pexpire', '1200000']] : []), // so that a Redis without memory does the rest
          ['hset', operation, told.find(([command, of]) => command === 'hset' && of === operation)?.[2]],
          ['pexpire', '1200000'],
        ]),
      )
      const forgotten = told.filter(([command]) => command === 'hdel').flatMap(([, ...operations]) => operations)
      assert.deepEqual(forgotten.sort(), ['1', '2', '4'], 'what was refused has left nothing')
    })
  }

  for (const name of ['order', '{shop}:order']) {
    it(`keeps a twin of Redisson out, and wakes it within 100 ms: ${name}`, async () => {
      lab.onEnd(() => lab.server.admin.del(name))
      const semaphore = (await lab.connect()).getSemaphore(name)
      const peer = await twin(lab)
      await semaphore.trySetPermits(2)
      assert.equal(await peer.trySetPermits(name, 7), false)
      await semaphore.acquire()
      assert.equal(await peer.tryAcquire(name, 2), false)
      assert.equal(await peer.tryAcquire(name), true)
      for (const wake of [
        () => semaphore.release(),
        () => semaphore.addPermits(1),
        () => semaphore.releaseIfExists(),
      ]) {
        const waiting = peer.acquire(name)
        await waitUntil(() => peer.sleeping === 1)
        const releasedAt = performance.now()
        await wake()
        await waiting
        assert(performance.now() - releasedAt < 100, 'woken')
      }
      const waiting = [peer.acquire(name), peer.acquire(name), peer.acquire(name)]
      await waitUntil(() => peer.sleeping === 3)
      await semaphore.release(3)
      await Promise.all(waiting)
      await semaphore.delete()
      const created = peer.acquire(name)
      await waitUntil(() => peer.sleeping === 1)
      await semaphore.trySetPermits(1)
      await created
    })

    it(`is kept out by a twin of Redisson, and woken by it within 100 ms: ${name}`, async () => {
      lab.onEnd(() => lab.server.admin.del(name))
      const semaphore = (await lab.connect()).getSemaphore(name)
      const peer = await twin(lab)
      assert.equal(await peer.trySetPermits(name, 1), true)
      assert.equal(await semaphore.trySetPermits(7), false)
      assert.equal(await peer.tryAcquire(name), true)
      assert.equal(await semaphore.tryAcquire(), false)
      const waiting = semaphore.acquire()
      await listening(lab)
      await repliesForgotten(lab) // it has asked again by then
      const releasedAt = performance.now()
      await peer.release(name)
      await waiting
      assert(performance.now() - releasedAt < 100, 'woken, not polling')
      const several = [semaphore.acquire(), semaphore.acquire(), semaphore.acquire()]
      await listening(lab)
      await peer.release(name, 3)
      await Promise.all(several)
      assert.equal(await lab.server.admin.get(name), '0')
    })
  }
})

describe('the wire of a permit-expirable semaphore', () => {
  const lab = setUpLab()

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is a string, a sorted set of 16-byte permits, and the semaphore’s messages`, async () => {
      const key = `${tagged}:timeout`
      const semaphore = (await lab.connect()).getPermitExpirableSemaphore(name)
      const messages = await recordMessages(lab)
      const expectPermits = async (available: number, held: readonly (readonly [Permit, number])[]) => {
        await repliesForgotten(lab)
        const expected = held.length > 0 ? [name, key] : [name]
        assert.deepEqual((await lab.server.admin.keys('*')).sort(), expected.sort())
        assert.equal(await lab.server.admin.get(name), String(available))
        for (const each of expected) assert.equal(await lab.server.admin.pttl(each), -1, `${each} has no TTL`)
        await expectLeases(lab, key, held)
      }
      await semaphore.trySetPermits(4)
      await expectPermits(4, [])
      const permit = await semaphore.acquire()
      await expectPermits(3, [[permit, WATCHDOG_MS]])
      const pair = await semaphore.acquire({ permits: 2, leaseTimeMs: 90_000 })
      const held = [[permit, WATCHDOG_MS] as const, [pair, 90_000] as const]
      await expectPermits(1, held)
      assert.equal(await semaphore.tryAcquire({ permits: 2 }), null)
      await expectPermits(1, held)
      await semaphore.addPermits(2)
      await expectPermits(3, held)
      await semaphore.reducePermits(1)
      await expectPermits(2, held)
      await semaphore.setPermits(3)
      await expectPermits(0, held)
      await semaphore.setPermits(3)
      await semaphore.setPermits(6)
      await expectPermits(3, held)
      await semaphore.updateLeaseTime(permit.permitIds[0] ?? '', 60_000)
      await expectPermits(3, [
        [permit, 60_000],
        [pair, 90_000],
      ])
      await semaphore.release(permit.permitIds[0] ?? '')
      await expectPermits(4, [[pair, 90_000]])
      await pair.unlock()
      await expectPermits(6, [])
      await semaphore.delete()
      await expectOnly(lab, {})
      const heard = ['4', '3', '3', '4', '6'].map((available) => [`redisson_sc:${tagged}`, available])
      assert.deepEqual(await messages(), heard)
      await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST' })
    })
  }

  it('gives the sorted set the TTL of the semaphore, as Redisson does', async () => {
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('order')
    await lab.server.admin.set('order', 2, 'PX', 60_000)
    const permit = await semaphore.acquire()
    const ttls = [await lab.server.admin.pttl('order'), await lab.server.admin.pttl('{order}:timeout')]
    for (const ttl of ttls) assert(ttl > 56_000 && ttl <= 60_000, `${ttl} ms`)
    await permit.unlock()
    assert.equal(await lab.server.admin.get('order'), '2')
    await semaphore.delete()
  })

  it('of a renewal is a later score, in whole ms; never an earlier one', async () => {
    const semaphore = (await lab.connect({ lockWatchdogTimeoutMs: 900 })).getPermitExpirableSemaphore('order')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2 })
    const first = Math.max(...(await leases(lab, '{order}:timeout')).values()) + Date.now()
    await waitUntil(async () => Math.min(...(await leases(lab, '{order}:timeout')).values()) + Date.now() > first + 100)
    const [id = '', other = ''] = permit.permitIds
    await semaphore.updateLeaseTime(id, 60_000)
    const endsAt = Number(await lab.server.admin.zscore('{order}:timeout', Buffer.from(other, 'hex')))
    await waitUntil(
      async () => Number(await lab.server.admin.zscore('{order}:timeout', Buffer.from(other, 'hex'))) > endsAt,
    )
    await expectLease(id, 60_000)
    await permit.unlock()
    await semaphore.delete()

    async function expectLease(permitId: string, leaseMs: number): Promise<void> {
      const left = (await leases(lab, '{order}:timeout')).get(permitId) ?? -1
      assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `${left} ms`)
    }
  })

  it('of a lease that has ended is one permit more, and a message, whoever asks first', async () => {
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('order')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2, leaseTimeMs: 50 })
    const messages = await recordMessages(lab)
    await waitUntil(() => permit.signal.aborted)
    await waitUntil(async () => [...(await leases(lab, '{order}:timeout')).values()].every((left) => left < -5))
    await expectLeasesStay()
    assert.equal(await semaphore.availablePermits(), 2)
    await expectOnly(lab, { order: { string: '2' } })
    assert.deepEqual(await messages(), [['redisson_sc:{order}', '2']])
    await semaphore.delete()

    async function expectLeasesStay(): Promise<void> {
      assert.deepEqual([...(await leases(lab, '{order}:timeout')).keys()].sort(), [...permit.permitIds].sort())
    }
  })

  it('has as many permits as before when the request of an acquire comes twice, also after a release of some', async () => {
    const { admin } = lab.server
    const ids = ['1'.repeat(32), '2'.repeat(32), '3'.repeat(32)]
    const acquire = permitAcquire('order', '{order}:timeout', WATCHDOG_MS, 'redisson_sc:{order}', ids)
    const other = (await lab.connect()).getPermitExpirableSemaphore('order')
    for (const released of [[], [ids[0]], [ids[2]], [ids[0], ids[1]]] as string[][]) {
      await admin.set('order', '6')
      assert.equal(await run(lab, acquire), null)
      for (const id of released) await other.release(id)
      assert.equal(await run(lab, acquire), null)
      assert.equal(await other.getPermits(), 6, `released: ${released.length}`)
      for (const id of ids) await other.tryRelease(id)
      assert.equal(await other.getPermits(), 6)
      assert.equal(await other.availablePermits(), 6)
      await other.delete()
    }
  })

  for (const name of ['order', '{shop}:order']) {
    const key = name === 'order' ? '{order}:timeout' : '{shop}:order:timeout'

    it(`keeps a twin of Redisson out, and wakes it within 100 ms: ${name}`, async () => {
      lab.onEnd(() => lab.server.admin.del(name, key))
      const semaphore = (await lab.connect()).getPermitExpirableSemaphore(name)
      const peer = await twin(lab)
      await semaphore.trySetPermits(2)
      const permit = await semaphore.acquire({ permits: 2, leaseTimeMs: 60_000 })
      const endsAt = await peer.tryAcquirePermits(name, 1, WATCHDOG_MS)
      assert(typeof endsAt === 'number', 'it is told when the lease ends')
      assert(Math.abs(endsAt - Date.now() - 60_000) < 4_000)
      const waiting = [peer.acquirePermits(name, 1, WATCHDOG_MS), peer.acquirePermits(name, 1, WATCHDOG_MS)]
      await waitUntil(() => peer.sleeping === 2)
      const releasedAt = performance.now()
      await permit.unlock()
      const [first, second] = await Promise.all(waiting)
      assert(performance.now() - releasedAt < 100, 'woken')
      assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [0, 2])
      for (const ids of [first, second]) assert.equal(await semaphore.tryRelease(ids?.[0] ?? ''), true)
      assert.equal(await semaphore.availablePermits(), 2)
    })

    it(`is kept out by a twin of Redisson, and woken by it within 100 ms: ${name}`, async () => {
      lab.onEnd(() => lab.server.admin.del(name, key))
      const semaphore = (await lab.connect()).getPermitExpirableSemaphore(name)
      const peer = await twin(lab)
      await peer.trySetPermits(name, 1)
      const ids = (await peer.tryAcquirePermits(name, 1, -1)) as string[]
      const [id = ''] = ids
      assert.equal(await semaphore.tryAcquire(), null)
      assert.equal(await semaphore.getLeaseTime(id), Number.POSITIVE_INFINITY)
      assert.equal(await lab.server.admin.zscore(key, Buffer.from(id, 'hex')), String(NEVER))
      const waiting = semaphore.acquire()
      await listening(lab)
      await repliesForgotten(lab)
      const releasedAt = performance.now()
      assert.equal(await peer.releasePermit(name, id), true)
      const permit = await waiting
      assert(performance.now() - releasedAt < 100, 'woken, not polling')
      await expectLeases(lab, key, [[permit, WATCHDOG_MS]])
      assert.equal(await peer.releasePermit(name, permit.permitIds[0] ?? ''), true)
      await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      assert.equal(await lab.server.admin.get(name), '1')
    })
  }

  it('and a twin of Redisson each get what the other let expire, when it does', async () => {
    lab.onEnd(() => lab.server.admin.del('order', '{order}:timeout'))
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('order')
    const peer = await twin(lab)
    await semaphore.trySetPermits(1)
    await peer.tryAcquirePermits('order', 1, 300)
    const permit = await semaphore.acquire({ leaseTimeMs: 300, waitTimeMs: 3_000 })
    const ids = await peer.acquirePermits('order', 1, WATCHDOG_MS)
    assert.equal(permit.signal.aborted, true)
    assert.deepEqual([...(await leases(lab, '{order}:timeout')).keys()], ids)
    assert.equal(await peer.releasePermit('order', ids[0] ?? ''), true)
    assert.equal(await semaphore.getPermits(), 1)
  })
})

describe('the wire of a count-down latch', () => {
  const lab = setUpLab()

  for (const [name] of NAMES) {
    it(`of ${JSON.stringify(name)} is a string with the count, and a channel with braces in any case`, async () => {
      const latch = (await lab.connect()).getCountDownLatch(name)
      const messages = await recordMessages(lab)
      await latch.countDown()
      await expectOnly(lab, {})
      await latch.trySetCount(2)
      await expectOnly(lab, { [name]: { string: '2' } })
      await latch.trySetCount(5)
      await latch.countDown()
      await expectOnly(lab, { [name]: { string: '1' } })
      const waiting = latch.await()
      await listening(lab)
      const channel = `redisson_countdownlatch__channel__{${name}}`
      assert.deepEqual(await lab.server.admin.pubsub('CHANNELS'), [channel])
      await latch.countDown()
      await waiting
      await expectOnly(lab, {})
      await latch.trySetCount(3)
      await latch.delete()
      await latch.delete()
      await expectOnly(lab, {})
      // Redisson says "1" of a latch that was deleted, which makes its waiters stay.
      assert.deepEqual(
        await messages(),
        ['1', '0', '1', '0'].map((message) => [channel, message]),
      )
    })
  }

  for (const name of ['order', '{shop}:order']) {
    it(`lets a twin of Redisson go within 100 ms, and is opened by it within 100 ms: ${name}`, async () => {
      const latch = (await lab.connect()).getCountDownLatch(name)
      const peer = await twin(lab)
      assert.equal(await latch.trySetCount(2), true)
      assert.equal(await peer.trySetCount(name, 9), false)
      const theirs = peer.await(name)
      await waitUntil(() => peer.sleeping === 1)
      await peer.countDown(name)
      let openedAt = performance.now()
      await latch.countDown()
      await theirs
      assert(performance.now() - openedAt < 100, 'woken')

      assert.equal(await peer.trySetCount(name, 2), true)
      assert.equal(await latch.trySetCount(9), false)
      assert.equal(await latch.getCount(), 2)
      const ours = latch.await()
      await listening(lab)
      await latch.countDown()
      await repliesForgotten(lab)
      openedAt = performance.now()
      await peer.countDown(name)
      assert.equal(await ours, true)
      assert(performance.now() - openedAt < 100, 'woken, not polling')

      await latch.trySetCount(1)
      const deleted = peer.await(name)
      await waitUntil(() => peer.sleeping === 1)
      await latch.delete()
      await deleted
    })
  }

  it('tells the same to a plain subscriber', async () => {
    const latch = (await lab.connect()).getCountDownLatch('order')
    const redis = new Redis(lab.server.url)
    lab.onEnd(() => redis.disconnect())
    const heard: string[] = []
    redis.on('message', (_, message: string) => heard.push(message))
    await redis.subscribe('redisson_countdownlatch__channel__{order}')
    await latch.trySetCount(1)
    await latch.countDown()
    await waitUntil(() => heard.length === 2)
    assert.deepEqual(heard, ['1', '0'])
  })
})
