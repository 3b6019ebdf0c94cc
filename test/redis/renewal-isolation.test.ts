/** Holds are renewed independently of each other: an end or a failure of one does not stop the others. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { renewed } from '../support/renewed.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Each test shows that a known defect of Redisson’s RedissonBaseLock does not occur here. */
describe('the renewals of many holds', () => {
  const fixture = setUpFixture()

  it('releasing a read inside a write does not stop the renewal of the write', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getReadWriteLock('a')
    const write = await lock.writeLock().lock()
    await (await lock.readLock().lock({ within: write })).unlock()
    await renewed([write])
    assert.equal(await write.isHeld(), true)
    await write.unlock()
  })

  it('failed renewals do not stop other renewals', async () => {
    const { admin } = fixture.server
    await admin.acl('SETUSER', 'app', 'reset', 'on', '>hunter2', '+@all', '~*', '&*')
    fixture.onEnd(() => admin.acl('DELUSER', 'app'))
    const url = fixture.server.url.replace('redis://', 'redis://app:hunter2@')
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_800 }, url)
    const reads = await Promise.all(['a', 'b'].map((name) => client.getReadWriteLock(name).readLock().lock()))
    const holds = await Promise.all(['c', 'd'].map((name) => client.getLock(name).lock()))
    await admin.acl('SETUSER', 'app', '-set') // what renews a read hold
    await waitUntil(() => reads.every((read) => read.signal.aborted))
    await renewed(holds)
    for (const hold of holds) await hold.unlock()
    await waitUntil(async () => (await admin.dbsize()) === 0)
  })

  it('after one owner lost a lock, the next owner of the same name and process is renewed', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getLock('a')
    const lost = await lock.lock()
    for (let n = 0; n < 3; n++) await lock.lock({ within: lost })
    await fixture.server.admin.del('a')
    const hold = await lock.lock()
    await renewed([hold])
    assert.equal(lost.signal.aborted, true)
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
  })

  it('repeated lock and unlock leave no extra renewal timers', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const lock = client.getLock('a')
    for (let round = 0; round < 400; round++) await (await lock.lock()).unlock()
    const hold = await lock.lock()
    const count = await countCommands(fixture.server, () => renewed([hold], 3))
    assert(count.scripts <= 4, `${count.scripts} scripts for 3 renewals`)
    await hold.unlock()
  })

  it('a reader that joins while the last one leaves is renewed', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getReadWriteLock('a').readLock()
    let read: Hold = await lock.lock()
    for (let round = 0; round < 50; round++) {
      const [, next] = await Promise.all([read.unlock(), lock.lock()])
      read = next
    }
    await renewed([read])
    assert.equal(await read.isHeld(), true)
    await read.unlock()
  })

  it('faster multi-locks with different values of one group are each renewed', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const holds = await Promise.all(
      [['a'], ['b', 'c'], ['d']].map((values) => client.getFasterMultiLock('group', values).lock()),
    )
    await renewed(holds)
    for (const hold of holds) assert.equal(await hold.isHeld(), true)
    for (const hold of holds) await hold.unlock()
  })

  it('a loss is reported by the signal, an event and the next call', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const losses: LeaseLostError[] = []
    client.on('lost', ({ error }) => losses.push(error))
    const locks = [client.getLock('a'), client.getFairLock('b'), client.getReadWriteLock('c').readLock()]
    const holds = await Promise.all(locks.map((lock) => lock.lock()))
    await fixture.server.admin.flushall()
    await waitUntil(() => holds.every((hold) => hold.signal.aborted))
    assert.deepEqual(
      losses.map(({ reason }) => reason),
      ['gone', 'gone', 'gone'],
    )
    for (const hold of holds) {
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    }
  })

  it('slow renewals do not stretch the renewal period', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ lockWatchdogTimeoutMs: 1_200 })
    const hold = await client.getLock('a').lock()
    proxy.delay(400)
    await sleep(500)
    const count = await countCommands(fixture.server, () => sleep(4_000))
    assert(count.scripts >= 7, `${count.scripts} renewals in 10 periods; each as long as a period leaves 5`)
    hold.assertHeld()
    proxy.pass()
    await hold.unlock()
  })

  it('releasing an inner hold neither stops a renewal that the outer one needs nor starts one that it does not have', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_800 })
    const kept = await client.getLock('a').lock()
    await (await client.getLock('a').lock({ within: kept, leaseTimeMs: 100 })).unlock()
    const leased = await client.getLock('b').lock({ leaseTimeMs: 3_000 })
    await (await client.getLock('b').lock({ within: leased })).unlock()
    await renewed([kept])
    leased.assertHeld()
    assert((await fixture.server.admin.pttl('b')) > 0)
    await waitUntil(() => leased.signal.aborted)
    assert.equal(await kept.isHeld(), true)
    await kept.unlock()
  })
})
