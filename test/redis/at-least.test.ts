/** `atLeastMs`: at most one run per period, whatever becomes of the run. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { lockOfKind } from '../../src/client.js'
import { getMultiLock, getRedLock } from '../../src/index.js'
import { KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { setUpFixture } from '../support/fixture.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const MINUTE = 60_000

describe('atLeastMs', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^(\{?job|redisson_lock_token:)/ })

  const commandsSoFar = async (): Promise<number> => {
    const stats = await fixture.server.admin.info('commandstats')
    return [...stats.matchAll(/cmdstat_eval\w*:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0)
  }

  for (const id of NAMED_KIND_IDS.filter((id) => !KINDS[id].isShared)) {
    it(`atLeastMs lets a ${KINDS[id].title} run once per period across clients, however short the run`, async () => {
      const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
      const outcomes = []
      for (const client of [...clients, ...clients]) {
        outcomes.push(await lockOfKind(client, id, 'job').tryWithLock({ atLeastMs: MINUTE }, () => 'done'))
      }
      assert.deepEqual(outcomes, [{ ran: true, value: 'done' }, ...Array(5).fill({ ran: false })])
    })
  }

  it('atLeastMs keeps the lock for the rest of the period by its lease, without a command', async () => {
    const client = await fixture.connect()
    let before = 0
    await client.getLock('job').withLock({ atLeastMs: MINUTE }, async () => {
      before = await commandsSoFar()
    })
    assert.equal(await commandsSoFar(), before)
    const leftMs = await fixture.server.admin.pttl('job')
    assert(leftMs > MINUTE - 10_000 && leftMs <= MINUTE, `${leftMs} ms`)
    assert.equal(await fixture.server.admin.hlen('job'), 1) // a lock of Redisson like any other
    await client.close()
    assert(await fixture.server.admin.exists('job'))
  })

  it('atLeastMs ends with the period although the lease of the watchdog is longer', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const startedAt = performance.now()
    await client.getLock('job').withLock({ atLeastMs: 700 }, () => {})
    assert((await fixture.server.admin.pttl('job')) <= 700)
    const hold = await other.getLock('job').lock({ waitTimeMs: 20_000 })
    assert(performance.now() - startedAt >= 700)
    await hold.unlock()
  })

  it('atLeastMs does not delay the release of a run that takes longer than the period', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    await client.getLock('job').withLock({ atLeastMs: 100 }, async (hold) => {
      await sleep(500)
      hold.assertHeld()
    })
    assert.equal(await fixture.server.admin.exists('job'), 0)
  })

  it('atLeastMs renews a run that takes longer than the lease, and keeps the lock after it', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    await client.getLock('job').withLock({ atLeastMs: MINUTE }, async (hold) => {
      await sleep(700)
      hold.assertHeld()
    })
    assert((await fixture.server.admin.pttl('job')) > MINUTE - 20_000)
  })

  it('atLeastMs counts a run that failed, was lost or was cut off by close()', async () => {
    const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()] as const
    const failing = clients[0].getLock('job 1').withLock({ atLeastMs: MINUTE }, () => Promise.reject(new Error('no')))
    await assert.rejects(failing, { message: 'no' })

    const losing = clients[1].getLock('job 2').withLock({ atLeastMs: MINUTE, leaseTimeMs: 50 }, () => sleep(100))
    await assert.rejects(losing, { code: 'LOCK_LEASE_LOST', reason: 'expired' })

    let isRunning = false
    const cut = clients[2].getLock('job 3').withLock({ atLeastMs: MINUTE }, async (hold) => {
      isRunning = true
      while (!hold.signal.aborted) await sleep(5)
    })
    const ended = settlesWithin(cut, 10_000)
    await waitUntil(() => isRunning)
    await clients[2].close()
    assert.equal((await ended).status, 'rejected')

    await sleep(100) // no release comes later
    for (const name of ['job 1', 'job 2', 'job 3']) {
      assert((await fixture.server.admin.pttl(name)) > MINUTE - 20_000, name)
    }
  })

  it('atLeastMs lets a waiter of the same client run only after the period', async () => {
    const lock = (await fixture.connect()).getLock('job')
    const startedAt: number[] = []
    const run = () => lock.withLock({ atLeastMs: 600 }, () => startedAt.push(performance.now()))
    // A period begins with the grant, which is earlier than the function: after a stall, by more than a little.
    const begin = performance.now()
    await Promise.all([run(), run()])
    const [, second = 0] = startedAt
    assert(second - begin >= 590, `${second - begin} ms`)
    // One without a period of its own waits, too, and releases the lock.
    await lock.withLock(() => startedAt.push(performance.now()))
    const [, , third = 0] = startedAt
    assert(third - begin >= 1_180, `${third - begin} ms`)
    assert.equal(await fixture.server.admin.exists('job'), 0)
  })

  it('the error of a caller that waits in vain names atLeastMs', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    await client.getLock('job').withLock({ atLeastMs: MINUTE }, () => {})
    for (const [by, who] of [
      [client, 'this client'],
      [other, 'another client of this process'],
    ] as const) {
      await assert.rejects(
        by.withLock('job', { waitTimeMs: 20 }, () => assert.fail()),
        {
          code: 'LOCK_WAIT_TIMEOUT',
          heldBy: new RegExp(
            `^held by ${who}, which has ended its hold: it keeps the lock for atLeastMs,.*ends in \\d+ s`,
          ),
        },
      )
    }
  })

  it('atLeastMs does not keep the lock for a caller that left before its run', async () => {
    const client = await fixture.connect()
    const abort = new AbortController()
    const running = client
      .getLock('job')
      .withLock({ atLeastMs: MINUTE, signal: abort.signal }, () => assert.fail('must not run'))
    abort.abort(new Error('left'))
    await assert.rejects(running, { message: 'left' })
    await waitUntil(async () => (await fixture.server.admin.exists('job')) === 0)
  })

  it('atLeastMs of a re-entry is ignored: it is part of the outer run', async () => {
    const lock = (await fixture.connect()).getLock('job')
    await lock.withLock(async () => {
      assert.deepEqual(await lock.tryWithLock({ atLeastMs: MINUTE }, () => 'inner'), { ran: true, value: 'inner' })
    })
    assert.equal(await fixture.server.admin.exists('job'), 0)
  })

  it('atLeastMs is refused where it cannot work, before anything is sent', async () => {
    const client = await fixture.connect()
    const locks = [client.getLock('job 1'), client.getLock('job 2'), client.getLock('job 3')] as const
    const refused = { code: 'LOCK_CONFIG', path: 'atLeastMs' }
    for (const lock of [client.getReadWriteLock('job').readLock(), getMultiLock(...locks), getRedLock(...locks)]) {
      await assert.rejects(
        lock.tryWithLock({ atLeastMs: MINUTE }, () => assert.fail()),
        refused,
      )
    }
    for (const atLeastMs of [9, 0.5, '1m' as never]) {
      await assert.rejects(
        locks[0].tryWithLock({ atLeastMs }, () => assert.fail()),
        refused,
      )
    }
    await assert.rejects(locks[0].lock({ atLeastMs: MINUTE } as never), refused)
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })
})
