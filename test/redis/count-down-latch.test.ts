import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { latchContract } from '../contract/count-down-latch.js'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { repliesForgotten } from '../support/synchronizers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

for (const driver of drivers) {
  describe(`a count-down latch, through ${driver.name}`, () => latchContract(() => setUpFixture(driver)))
}

describe('a count-down latch', () => {
  const fixture = setUpFixture()

  it('invalid arguments are refused by name and value, and nothing is sent', async () => {
    const client = await fixture.connect()
    const latch = client.getCountDownLatch('a')
    const refusal = (path: string) => ({ code: 'LOCK_CONFIG', path, lockName: 'a' })
    const count = await countCommands(fixture.server, async () => {
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

  it('a thousand waiters of a latch are notified at the cost of one', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const latch = client.getCountDownLatch('a')
    await other.getCountDownLatch('a').trySetCount(1)
    await repliesForgotten(fixture)
    let released = 0
    const count = await countCommands(fixture.server, async () => {
      const waiting = Array.from({ length: 1_000 }, () => latch.await().then(() => released++))
      await listening(fixture)
      await sleep(50)
      assert.equal(released, 0)
      await other.getCountDownLatch('a').countDown()
      await waitUntil(() => released > 0)
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(released, 1_000, 'all in one turn')
      await Promise.all(waiting)
      await listening(fixture, 0)
    })
    assert.equal(count.calls['subscribe'], 1)
    assert.equal(count.calls['unsubscribe'], 1)
    assert(count.scripts <= 8, `${count.scripts} commands`)
  })

  it('a latch opens for a waiter that joins while others leave, and is closed for one that joins after a new count', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const [latch, theirs] = [client.getCountDownLatch('a'), other.getCountDownLatch('a')]
    for (let round = 0; round < 30; round++) {
      assert.equal(await theirs.trySetCount(1), true)
      const first = latch.await()
      await listening(fixture)
      const [second] = [latch.await({ waitTimeMs: 10_000 }), await theirs.countDown()]
      const third = latch.await()
      assert.deepEqual(await Promise.all([first, second, third]), [true, true, true])
      assert.equal(await theirs.trySetCount(1), true)
      assert.equal(await latch.await({ waitTimeMs: round % 2 }), false)
      assert.equal(await theirs.delete(), true)
      await listening(fixture, 0)
    }
  })

  it('a caller that comes after the latch was closed never sees it open, however late an earlier reply arrives', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const other = (await fixture.connect()).getCountDownLatch('a')
    const latch = client.getCountDownLatch('a')
    await latch.getCount() // connected, and Redis knows the script
    proxy.holdReplies()
    const count = await countCommands(fixture.server, async () => {
      const early = latch.await()
      await waitUntil(async () => /cmdstat_get:calls/.test(await fixture.server.admin.info('commandstats')))
      assert.equal(await other.trySetCount(1), true)
      const late = latch.await({ waitTimeMs: 500 })
      await sleep(20)
      proxy.pass()
      assert.equal(await early, true)
      assert.equal(await late, false)
    })
    assert(count.scripts < 10)
    await other.delete()
  })

  it('a long wait is reported for each waiter of a latch', async () => {
    const client = await fixture.connect()
    const latch = client.getCountDownLatch('a')
    await latch.trySetCount(1)
    const waits: unknown[] = []
    client.on('longWait', (wait) => waits.push(wait))
    const options = { waitTimeMs: 300, warnAfterMs: 100 }
    await Promise.all([latch.await({ ...options, label: 'import' }), latch.await(options)])
    const nobody = { heldBy: undefined, holders: [], position: undefined }
    assert.deepEqual(waits, [
      { lockName: 'a', label: 'import', waitedMs: 100, ...nobody },
      { lockName: 'a', label: undefined, waitedMs: 100, ...nobody },
    ])
    await latch.delete()
  })

  it('data of another type under the name of a latch is left alone, and waiters get the error', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('a')
    await fixture.server.admin.lpush('a', 'my data')
    for (const call of [
      () => latch.await(),
      () => latch.await({ waitTimeMs: 0 }),
      () => latch.getCount(),
      () => latch.countDown(),
    ]) {
      await assert.rejects(call, { message: /WRONGTYPE/ })
    }
    assert.equal(await latch.trySetCount(1), false)
    assert.equal(await fixture.server.admin.lpop('a'), 'my data')
  })
})
