import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpLab } from '../support/lab.js'
import { listening, receiptsForgotten, WOKEN_MS } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

for (const driver of drivers) {
  describe(`a count-down latch, through ${driver.name}`, () => {
    const lab = setUpLab(driver)

    it('is open until a count closes it, and opens when that was counted down', async () => {
      const latch = (await lab.connect()).getCountDownLatch('a')
      const other = (await lab.connect()).getCountDownLatch('a')
      assert.equal(latch.name, 'a')
      assert.equal(await latch.getCount(), 0)
      assert.equal(await latch.await(), true)
      assert.equal(await latch.trySetCount(2), true)
      assert.equal(await other.trySetCount(5), false)
      assert.equal(await latch.await({ waitTimeMs: 0 }), false)
      await other.countDown()
      assert.equal(await latch.getCount(), 1)
      assert.equal(await latch.await({ waitTimeMs: 50 }), false)
      await latch.countDown()
      assert.equal(await latch.getCount(), 0)
      assert.equal(await other.await({ waitTimeMs: 0 }), true)
      assert.equal(await other.await({ waitTimeMs: 50 }), true)
    })

    it('stays open, however often it is counted down', async () => {
      const latch = (await lab.connect()).getCountDownLatch('a')
      for (let n = 0; n < 3; n++) await latch.countDown()
      assert.equal(await latch.getCount(), 0)
      assert.equal(await latch.trySetCount(1), true)
      await latch.countDown()
      await latch.countDown()
      assert.equal(await latch.await(), true)
      assert.equal(await latch.trySetCount(1), true, 'it can be used again')
      assert.equal(await latch.delete(), true)
    })

    it('lets all who wait go at once, here and elsewhere', async () => {
      const clients = [await lab.connect(), await lab.connect(), await lab.connect()]
      const [latch] = clients.map((client) => client.getCountDownLatch('a'))
      assert(latch)
      await latch.trySetCount(2)
      const waiting = clients.flatMap((client) =>
        Array.from({ length: 3 }, () => client.getCountDownLatch('a').await({ waitTimeMs: 60_000 })),
      )
      const channel = 'redisson_countdownlatch__channel__{a}'
      await waitUntil(async () => (await lab.server.admin.pubsub('NUMSUB', channel))[1] === 3)
      await latch.countDown()
      const outcome = await Promise.race([...waiting, sleep(50)])
      assert.equal(outcome, undefined, 'nobody goes at 1')
      const openedAt = performance.now()
      await latch.countDown()
      assert.deepEqual(new Set(await Promise.all(waiting)), new Set([true]))
      assert(performance.now() - openedAt < WOKEN_MS, 'woken, not polling')
    })

    it('is opened by its deletion, for those who wait, too', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const latch = client.getCountDownLatch('a')
      assert.equal(await latch.delete(), false)
      await latch.trySetCount(1_000)
      const waiting = other.getCountDownLatch('a').await()
      await listening(lab)
      const deletedAt = performance.now()
      assert.equal(await latch.delete(), true)
      assert.equal(await waiting, true)
      assert(performance.now() - deletedAt < WOKEN_MS, 'woken, not polling')
    })

    it('ends a wait when its time is over, at once by a signal with its reason, and leaves nothing', async () => {
      const latch = (await lab.connect()).getCountDownLatch('a')
      await latch.trySetCount(1)
      const reason = new Error('the request was aborted')
      await assert.rejects(latch.await({ signal: AbortSignal.abort(reason) }), reason)
      const abort = new AbortController()
      const aborted = Array.from({ length: 20 }, () => settlesWithin(latch.await({ signal: abort.signal }), 5_000))
      const timed = latch.await({ waitTimeMs: 200, signal: abort.signal })
      const stays = latch.await()
      await listening(lab)
      const askedAt = performance.now()
      assert.equal(await latch.await({ waitTimeMs: 100 }), false)
      assert(performance.now() - askedAt >= 98)
      assert.equal(await timed, false)
      abort.abort(reason)
      for (const outcome of await Promise.all(aborted)) assert.deepEqual(outcome, { status: 'rejected', reason })
      await listening(lab, 1)
      await latch.countDown()
      assert.equal(await stays, true, 'the others wait on')
      await listening(lab, 0)
    })

    it('rejects waiters when the client closes, and refuses every call after it', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const latch = client.getCountDownLatch('a')
      await other.getCountDownLatch('a').trySetCount(1)
      const waiting = Array.from({ length: 100 }, () => settlesWithin(latch.await(), 5_000))
      await listening(lab)
      await client.close()
      for (const outcome of await Promise.all(waiting)) {
        assert(outcome.status === 'rejected')
        assert.deepEqual([outcome.reason.code, outcome.reason.lockName], ['LOCK_CLIENT_CLOSED', 'a'])
      }
      for (const call of [
        () => latch.await(),
        () => latch.await({ waitTimeMs: 0 }),
        () => latch.trySetCount(1),
        () => latch.countDown(),
        () => latch.getCount(),
        () => latch.delete(),
      ]) {
        await assert.rejects(call, { code: 'LOCK_CLIENT_CLOSED' })
      }
      assert.equal(await other.getCountDownLatch('a').delete(), true)
    })
  })
}

describe('a count-down latch', () => {
  const lab = setUpLab()

  it('refuses what cannot work by name and value, and sends nothing', async () => {
    const client = await lab.connect()
    const latch = client.getCountDownLatch('a')
    const refusal = (path: string) => ({ code: 'LOCK_CONFIG', path, lockName: 'a' })
    const count = await countCommands(lab.server, async () => {
      for (const value of [Number.NaN, 1.5, 0, -1, 2 ** 31, Number.POSITIVE_INFINITY, '1', null, undefined, {}, 1n]) {
        await assert.rejects(latch.trySetCount(value as number), refusal('count'))
      }
      for (const value of [Number.NaN, -1, 0.5, '10', null]) {
        await assert.rejects(latch.await({ waitTimeMs: value as number }), refusal('waitTimeMs'))
        await assert.rejects(latch.await({ warnAfterMs: value as number }), refusal('warnAfterMs'))
      }
      await assert.rejects(latch.await({ signal: {} as AbortSignal }), refusal('signal'))
      await assert.rejects(latch.await({ label: 7 as unknown as string }), refusal('label'))
      await assert.rejects(latch.await({ timeoutMs: 1 } as object), refusal('timeoutMs'))
      await assert.rejects(latch.await(null as unknown as object), refusal('options'))
    })
    assert.equal(count.total, 0)
    for (const name of ['', 7, null, 'a\ud800', 'a'.repeat(2 ** 20 + 1)]) {
      assert.throws(() => client.getCountDownLatch(name as string), { code: 'LOCK_CONFIG', path: 'latch name' })
    }
  })

  it('tells a thousand who wait at once, for the commands of one', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const latch = client.getCountDownLatch('a')
    await other.getCountDownLatch('a').trySetCount(1)
    await receiptsForgotten(lab)
    let told = 0
    const count = await countCommands(lab.server, async () => {
      const waiting = Array.from({ length: 1_000 }, () => latch.await().then(() => told++))
      await listening(lab)
      await sleep(50)
      assert.equal(told, 0)
      await other.getCountDownLatch('a').countDown()
      await waitUntil(() => told > 0)
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(told, 1_000, 'all in one turn')
      await Promise.all(waiting)
      await listening(lab, 0)
    })
    assert.equal(count.calls['subscribe'], 1)
    assert.equal(count.calls['unsubscribe'], 1)
    assert(count.scripts <= 8, `${count.scripts} commands`)
  })

  it('opens for who comes while the others go, and closes for who comes after a new count', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const [latch, theirs] = [client.getCountDownLatch('a'), other.getCountDownLatch('a')]
    for (let round = 0; round < 30; round++) {
      assert.equal(await theirs.trySetCount(1), true)
      const first = latch.await()
      await listening(lab)
      const [second] = [latch.await({ waitTimeMs: 10_000 }), await theirs.countDown()]
      const third = latch.await()
      assert.deepEqual(await Promise.all([first, second, third]), [true, true, true])
      assert.equal(await theirs.trySetCount(1), true)
      assert.equal(await latch.await({ waitTimeMs: round % 2 }), false)
      assert.equal(await theirs.delete(), true)
      await listening(lab, 0)
    }
  })

  it('is never seen open by who asks after it was closed, however late an earlier answer is', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    const other = (await lab.connect()).getCountDownLatch('a')
    const latch = client.getCountDownLatch('a')
    await latch.getCount() // connected, and Redis knows the script
    proxy.holdReplies()
    const asked = await countCommands(lab.server, async () => {
      const early = latch.await()
      await waitUntil(async () => /cmdstat_get:calls/.test(await lab.server.admin.info('commandstats')))
      assert.equal(await other.trySetCount(1), true)
      const late = latch.await({ waitTimeMs: 500 })
      await sleep(20)
      proxy.pass()
      assert.equal(await early, true)
      assert.equal(await late, false)
    })
    assert(asked.scripts < 10)
    await other.delete()
  })

  it('reports a long wait, of each who waits', async () => {
    const client = await lab.connect()
    const latch = client.getCountDownLatch('a')
    await latch.trySetCount(1)
    const waits: unknown[] = []
    client.on('longWait', (wait) => waits.push(wait))
    const options = { waitTimeMs: 300, warnAfterMs: 100 }
    await Promise.all([latch.await({ ...options, label: 'import' }), latch.await(options)])
    assert.deepEqual(waits, [
      { lockName: 'a', label: 'import', waitedMs: 100 },
      { lockName: 'a', label: undefined, waitedMs: 100 },
    ])
    await latch.delete()
  })

  it('leaves data of another type at its name alone, and tells those who wait', async () => {
    const latch = (await lab.connect()).getCountDownLatch('a')
    await lab.server.admin.lpush('a', 'my data')
    for (const call of [
      () => latch.await(),
      () => latch.await({ waitTimeMs: 0 }),
      () => latch.getCount(),
      () => latch.countDown(),
    ]) {
      await assert.rejects(call, { message: /WRONGTYPE/ })
    }
    assert.equal(await latch.trySetCount(1), false)
    assert.equal(await lab.server.admin.lpop('a'), 'my data')
  })
})
