import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { describe, it } from 'node:test'
import { type Client, getMultiLock, type KnownHolder, type Lock, WaitTimeoutError } from '../../src/index.js'
import type { ClientEvents } from '../../src/locks/context.js'
import { applicationOf } from '../../src/platform.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import { listening, REDISSON_CHANNELS } from '../support/subscribers.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

const REDISSON = '8743c9c0-0795-4907-87fd-6c719a6b4586'

async function timeoutOf(waiting: Promise<unknown>): Promise<WaitTimeoutError> {
  const error = await waiting.then(
    () => assert.fail('the lock should not be free'),
    (error: unknown) => error,
  )
  assert(error instanceof WaitTimeoutError, String(error))
  return error
}

describe('a call that waited in vain says who holds the lock', () => {
  const fixture = setUpFixture()

  it('a call that waited in vain names this client, since when and its label, without a command', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('a').lock({ label: 'refund' })
    await client.getLock('a').tryLock({ waitTimeMs: 20 }) // Redis knows the scripts from here on
    await listening(fixture, 0, REDISSON_CHANNELS) // its UNSUBSCRIBE is not counted
    const tryOnce = async (): Promise<unknown> => await client.getLock('a').tryLock()
    const refused = await countCommands(fixture.server, tryOnce)
    const count = await countCommands(fixture.server, async () => {
      const error = await timeoutOf(client.getLock('a').lock({ waitTimeMs: 0 }))
      assert.match(error.heldBy ?? '', /^held by this client, taken [\d.]+ s ago, label "refund"$/)
      assert(error.message.includes(`within 0 ms: ${error.heldBy}. Wait longer`), error.message)
      assert.deepEqual(
        error.holders.map(({ holder, label, status }) => [holder, label, status]),
        [[hold.holder, 'refund', 'responding']],
      )
    })
    assert.deepEqual(count.calls, refused.calls)
    await hold.unlock()
  })

  it('a call that waited in vain names another client of this process', async () => {
    const [one, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await other.getLock('a').lock({ label: 'refund' })
    const { heldBy, holders } = await timeoutOf(one.getLock('a').withLock({ waitTimeMs: 20 }, () => {}))
    const [{ holder, label, status, heldMs = -1 }, ...more] = holders as [KnownHolder]
    assert.deepEqual([holder, label, status, more], [hold.holder, 'refund', 'responding', []])
    assert(heldMs >= 0)
    assert.match(heldBy ?? '', /^held by another client of this process, taken [\d.]+ s ago, label "refund"$/)
    await hold.unlock()
  })

  it('a call that waited in vain names a Redisson client, with its id and its lease', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    await admin.hset('a', `${REDISSON}:54`, '1')
    await admin.pexpire('a', 30_000)
    const { heldBy, holders } = await timeoutOf(client.getLock('a').lock({ waitTimeMs: 20 }))
    assert.deepEqual(holders, [{ holder: `${REDISSON}:54`, holdCount: 1 }])
    assert.match(
      heldBy ?? '',
      new RegExp(
        `^held by a Redisson client ${REDISSON} \\(thread 54\\), whose lease ends in (29|30) s unless renewed$`,
      ),
    )
    await admin.del('a')
  })

  it('a call that waited in vain names a Holdfast client of another process', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    await admin.hset('a', `${REDISSON.slice(0, -8)}401dfa57:7`, '1')
    const { heldBy } = await timeoutOf(client.getLock('a').lock({ waitTimeMs: 20 }))
    assert.match(heldBy ?? '', /^held by a Holdfast client of another process, 8743c9c0-.*401dfa57 \(owner 7\)$/)
    await admin.del('a')
  })

  it('a call that waited in vain names the readers of a lock that is to be written', async () => {
    const client = await fixture.connect()
    const lock = client.getReadWriteLock('a')
    const reader = await lock.readLock().lock({ label: 'report' })
    const { heldBy } = await timeoutOf(lock.writeLock().lock({ waitTimeMs: 20 }))
    assert.match(heldBy ?? '', /^held by this client, taken .*label "report"/)
    await reader.unlock()
  })

  it('a call that waited in vain names readers in other processes, and how often each reads', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    await admin.hset('a', 'mode', 'read', `${REDISSON}:54`, '1', `${REDISSON}:55`, '2')
    for (const hold of ['54:rwlock_timeout:1', '55:rwlock_timeout:1', '55:rwlock_timeout:2']) {
      await admin.set(`{a}:${REDISSON}:${hold}`, '1', 'PX', 30_000)
    }
    await admin.pexpire('a', 30_000)
    const writing = client.getReadWriteLock('a').writeLock().lock({ waitTimeMs: 20 })
    const { heldBy, holders } = await timeoutOf(writing)
    assert.deepEqual(
      holders.toSorted((one, other) => one.holdCount - other.holdCount),
      [1, 2].map((holdCount) => ({ holder: `${REDISSON}:${53 + holdCount}`, holdCount, mode: 'read' })),
    )
    assert.match(heldBy ?? '', /^held by a Redisson client .* and 1 more$/)
    await admin.del('a', ...(await admin.keys('{a}:*')))
  })

  it('a call that waited in vain says its place in a fair queue, behind a Redisson thread', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    await admin.hset('a', `${REDISSON}:54`, '1')
    await admin.pexpire('a', 30_000)
    await admin.rpush('redisson_lock_queue:{a}', `${REDISSON}:55`)
    await admin.zadd('redisson_lock_timeout:{a}', Date.now() + 300_000, `${REDISSON}:55`)
    const { position, holders } = await timeoutOf(client.getFairLock('a').lock({ waitTimeMs: 1_000 }))
    assert.deepEqual([position, holders.map(({ holder }) => holder)], [2, [`${REDISSON}:54`]])
    await waitUntil(async () => (await admin.llen('redisson_lock_queue:{a}')) === 1)
    await admin.del('a', 'redisson_lock_queue:{a}', 'redisson_lock_timeout:{a}')
  })

  it("a call that waited in vain says its client's place in the turn queue of a plain lock", async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const { admin } = fixture.server
    await admin.hset('a', `${REDISSON.slice(0, -8)}401dfa57:7`, '1')
    const abort = new AbortController()
    const first = other.getLock('a').lock({ signal: abort.signal })
    first.catch(() => {})
    await waitUntil(async () => (await admin.llen('holdfast_turn_queue:{a}')) === 1)
    assert.equal((await timeoutOf(client.getLock('a').lock({ waitTimeMs: 1_000 }))).position, 2)
    abort.abort()
    await assert.rejects(first)
    await admin.del('a')
  })

  it('a call that waited in vain says who holds the lock as far as Redis lets this user look', async () => {
    const { admin, port } = fixture.server
    const rights = ['on', 'nopass', '+@all', '-get', '-lpos', '~a', '~holdfast_*', '&*']
    await admin.call('ACL', 'SETUSER', 'orders', ...rights)
    fixture.onEnd(() => admin.call('ACL', 'DELUSER', 'orders'))
    const client = await fixture.connect({ inspection: true }, `redis://orders:any@127.0.0.1:${port}`)
    const holder = `${REDISSON.slice(0, -8)}401dfa57:7`
    await admin.hset('a', holder, '1')
    const { heldBy, holders, position } = await timeoutOf(client.getLock('a').lock({ waitTimeMs: 1_000 }))
    assert.match(heldBy ?? '', /^held by a Holdfast client of another process/)
    assert.deepEqual([holders, position], [[{ holder, holdCount: 1 }], undefined])
    await client.close()
    await admin.del('a')
  })

  it('a call that waited in vain names the held one of a multi-lock', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('b').lock({ label: 'refund' })
    const multi = getMultiLock(client.getLock('a'), client.getLock('b'))
    const { heldBy } = await timeoutOf(multi.lock({ waitTimeMs: 20 }))
    assert.match(heldBy ?? '', /^"b" is held by this client, taken .*label "refund"$/)
    await hold.unlock()
  })

  it('a call that waited in vain names nobody for a semaphore that does not exist', async () => {
    const client = await fixture.connect()
    for (const [name, acquire] of [
      ['s', () => client.getSemaphore('s').acquire({ waitTimeMs: 20 })],
      ['s', () => client.getSemaphore('s').withPermit({ waitTimeMs: 20 }, () => {})],
      ['p', () => client.getPermitExpirableSemaphore('p').acquire({ waitTimeMs: 20 })],
    ] as const) {
      const { message } = await timeoutOf(acquire())
      const said = `"${name}" did not have enough free permits within 20 ms: it does not exist, so it has no permits: create it`
      assert(message.includes(said), message)
    }
    await client.getSemaphore('s').trySetPermits(0)
    const { message } = await timeoutOf(client.getSemaphore('s').acquire({ waitTimeMs: 20 }))
    assert(!message.includes('does not exist'), message)
    await client.getSemaphore('s').delete()
  })
})

describe('waitTimeMs of the client', () => {
  const fixture = setUpFixture()

  it('waitTimeMs of the client limits the calls that would wait without limit, and no others', async () => {
    const client = await fixture.connect({ waitTimeMs: 100 })
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const latch = client.getCountDownLatch('latch')
    await latch.trySetCount(1)
    const lock = client.getLock('a')
    for (const call of [
      () => lock.lock(),
      () => lock.withLock(() => {}),
      () => getMultiLock(lock, client.getLock('b')).lock(),
      () => client.getSemaphore('s').acquire(),
      () => client.getSemaphore('s').withPermit(() => {}),
      () => client.getPermitExpirableSemaphore('p').acquire(),
    ]) {
      const waiting: Promise<unknown> = call()
      await settlesWithin(waiting, 5_000)
      assert.equal((await timeoutOf(waiting)).waitTimeMs, 100)
    }
    assert.equal(await latch.await(), false)
    assert.equal(await lock.tryLock(), null)
    assert.equal((await timeoutOf(lock.lock({ waitTimeMs: 10 }))).waitTimeMs, 10)
    await latch.delete()
    await hold.unlock()
  })
})

describe('longWait', () => {
  const fixture = setUpFixture()

  /** Collects what a client reports. */
  function reportsOf(client: Client): ClientEvents['longWait'][0][] {
    const reports: ClientEvents['longWait'][0][] = []
    client.on('longWait', (wait) => reports.push(wait))
    return reports
  }

  it('longWait says who holds the lock', async () => {
    const client = await fixture.connect()
    const reports = reportsOf(client)
    const hold = await client.getLock('a').lock({ label: 'refund' })
    const waiting = client.getLock('a').lock({ warnAfterMs: 50, label: 'export' })
    await waitUntil(() => reports.length === 1)
    await hold.unlock()
    await (await waiting).unlock()
    const [report] = reports
    assert.match(report?.heldBy ?? '', /^held by this client, taken .*label "refund"$/)
    assert.deepEqual([report?.lockName, report?.label, report?.waitedMs], ['a', 'export', 50])
  })

  it('longWait says that two call chains wait for each other: A inside B beside B inside A', async () => {
    const client = await fixture.connect()
    const [a, b] = [client.getLock('a'), client.getLock('b')]
    const said = new Set<string>()
    let inside = 0
    const nested = async (outer: Lock, inner: Lock): Promise<void> =>
      await outer.withLock(async () => {
        inside++
        await waitUntil(() => inside === 2)
        // Again and again, as the first report may come before the other call waits.
        while (said.size < 2) await inner.tryLock({ warnAfterMs: 100, waitTimeMs: 500 })
      })
    client.on('longWait', ({ lockName, heldBy = '' }) => {
      const other = lockName === 'a' ? 'b' : 'a'
      if (heldBy.includes(`deadlock: the holder waits for "${other}", which this call chain holds`)) said.add(lockName)
    })
    await settlesWithin(Promise.all([nested(a, b), nested(b, a)]), 20_000)
    assert.equal(said.size, 2)
  })

  it('longWait does not say so of a call chain that waits for somebody who will release', async () => {
    const client = await fixture.connect()
    const reports = reportsOf(client)
    const [a, b] = [client.getLock('a'), client.getLock('b')]
    const hold = await b.lock()
    const nested = a.withLock(async () => await b.withLock({ warnAfterMs: 50 }, () => {}))
    const other = a.lock()
    await waitUntil(() => reports.length === 1)
    await hold.unlock()
    await nested
    await (await other).unlock()
    assert(!reports[0]?.heldBy?.includes('deadlock'), reports[0]?.heldBy)
  })

  it('longWait says that a semaphore does not exist', async () => {
    const client = await fixture.connect()
    const reports = reportsOf(client)
    const abort = new AbortController()
    const waiting = client.getSemaphore('s').acquire({ warnAfterMs: 50, signal: abort.signal })
    waiting.catch(() => {})
    await waitUntil(() => reports.length === 1)
    abort.abort()
    assert.match(reports[0]?.heldBy ?? '', /does not exist.*trySetPermits/)
  })

  it('longWait is one warning of the process if nobody listens', async () => {
    const warnings: (Error & { code?: string })[] = []
    const onWarning = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', onWarning)
    fixture.onEnd(() => process.off('warning', onWarning))
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getLock('a').lock({ label: 'refund' })
    const waits = [client, other].map((one) =>
      one.getLock('a').lock({ warnAfterMs: 50, label: 'export', waitTimeMs: 300 }),
    )
    await Promise.allSettled(waits)
    await hold.unlock()
    const ours = warnings.filter(({ name }) => name === 'HoldfastWarning')
    assert.equal(ours.length, 1)
    assert.equal(ours[0]?.code, 'HOLDFAST_LONG_WAIT')
    assert.match(
      ours[0]?.message ?? '',
      /waited 0\.05 s for "a" \(label "export"\), held by (this|another) client.*"refund"/,
    )
  })
})

describe('a lock that a process has which says who it is', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^(a$|holdfast_)/ })

  it('the holder of a lock is named in words if its process says who it is', async () => {
    const child = spawnChild(new URL('../support/processes/forced-holder-process.js', import.meta.url), [
      fixture.server.url,
    ])
    fixture.onEnd(() => child.stop())
    const { holder: id } = await child.nextMessage(({ at }) => at === 'ready')
    const hasRecord = async () => (await fixture.server.admin.exists(`holdfast_client:${id}`)) === 1
    await waitUntil(hasRecord, { message: 'a record' })
    child.send({ hold: 'lock', stopMs: 0 })
    await child.nextMessage(({ at }) => at === 'held')
    const client = await fixture.connect({ inspection: true })
    const { heldBy, holders } = await timeoutOf(client.getLock('a').lock({ waitTimeMs: 1_000 }))
    assert.deepEqual([holders[0]?.client?.pid, holders[0]?.client?.host], [child.pid, hostname()])
    const { name } = applicationOf(process.env, process.argv[1])
    const who = `held by ${name}, pid ${child.pid} on ${hostname()}`
    assert.ok(heldBy?.startsWith(who), heldBy)
    // Its record may have the hold already, which has lasted for a second.
    assert.match((heldBy ?? '').slice(who.length), /^, (for [\d.]+ s|whose lease ends in [\d.]+ s unless renewed)$/)
  })
})
