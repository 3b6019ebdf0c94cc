import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Lock } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { expectKeys, NAMES, recordMessages } from '../support/key-contents.js'
import { type Lab, setUpLab } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { startTwin, type Twin } from '../support/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
const CHANNEL = 'redisson_lock__channel:{order}'

async function twin(lab: Lab): Promise<Twin> {
  const opened = await startTwin(lab.server.url)
  lab.onEnd(() => opened.close())
  return opened
}

async function listening(lab: Lab, channels: readonly string[] = [CHANNEL]): Promise<void> {
  await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS', 'redisson_*')).join() === channels.join())
}

/** Fails unless an uncontended lock and unlock is two script calls, with these commands inside. */
async function expectTwoCommands(lab: Lab, lock: Lock, inside: readonly string[]): Promise<void> {
  await (await lock.lock()).unlock() // Redis knows the scripts from here on
  const count = await countCommands(lab.server, async () => {
    for (let n = 0; n < 10; n++) await (await lock.lock()).unlock()
  })
  assert.equal(count.scripts, 20)
  assert.deepEqual(Object.keys(count.calls).sort(), [...inside, 'evalsha'].sort())
}

/** Fails unless there is nobody to re-enter it: the call chain of a hold is refused at once, and nothing is sent. */
async function expectNoReentry(lab: Lab, lock: Lock): Promise<void> {
  await lock.withLock(async (hold) => {
    const count = await countCommands(lab.server, async () => {
      await assert.rejects(lock.lock(), { code: 'LOCK_SELF_DEADLOCK' })
      await assert.rejects(lock.tryLock(), { code: 'LOCK_SELF_DEADLOCK' })
      await assert.rejects(lock.lock({ within: hold }), { code: 'LOCK_SELF_DEADLOCK' })
    })
    assert.equal(count.total, 0)
  })
}

describe('the wire of a non-reentrant lock', () => {
  const lab = setUpLab()

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is that of the plain lock with the count 1, and its message`, async () => {
      const client = await lab.connect()
      const messages = await recordMessages(lab)
      const hold = await client.getNonReentrantLock(name).lock()
      await expectKeys(lab.server, { [name]: { hash: { [`${client.id}:1`]: '1' }, ttl: WATCHDOG_MS } })
      await hold.unlock()
      await expectKeys(lab.server, {})
      assert.deepEqual(await messages(), [[`redisson_lock__channel:${tagged}`, '0']])
    })
  }

  it('of an uncontended lock and unlock is two commands; of an attempt to re-enter none', async () => {
    const client = await lab.connect()
    const lock = client.getNonReentrantLock('order')
    await expectTwoCommands(lab, lock, ['hdel', 'hset', 'lpop', 'pexpire', 'pttl', 'publish'])
    await expectNoReentry(lab, lock)
  })

  it('of a fair one is the hash, queue, deadlines and channels of the fair lock', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const waiter = `${other.id}:1`
    const messages = await recordMessages(lab)
    const hold = await client.getNonReentrantFairLock('order').lock()
    const waiting = other.getNonReentrantFairLock('order').lock()
    await listening(lab, [`${CHANNEL}:${waiter}`])
    await expectKeys(lab.server, {
      order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS },
      'redisson_lock_queue:{order}': { list: [waiter] },
      'redisson_lock_timeout:{order}': { zset: [waiter] },
    })
    await hold.unlock()
    await (await waiting).unlock()
    await expectKeys(lab.server, {})
    assert.deepEqual(await messages(), [[`${CHANNEL}:${waiter}`, '0']])
    const inside = ['del', 'hexists', 'hset', 'lindex', 'lrange', 'pexpire', 'pttl', 'time']
    await expectTwoCommands(lab, client.getNonReentrantFairLock('order'), inside)
    await expectNoReentry(lab, client.getNonReentrantFairLock('order'))
  })

  it('keeps a peer that does what Redisson does out, is kept out by it, and each wakes the other', async () => {
    const client = await lab.connect()
    const peer = await twin(lab)
    const hold = await client.getNonReentrantLock('order').lock()
    const peerWaits = peer.lock('order', 7, WATCHDOG_MS, 60_000)
    await waitUntil(() => peer.sleeping === 1)
    await hold.unlock()
    assert.equal(await peerWaits, true)
    assert.equal(await client.getNonReentrantLock('order').tryLock(), null)
    const waiting = client.getNonReentrantLock('order').lock()
    await listening(lab)
    assert.equal(await peer.release('order', 7), 1)
    await (await waiting).unlock()
  })
})

describe('the wire of a spin lock', () => {
  const lab = setUpLab()

  for (const [name] of NAMES) {
    it(`of ${JSON.stringify(name)} is the hash of the plain lock, and no message`, async () => {
      const client = await lab.connect()
      const messages = await recordMessages(lab)
      const lock = client.getSpinLock(name)
      const held = (count: string) => ({ [name]: { hash: { [`${client.id}:1`]: count }, ttl: WATCHDOG_MS } })
      const hold = await lock.lock()
      await expectKeys(lab.server, held('1'))
      const again = await lock.lock({ within: hold })
      await expectKeys(lab.server, held('2'))
      await again.unlock()
      await expectKeys(lab.server, held('1'))
      await hold.unlock()
      await expectKeys(lab.server, {})
      await lock.lock()
      assert.equal(await lock.forceUnlock(), true)
      assert.equal(await lock.forceUnlock(), false)
      await expectKeys(lab.server, {})
      assert.deepEqual(await messages(), [])
    })
  }

  it('of one who waits is attempts at the pace of its back-off, and no subscription', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getSpinLock('order').lock()
    const lock = other.getSpinLock('order', { backOff: { type: 'constant', delayMs: 100 } })
    const waiting = lock.lock()
    await waitUntil(async () => /cmdstat_hexists:calls/.test(await lab.server.admin.info('commandstats')))
    const count = await countCommands(lab.server, () => sleep(2_000))
    assert(count.scripts >= 5 && count.scripts <= 21, `${count.scripts} attempts in 2 s`)
    assert.deepEqual(await lab.server.admin.pubsub('CHANNELS'), [])
    assert.equal(count.calls['subscribe'], undefined)
    await hold.unlock()
    await (await waiting).unlock()
  })

  it('of an uncontended lock and unlock is two commands', async () => {
    const client = await lab.connect()
    await expectTwoCommands(lab, client.getSpinLock('order'), ['hdel', 'hset', 'pexpire', 'pttl'])
  })

  it('keeps a peer that does what Redisson does out, and is kept out by it, also by its plain lock', async () => {
    const client = await lab.connect()
    const peer = await twin(lab)
    const hold = await client.getSpinLock('order').lock()
    assert.notEqual(await peer.acquire('order', 7, WATCHDOG_MS), null)
    await hold.unlock()
    assert.equal(await peer.acquire('order', 7, WATCHDOG_MS), null)
    assert.equal(await client.getSpinLock('order').tryLock(), null)
    const waiting = client.getSpinLock('order').lock()
    await peer.release('order', 7)
    const startedAt = performance.now()
    await (await waiting).unlock()
    assert(performance.now() - startedAt < 3_000, 'it asks again and again')
  })
})

describe('the wire of a string lock', () => {
  const lab = setUpLab()

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is a string with the holder, as SET NX PX leaves it`, async () => {
      const client = await lab.connect()
      const messages = await recordMessages(lab)
      const lock = client.getStringLock(name)
      const held = { [name]: { string: `${client.id}:1`, ttl: WATCHDOG_MS } }
      const hold = await lock.lock()
      await expectKeys(lab.server, held)
      const again = await lock.lock({ within: hold })
      await expectKeys(lab.server, held)
      await again.unlock()
      await expectKeys(lab.server, held)
      await hold.unlock()
      await expectKeys(lab.server, {})
      assert.deepEqual(await messages(), [[`redisson_lock__channel:${tagged}`, '0']])
    })
  }

  it('has the lease as its TTL; a re-entry and a renewal never shorten it', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getStringLock('order')
    const hold = await lock.lock()
    const longer = await lock.lock({ within: hold, leaseTimeMs: 20_000 })
    await renewed([hold])
    await expectKeys(lab.server, { order: { string: hold.holder, ttl: 20_000 } })
    await longer.unlock()
    await hold.unlock()
  })

  it('of a forced release is DEL and the message 0; of a hold that is handed over the new holder', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const messages = await recordMessages(lab)
    const lock = client.getStringLock('order')
    assert.equal(await lock.forceUnlock(), false)
    const hold = await lock.lock()
    const adopted = await other.getStringLock('order').adopt(hold.handOver())
    await expectKeys(lab.server, { order: { string: `${other.id}:1`, ttl: WATCHDOG_MS } })
    assert.equal(await lock.forceUnlock(), true)
    await expectKeys(lab.server, {})
    assert.deepEqual(await messages(), [[CHANNEL, '0']])
    await assert.rejects(adopted.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('of an uncontended lock and unlock is two commands', async () => {
    const client = await lab.connect()
    await expectTwoCommands(lab, client.getStringLock('order'), ['del', 'get', 'publish', 'set'])
  })

  it('keeps SET NX out, is kept out by it, and sees its DEL, which publishes nothing, within a second', async () => {
    const client = await lab.connect()
    const { admin } = lab.server
    const lock = client.getStringLock('order')
    const hold = await lock.lock()
    assert.equal(await admin.set('order', 'theirs', 'PX', WATCHDOG_MS, 'NX'), null)
    await hold.unlock()
    assert.equal(await admin.set('order', 'theirs', 'PX', WATCHDOG_MS, 'NX'), 'OK')
    assert.equal(await lock.tryLock(), null)
    assert.deepEqual(await lock.getHolders(), [{ holder: 'theirs', holdCount: 1 }])
    const waiting = lock.lock()
    await listening(lab)
    await sleep(300)
    await expectKeys(lab.server, { order: { string: 'theirs', ttl: WATCHDOG_MS } })
    await admin.del('order')
    const freeAt = performance.now()
    const next = await waiting
    assert(performance.now() - freeAt < 1_000, 'it polls')
    await next.unlock()
  })

  it('releases nothing that somebody else set after the lease had ended', async () => {
    const client = await lab.connect()
    const hold = await client.getStringLock('order').lock({ leaseTimeMs: 200 })
    await waitUntil(() => hold.signal.aborted)
    await lab.server.admin.set('order', 'theirs', 'PX', WATCHDOG_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await sleep(300)
    await expectKeys(lab.server, { order: { string: 'theirs', ttl: WATCHDOG_MS } })
    await lab.server.admin.del('order')
  })
})

describe('the wire of a multi-lock of values', () => {
  const lab = setUpLab()

  /** Redisson 4.7.0 with StringCodec: Hash.hash128toBase64. */
  const A = 'qwvAS12pR0CgRitaypEjUw'
  const B = 'Q5CdP+xmkHdTGWYr64Lw6A'
  const C = 'm+X1XZ25duGPQrbkAp0Bjg' // of "line 1"

  /** Three fields for a value; the expiry is looked at apart. */
  async function expectGroup(
    group: string,
    owners: Readonly<Record<string, readonly [holder: string, count: string, leaseMs: number]>>,
    ttl: number,
  ): Promise<void> {
    const hash = await lab.server.admin.hgetall(group)
    const fields: Record<string, string> = {}
    for (const [digest, [holder, count, leaseMs]] of Object.entries(owners)) {
      const expiry = hash[`${digest}:${holder}:expire_time`] ?? 'none'
      assert.match(expiry, /^\d{13}$/)
      const left = Number(expiry) - Date.now()
      assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `${left} ms left, not about ${leaseMs}`)
      fields[digest] = holder
      fields[`${digest}:${holder}:expire_time`] = expiry
      fields[`${digest}:${holder}:lock_count`] = count
    }
    await expectKeys(lab.server, { [group]: { hash: fields, ttl } })
  }

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is one hash with three fields for each value, and the plain lock’s channel`, async () => {
      const client = await lab.connect()
      const messages = await recordMessages(lab)
      const lock = client.getFasterMultiLock(name, ['b', 'a', 'b'])
      const holder = `${client.id}:1`
      const expectCount = (count: string) =>
        expectGroup(name, { [A]: [holder, count, WATCHDOG_MS], [B]: [holder, count, WATCHDOG_MS] }, WATCHDOG_MS)
      const hold = await lock.lock()
      await expectCount('1')
      const again = await lock.lock({ within: hold })
      await expectCount('2')
      await again.unlock()
      await expectCount('1')
      await hold.unlock()
      await expectKeys(lab.server, {})
      assert.deepEqual(await messages(), [[`redisson_lock__channel:${tagged}`, '0']])
    })
  }

  it('of values that have nothing in common is one hash for both; its TTL is the longest lease', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const first = await client.getFasterMultiLock('order', ['a', 'b']).lock()
    const second = await other.getFasterMultiLock('order', ['line 1']).lock({ leaseTimeMs: 60_000 })
    const firsts = [first.holder, '1', WATCHDOG_MS] as const
    await expectGroup('order', { [A]: firsts, [B]: firsts, [C]: [second.holder, '1', 60_000] }, 60_000)
    await second.unlock()
    await expectGroup('order', { [A]: firsts, [B]: firsts }, 60_000)
    await first.unlock()
    await expectKeys(lab.server, {})
  })

  it('of a renewal is the expiry of its own fields, and the TTL of the hash', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const peer = await twin(lab)
    const hold = await client.getFasterMultiLock('order', ['a']).lock()
    await peer.groupAcquire('order', [B], 7, 1_200)
    const expiryOfPeer = await lab.server.admin.hget('order', `${B}:${peer.holder(7)}:expire_time`)
    await renewed([hold])
    assert.equal(await lab.server.admin.hget('order', `${B}:${peer.holder(7)}:expire_time`), expiryOfPeer)
    const left = Number(await lab.server.admin.hget('order', `${A}:${hold.holder}:expire_time`)) - Date.now()
    assert(left > 0 && left <= 2_400, `${left} ms`)
    await hold.unlock()
    await lab.server.admin.del('order')
  })

  it('of a forced release is HDEL of these values, whoever has them, and one message; of free values nothing', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const peer = await twin(lab)
    const first = await client.getFasterMultiLock('order', ['a']).lock()
    await peer.groupAcquire('order', [B], 7, WATCHDOG_MS)
    const kept = await client.getFasterMultiLock('order', ['line 1']).lock()
    const messages = await recordMessages(lab)
    const all = other.getFasterMultiLock('order', ['a', 'b', 'free'])
    assert.equal(await all.forceUnlock(), true)
    await expectGroup('order', { [C]: [kept.holder, '1', WATCHDOG_MS] }, WATCHDOG_MS)
    assert.equal(await all.forceUnlock(), false)
    assert.deepEqual(await messages(), [[CHANNEL, '0']])
    await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await kept.unlock()
  })

  it('of one who waits is the channel of the group, and nothing in the hash', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getFasterMultiLock('order', ['a']).lock()
    const waiting = other.getFasterMultiLock('order', ['b', 'a']).lock()
    await listening(lab)
    await expectGroup('order', { [A]: [hold.holder, '1', WATCHDOG_MS] }, WATCHDOG_MS)
    await hold.unlock()
    await (await waiting).unlock()
    await expectKeys(lab.server, {})
  })

  it('of an uncontended lock and unlock is two commands, however many values', async () => {
    const client = await lab.connect()
    const values = Array.from({ length: 50 }, (_, n) => `line ${n}`)
    const inside = ['hdel', 'hget', 'hlen', 'hset', 'pexpire', 'pttl', 'publish', 'time']
    await expectTwoCommands(lab, client.getFasterMultiLock('order', values), inside)
  })

  describe('with a peer that does what Redisson does', () => {
    it('is kept out by any value that it has, told for how long, and woken by its release', async () => {
      const client = await lab.connect()
      const peer = await twin(lab)
      await peer.groupAcquire('order', [B, C], 7, WATCHDOG_MS)
      const lock = client.getFasterMultiLock('order', ['a', 'b'])
      assert.equal(await lock.tryLock(), null)
      assert.deepEqual(await lock.getHolders(), [{ holder: peer.holder(7), holdCount: 1 }])
      const left = await lock.remainingLeaseMs()
      assert(left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS)
      const theirs = [peer.holder(7), '1', WATCHDOG_MS] as const
      await expectGroup('order', { [B]: theirs, [C]: theirs }, WATCHDOG_MS)
      const waiting = lock.lock()
      await listening(lab)
      const releasedAt = performance.now()
      assert.equal(await peer.groupRelease('order', [B, C], 7), 1)
      const hold = await waiting
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      await hold.unlock()
    })

    it('keeps it out and wakes it, and leaves its values alone', async () => {
      const client = await lab.connect()
      const peer = await twin(lab)
      const hold = await client.getFasterMultiLock('order', ['a', 'b']).lock()
      assert.equal(await peer.groupAcquire('order', [C], 8, WATCHDOG_MS), null)
      const left = await peer.groupAcquire('order', [B, C], 7, WATCHDOG_MS)
      assert(left !== null && left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS)
      const peerWaits = peer.groupLock('order', [B], 7, WATCHDOG_MS, 60_000)
      await waitUntil(() => peer.sleeping === 1)
      await hold.unlock()
      assert.equal(await peerWaits, true)
      const firsts = [peer.holder(7), '1', WATCHDOG_MS] as const
      await expectGroup('order', { [B]: firsts, [C]: [peer.holder(8), '1', WATCHDOG_MS] }, WATCHDOG_MS)
      assert.equal(await peer.groupRelease('order', [B], 7), 1)
      assert.equal(await peer.groupRelease('order', [C], 8), 1)
    })

    it('takes values whose lease at it is over, and forgets all that it left of them', async () => {
      const client = await lab.connect()
      const peer = await twin(lab)
      await peer.groupAcquire('order', [C], 8, WATCHDOG_MS) // keeps the hash alive
      await peer.groupAcquire('order', [A, B], 7, 50)
      await sleep(100)
      const lock = client.getFasterMultiLock('order', ['a', 'b'])
      assert.equal(await lock.isLocked(), false)
      const hold = await lock.lock()
      const ours = [hold.holder, '1', WATCHDOG_MS] as const
      const theirs = [peer.holder(8), '1', WATCHDOG_MS] as const
      await expectGroup('order', { [A]: ours, [B]: ours, [C]: theirs }, WATCHDOG_MS)
      assert.equal(await peer.groupRelease('order', [A, B], 7), null)
      await hold.unlock()
      await expectGroup('order', { [C]: theirs }, WATCHDOG_MS)
      await peer.groupRelease('order', [C], 8)
    })
  })
})

describe('locks of several kinds with the hash of the plain lock', () => {
  const lab = setUpLab()
  const kinds: Readonly<Record<string, (client: Client) => Pick<Lock, 'lock' | 'tryLock' | 'getHolders'>>> = {
    plain: (client) => client.getLock('order'),
    fair: (client) => client.getFairLock('order'),
    'non-reentrant': (client) => client.getNonReentrantLock('order'),
    'non-reentrant fair': (client) => client.getNonReentrantFairLock('order'),
    fenced: (client) => client.getFencedLock('order'),
    spin: (client) => client.getSpinLock('order'),
  }

  for (const [title, lockOf] of Object.entries(kinds)) {
    it(`exclude each other on one name: ${title}`, async () => {
      lab.onEnd(() => lab.server.admin.del('redisson_lock_token:{order}'))
      const [client, other] = [await lab.connect(), await lab.connect()]
      const hold = await lockOf(client).lock()
      for (const otherKind of Object.values(kinds)) {
        assert.equal(await otherKind(other).tryLock(), null)
        assert.deepEqual(await otherKind(other).getHolders(), [{ holder: hold.holder, holdCount: 1 }])
      }
      await hold.unlock()
    })
  }
})
