import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { countCommands, recordMonitor } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { renewed } from '../support/renewed.js'
import { sleep, waitUntil } from '../support/wait-until.js'

function isLost(error: LeaseLostError): false {
  assert.equal(error.code, 'LOCK_LEASE_LOST')
  return false
}

describe('the watchdog', () => {
  const fixture = setUpFixture()

  it('the watchdog renews a hold every third of its lease to the full lease', async () => {
    const leaseMs = 1_500
    const client = await fixture.connect({ lockWatchdogTimeoutMs: leaseMs })
    const hold = await client.getLock('a').lock()
    let least = Number.POSITIVE_INFINITY
    let rises = 0
    let last = leaseMs
    const startedAt = performance.now()
    while (rises < 4) {
      const pttl = await fixture.server.admin.pttl('a')
      least = Math.min(least, pttl)
      if (pttl > last + 50) rises++
      last = pttl
      await sleep(10)
    }
    const tookMs = performance.now() - startedAt
    assert(least > 0, `${least} ms left at least`)
    assert(last > leaseMs / 2, `renewed to ${last} ms`)
    assert(tookMs > 3.5 * (leaseMs / 3), `${rises} renewals in ${tookMs} ms, lease ${leaseMs} ms`)
    hold.assertHeld()
    await hold.unlock()
  })

  it('the watchdog renews 250 locks with 3 scripts a period, and none is lost', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const holds = await Promise.all(Array.from({ length: 250 }, (_, n) => client.getLock(`lock:${n}`).lock()))
    const count = await countCommands(fixture.server, () => renewed(holds, 3))
    // A stall may split what is renewed together.
    assert(count.scripts >= 9 && count.scripts <= 14, `${count.scripts} scripts in 3 periods`)
    await Promise.all(holds.map((hold) => hold.unlock()))
  })

  it('the watchdog does not renew a hold with a fixed lease', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    const hold = await client.getLock('a').lock({ leaseTimeMs: 800 })
    const count = await countCommands(fixture.server, () => sleep(500))
    assert.equal(count.scripts, 0)
    hold.assertHeld()
    await waitUntil(() => hold.signal.aborted)
  })

  it('the watchdog renews each owner separately, with the longest lease of nested holds', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const hold = await client.getLock('a').lock()
    const long = await client.getLock('a').lock({ within: hold, leaseTimeMs: 60_000 })
    await renewed([hold], 1)
    const pttl = await fixture.server.admin.pttl('a')
    assert(pttl > 30_000, `a renewal did not cut the longer lease: ${pttl} ms`)
    long.assertHeld()
    await long.unlock()
    // The longer lease is left to the outer hold, so that a renewal does not move its deadline.
    const lease = hold.lease as Lease
    const { leasedAt } = lease
    await waitUntil(() => lease.leasedAt > leasedAt)
    hold.assertHeld()
    const leftMs = await fixture.server.admin.pttl('a')
    assert(hold.remainingMs() <= leftMs)
    await hold.unlock()
  })

  it('an outer hold with a fixed lease is kept as long as a nested hold is renewed', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 6_000 })
    const lost: unknown[] = []
    client.on('lost', (loss) => lost.push(loss))
    const outer = await client.getLock('a').lock({ leaseTimeMs: 2_000 })
    const inner = await client.getLock('a').lock({ within: outer })
    await sleep(2_300)
    outer.assertHeld()
    await inner.unlock()
    outer.assertHeld()
    assert.equal(await outer.isHeld(), true)
    await outer.unlock()
    assert.deepEqual(lost, [])
    assert.equal(await fixture.server.admin.exists('a'), 0)
  })

  it('an outer hold with a fixed lease has the lease of the watchdog, unrenewed, once the nested hold is released', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 3_000 })
    const outer = await client.getLock('a').lock({ leaseTimeMs: 800 })
    await (await client.getLock('a').lock({ within: outer })).unlock()
    const leftMs = await fixture.server.admin.pttl('a')
    const believedMs = outer.remainingMs()
    assert(believedMs > 800 && believedMs <= leftMs, `${believedMs} ms, ${leftMs} in Redis`)
    await waitUntil(() => outer.signal.aborted)
    await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
  })

  it('nothing is renewed after its release was sent, whenever that is', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 60 })
    const monitor = await recordMonitor(fixture.server)
    fixture.onEnd(() => monitor.stop())
    const [released, notified, lost] = [new Set<string>(), new Set<string>(), new Set<string>()]
    client.on('lost', ({ hold }) => notified.add(hold.holder))
    while (released.size < 60) {
      const hold = await client.getLock('a').lock()
      await sleep(released.size % 25)
      // A machine that stood still for 60 ms has lost it: that is not what this is about.
      const isReleased = await hold.unlock().then(() => true, isLost)
      const outcome = isReleased ? released : lost
      outcome.add(hold.holder)
    }
    await sleep(100)
    const lines = await monitor.stop()
    const releasedAt = new Map<string, number>()
    for (const { args, source } of lines) {
      if (source === 'lua') continue
      for (const holder of args.filter((word) => released.has(word))) {
        const isRelease = args.includes('redisson_lock__channel:{a}')
        // A release without a reply is repeated; nothing else may follow it.
        assert(isRelease || !releasedAt.has(holder), `${args.slice(0, 2).join(' ')} of ${holder} after its release`)
        if (isRelease) releasedAt.set(holder, 1)
      }
    }
    assert.equal(releasedAt.size, 60)
    assert.deepEqual(notified, lost)
    assert.equal(await client.getLock('a').isLocked(), false)
  })

  it('the holder is notified within one renewal that an operator deleted, renamed or flushed the lock', async () => {
    const leaseMs = 1_500
    const client = await fixture.connect({ lockWatchdogTimeoutMs: leaseMs })
    const { admin } = fixture.server
    for (const fault of [() => admin.del('a'), () => admin.rename('a', 'b'), () => admin.flushall()]) {
      const lost: { hold: Hold; error: LeaseLostError }[] = []
      const onLost = (loss: { hold: Hold; error: LeaseLostError }): void => void lost.push(loss)
      client.on('lost', onLost)
      const hold = await client.getLock('a').lock({ label: 'nightly job' })
      let aborts = 0
      hold.signal.addEventListener('abort', () => aborts++)
      await fault()
      await waitUntil(() => hold.signal.aborted, { timeoutMs: leaseMs })
      await sleep(250)
      assert.deepEqual([lost.length, aborts], [1, 1], 'reported once')
      assert.equal(lost[0]?.hold.label, 'nightly job')
      assert.equal(lost[0]?.error.reason, 'gone')
      client.off('lost', onLost)
      await admin.flushall()
    }
  })

  it('a lock that lost its expiry gets its lease back', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const hold = await client.getLock('a').lock()
    await fixture.server.admin.persist('a')
    assert.equal(await client.getLock('a').remainingLeaseMs(), Number.POSITIVE_INFINITY)
    await waitUntil(async () => (await fixture.server.admin.pttl('a')) > 0)
    await hold.unlock()
  })

  it('a lost hold is never revived, even if another client acquired and released the lock meanwhile', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 300 })
    const hold = await client.getLock('a').lock()
    await fixture.server.admin.del('a')
    await sleep(350)
    assert.equal(await fixture.server.admin.exists('a'), 0)
    assert.equal(await hold.isHeld(), false)
  })

  it('renewal ends at maxHoldMs: the signal aborts, and the lock is free after its lease', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const other = await fixture.connect()
    const hold = await client.getLock('a').lock({ maxHoldMs: 2_000 })
    const startedAt = performance.now()
    await waitUntil(() => hold.signal.aborted)
    const heldMs = performance.now() - startedAt
    assert(heldMs > 1_900 && heldMs < 3_500, `aborted after ${heldMs} ms`)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    const next = await other.getLock('a').lock({ waitTimeMs: 3_500 })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    assert.equal(await next.isHeld(), true)
    await next.unlock()
  })

  it('a task that reacts to maxHoldMs releases the lock at once', async () => {
    const client = await fixture.connect({ maxHoldMs: 100 })
    await assert.rejects(
      client.getLock('a').withLock(async (hold) => await waitUntil(() => hold.signal.aborted)),
      { code: 'LOCK_LEASE_LOST', reason: 'maxHold' },
    )
    await waitUntil(async () => !(await client.getLock('a').isLocked()), { timeoutMs: 500 })
  })

  it('long holds and long waits are reported once each', async () => {
    const client = await fixture.connect({ warnAfterMs: 100 })
    const reports: string[] = []
    client.on('longHold', ({ hold, heldMs }) => reports.push(`hold ${hold.label} ${heldMs >= 100}`))
    client.on('longWait', ({ lockName, label, waitedMs }) => reports.push(`wait ${lockName} ${label} ${waitedMs}`))
    const hold = await client.getLock('a').lock({ label: 'first' })
    const waiting = client.getLock('a').lock({ label: 'second', warnAfterMs: 150 })
    await sleep(400)
    assert.deepEqual(reports, ['hold first true', 'wait a second 150'])
    await hold.unlock()
    await (await waiting).unlock()
  })

  it('the watchdog warns once when Redis refuses its renewals', async () => {
    const { url, admin } = fixture.server
    await admin.acl('SETUSER', 'app', 'on', '>hunter2', '+@all', '~*', '&*')
    fixture.onEnd(() => admin.acl('DELUSER', 'app')) // after the client, whose connection it would end
    const client = await fixture.connect(
      { lockWatchdogTimeoutMs: 600 },
      url.replace('redis://', 'redis://app:hunter2@'),
    )
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    const hold = await client.getLock('a').lock()
    await admin.acl('SETUSER', 'app', '-pexpire')
    await waitUntil(() => hold.signal.aborted)
    assert.equal(warnings.length, 1)
    assert.match(warnings[0]?.message ?? '', /refuses to renew/)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
  })

  it('a listener that throws does not stop the watchdog', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const warnings: string[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning.message)
    process.on('warning', onWarning)
    client.on('lost', () => {
      throw new Error('a bug of the listener')
    })
    const [lost, kept] = await Promise.all([client.getLock('a').lock(), client.getLock('b').lock()])
    await fixture.server.admin.del('a')
    await waitUntil(() => lost.signal.aborted)
    await renewed([kept])
    await kept.unlock()
    process.off('warning', onWarning)
    assert.deepEqual(warnings, ['a bug of the listener'])
  })
})
