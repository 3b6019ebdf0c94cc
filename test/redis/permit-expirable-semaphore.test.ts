import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LeaseLostError } from '../../src/index.js'
import { idOf, LEASES, permitContract, semaphoreWith } from '../contract/permit-expirable-semaphore.js'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import { renewed } from '../support/renewed.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { repliesForgotten } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const VICTIM = new URL('../support/processes/permit-process.js', import.meta.url)
for (const driver of drivers) {
  describe(`a permit-expirable semaphore, through ${driver.name}`, () => permitContract(() => setUpFixture(driver)))
}

describe('a permit-expirable semaphore in order', () => permitContract(() => setUpFixture(), { order: 'fifo' }))

describe('a permit-expirable semaphore', () => {
  const fixture = setUpFixture()

  it('invalid arguments are refused by name and value, and nothing is sent', async () => {
    const client = await fixture.connect()
    const semaphore = client.getPermitExpirableSemaphore('a')
    const refusal = (path: string) => ({ code: 'LOCK_CONFIG', path, lockName: 'a' })
    const id = '0'.repeat(32)
    const count = await countCommands(fixture.server, async () => {
      for (const value of [Number.NaN, 1.5, -1, 2 ** 31, Number.POSITIVE_INFINITY, '1', null, {}, 1n, true]) {
        const permits = value as number
        for (const call of [
          () => semaphore.acquire({ permits }),
          () => semaphore.tryAcquire({ permits }),
          () => semaphore.withPermit({ permits }, () => {}),
          () => semaphore.tryWithPermit({ permits }, () => {}),
          () => semaphore.trySetPermits(permits),
          () => semaphore.setPermits(permits),
          () => semaphore.addPermits(permits),
          () => semaphore.reducePermits(permits),
        ]) {
          await assert.rejects(call, refusal('permits'), `${typeof value} ${String(value)}`)
        }
      }
      for (const permits of [0, 1_001]) await assert.rejects(semaphore.acquire({ permits }), refusal('permits'))
      for (const value of [Number.NaN, -1, 0.5, '10', null]) {
        const ms = value as number
        for (const option of ['waitTimeMs', 'leaseTimeMs', 'maxHoldMs', 'warnAfterMs']) {
          await assert.rejects(semaphore.acquire({ [option]: ms }), refusal(option))
          await assert.rejects(semaphore.tryAcquire({ [option]: ms }), refusal(option))
        }
        await assert.rejects(semaphore.updateLeaseTime(id, ms), refusal('leaseTimeMs'))
      }
      await assert.rejects(semaphore.acquire({ leaseTimeMs: 9 }), refusal('leaseTimeMs'))
      await assert.rejects(semaphore.acquire({ signal: {} as AbortSignal }), refusal('signal'))
      await assert.rejects(semaphore.acquire({ leaseTime: 1 } as object), refusal('leaseTime'))
      await assert.rejects(semaphore.acquire({ within: undefined } as object), refusal('within'))
      await assert.rejects(semaphore.acquire({ onAcquire: () => {} } as object), refusal('onAcquire'))
      await assert.rejects(semaphore.acquire(null as unknown as object), refusal('options'))
      await assert.rejects(semaphore.withPermit({}, undefined as unknown as () => void), refusal('fn'))
      await assert.rejects(
        semaphore.withPermit({ onRelease: 7 as unknown as () => void }, () => {}),
        refusal('onRelease'),
      )
      for (const value of [7, undefined, null]) {
        const bad = value as unknown as string
        await assert.rejects(semaphore.release(bad), refusal('permitId'))
        await assert.rejects(semaphore.tryRelease(bad), refusal('permitId'))
        await assert.rejects(semaphore.updateLeaseTime(bad, 1_000), refusal('permitId'))
        await assert.rejects(semaphore.getLeaseTime(bad), refusal('permitId'))
      }
      for (const [value, path] of [
        [[], 'permitIds'],
        [Array.from({ length: 1_001 }, (_, index) => index.toString(16).padStart(32, '0')), 'permitIds'],
        [[id, id], 'permitIds'],
        [['no id', 'no id'], 'permitIds'],
        [[id.toUpperCase(), id.toLowerCase()], 'permitIds'],
        [[id, 7], 'permitIds[1]'],
        [['no id', undefined], 'permitIds[1]'],
        [new Array(1), 'permitIds[0]'],
      ] as const) {
        await assert.rejects(semaphore.release(value as string[]), refusal(path))
        await assert.rejects(semaphore.tryRelease(value as string[]), refusal(path))
      }
      // Text that came over the wire: nobody holds a permit with such an id.
      const notHeld = { code: 'LOCK_NOT_HELD', lockName: semaphore.name }
      for (const unknown of ['', '1234', 'g'.repeat(32), '0'.repeat(31), '0'.repeat(33), `${id}\n`]) {
        await assert.rejects(semaphore.release(unknown), notHeld)
        await assert.rejects(semaphore.release([id, unknown]), notHeld)
        assert.equal(await semaphore.tryRelease(unknown), false)
        assert.equal(await semaphore.updateLeaseTime(unknown, 1_000), false)
        await assert.rejects(semaphore.getLeaseTime(unknown), notHeld)
      }
    })
    assert.equal(count.total, 0)
    for (const name of ['', 7, null, 'a\ud800']) {
      assert.throws(() => client.getPermitExpirableSemaphore(name as string), { code: 'LOCK_CONFIG' })
    }
  })

  it('a permit acquire and release costs two commands, however many permits', async () => {
    const { semaphore } = await semaphoreWith(fixture, 100)
    await (await semaphore.acquire()).unlock()
    await repliesForgotten(fixture)
    const count = await countCommands(fixture.server, async () => {
      for (let n = 1; n <= 50; n++) await (await semaphore.acquire({ permits: n })).unlock()
    })
    assert.equal(count.scripts, 100)
  })

  it('a thousand permits are granted at once', async () => {
    const { semaphore } = await semaphoreWith(fixture, 1_000)
    const permit = await semaphore.acquire({ permits: 1_000 })
    assert.equal(new Set(permit.permitIds).size, 1_000)
    assert.equal(await semaphore.acquiredPermits(), 1_000)
    await permit.unlock()
  })

  it('the lease of a permit is read and changed by its id', async () => {
    const { semaphore } = await semaphoreWith(fixture, 2)
    const other = (await fixture.connect()).getPermitExpirableSemaphore('a')
    const permit = await semaphore.acquire({ leaseTimeMs: 20_000 })
    const id = idOf(permit)
    const expectLease = async (ms: number) => {
      const left = await other.getLeaseTime(id)
      assert(left > ms - 4_000 && left <= ms, `${left} ms, not about ${ms}`)
    }
    await expectLease(20_000)
    assert.equal(await other.updateLeaseTime(id, 60_000), true)
    await expectLease(60_000)
    assert.equal(await other.updateLeaseTime(id, 50), true)
    await waitUntil(async () => (await other.availablePermits()) === 2)
    await assert.rejects(other.getLeaseTime(id), { code: 'LOCK_NOT_HELD' })
    assert.equal(await other.updateLeaseTime(id, 1_000), false)
    assert.equal(await other.acquiredPermits(), 0)
    await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('a permit ends at maxHoldMs, whoever renews it', async () => {
    const { client, semaphore } = await semaphoreWith(fixture, 1, { lockWatchdogTimeoutMs: 1_800 })
    const lost: unknown[] = []
    client.on('lost', ({ hold, error }) => lost.push([hold, error.reason]))
    const permit = await semaphore.acquire({ maxHoldMs: 2_200 })
    await renewed([permit], 1)
    await waitUntil(() => permit.signal.aborted)
    assert.deepEqual(lost, [[permit, 'maxHold']])
    const next = await semaphore.acquire()
    await next.unlock()
  })

  it('a permit is lost with the data of Redis, and the holder is notified at its next renewal', async () => {
    const { client, semaphore } = await semaphoreWith(fixture, 2, { lockWatchdogTimeoutMs: 2_400 })
    const other = await fixture.connect()
    const permit = await semaphore.acquire()
    assert.equal(await other.getPermitExpirableSemaphore('a').delete(), true)
    await waitUntil(() => permit.signal.aborted)
    assert.equal((permit.signal.reason as LeaseLostError).reason, 'gone')
    assert.equal(await client.getPermitExpirableSemaphore('a').acquiredPermits(), 0)
    await assert.rejects(
      semaphore.trySetPermits(2).then(() =>
        semaphore.withPermit(async (hold) => {
          await fixture.server.admin.zrem(LEASES, Buffer.from(idOf(hold), 'hex'))
          await fixture.server.admin.incr('a')
          await waitUntil(() => hold.signal.aborted)
        }),
      ),
      { code: 'LOCK_LEASE_LOST', reason: 'gone' },
    )
    await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('permits of a killed process return when their lease ends, and not before', async () => {
    const { semaphore } = await semaphoreWith(fixture, 3)
    const child = spawnChild(VICTIM, [fixture.server.url, '2'])
    fixture.onEnd(() => child.stop())
    const { permitIds } = await child.nextMessage<{ permitIds: string[] }>()
    await sleep(1_000)
    const left = await semaphore.getLeaseTime(permitIds[0] ?? '')
    assert(left > 0 && left <= 1_500, `renewed: ${left} ms left`)
    const waiting = semaphore.acquire({ permits: 3 })
    await listening(fixture)
    await child.stop()
    const [leftAtKill, killedAt] = [await semaphore.getLeaseTime(permitIds[0] ?? ''), performance.now()]
    const permit = await waiting
    const waitedMs = performance.now() - killedAt
    assert(waitedMs >= leftAtKill - 50 && waitedMs < leftAtKill + WOKEN_MS, `${waitedMs} ms, lease ${leftAtKill} ms`)
    await permit.unlock()
  })

  it('a permit with a lease is not delayed by a waiter for permits without leases of the same name', async () => {
    const { client, semaphore } = await semaphoreWith(fixture, 1)
    const gone = await semaphore.acquire({ leaseTimeMs: 300 })
    const abort = new AbortController()
    const plain = settlesWithin(client.getSemaphore('a').acquire({ signal: abort.signal }), 10_000)
    await listening(fixture)
    const waiting = semaphore.acquire({ waitTimeMs: 5_000 })
    const first = await Promise.race([plain.then(() => 'plain'), waiting.then(() => 'leased')])
    assert(gone.signal.aborted)
    if (first === 'plain') await client.getSemaphore('a').release()
    await (await waiting).unlock()
    abort.abort()
    const outcome = await plain
    if (first !== 'plain' && outcome.status === 'fulfilled') await client.getSemaphore('a').release()
  })

  it('long waits and holds of permits are reported', async () => {
    const { client, semaphore } = await semaphoreWith(fixture, 1)
    const events: unknown[] = []
    client.on('longWait', ({ lockName, label }) => events.push(['longWait', lockName, label]))
    client.on('longHold', ({ hold }) => events.push(['longHold', hold.lockName, hold.label]))
    const permit = await semaphore.acquire({ warnAfterMs: 50, label: 'first' })
    assert.equal(await semaphore.tryAcquire({ waitTimeMs: 200, warnAfterMs: 100, label: 'second' }), null)
    assert.deepEqual(events, [
      ['longHold', 'a', 'first'],
      ['longWait', 'a', 'second'],
    ])
    await permit.unlock()
  })
})
