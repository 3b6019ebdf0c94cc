/** Operations on numbers whose commands reach Redis long after they were sent: when the network comes back, or by another clock. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { ioredis } from '../../src/adapters/ioredis/port.js'
import { Client } from '../../src/client.js'
import type { ClientOptions } from '../../src/index.js'
import { SystemClock } from '../../src/util/clock.js'
import { idempotencyKey } from '../../src/wire/keys.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { SCRIPT_NAMES } from '../support/script-names.js'
import { repliesForgotten, STORED_REPLIES } from '../support/synchronizers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Longer than the network was away in the tests. */
const AWAY_MS = 125_000
const HOUR_MS = 3_600_000

type Command = readonly string[]
type Send = (command: Command) => Promise<unknown>

/** A command as it would be if it had been sent so long ago: what says when it was opened is that much older. */
function sentAgo(ms: number, command: Command): string[] {
  const isNow = (word: string): boolean => /^\d{13}$/.test(word) && Math.abs(Number(word) - Date.now()) < 30_000
  return command.map((word) => (isNow(word) ? String(Number(word) - ms) : word))
}

function runs(command: Command, script: string): boolean {
  return SCRIPT_NAMES.get(command[1] ?? '') === script
}

describe('an operation on a counter that reaches Redis late', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: STORED_REPLIES })

  /** A client with a clock that can be set, whose commands pass through `pass`. */
  async function connect(pass: (command: Command, send: Send) => Promise<unknown>, options?: ClientOptions) {
    const redis = new Redis(fixture.server.url)
    const port = ioredis(redis)
    const send = port.send.bind(port)
    port.send = (command, key) => pass(command, (other) => send(other, key))
    const clock = new SettableClock()
    const client = new Client(port, options, { clock })
    fixture.onEnd(async () => {
      await client.close()
      redis.disconnect()
      await fixture.server.admin.del('a', 'p', 'l')
    })
    return { client, clock }
  }

  it('an operation that arrives after its idempotency key expired changes nothing, whatever it is', async () => {
    const { admin } = fixture.server
    const sent: Command[] = []
    const { client } = await connect((command, send) => {
      sent.push(command)
      return send(command)
    })
    const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
    const latch = client.getCountDownLatch('l')
    const steps: readonly [
      script: string,
      operation: () => Promise<unknown>,
      key: string,
      before: number | undefined,
      after: number,
      /** What has become of it when the copy arrives; absent: the same. */
      meanwhile?: number | 'deleted',
    ][] = [
      ['semaphore/acquire', () => semaphore.acquire({ permits: 2 }), 'a', 5, 3],
      ['semaphore/release', () => semaphore.release(2), 'a', 3, 5],
      ['semaphore/release', () => semaphore.releaseIfExists(2), 'a', 3, 5],
      ['semaphore/release', () => semaphore.withPermit(() => {}), 'a', 3, 3],
      ['semaphore/add-permits', () => semaphore.addPermits(2), 'a', 3, 5],
      ['semaphore/add-permits', () => semaphore.reducePermits(2), 'a', 3, 1],
      ['semaphore/drain-permits', () => semaphore.drainPermits(), 'a', 3, 0, 4],
      ['semaphore/set-permits', () => semaphore.trySetPermits(3), 'a', undefined, 3, 'deleted'],
      ['permit/set-permits', () => permits.setPermits(7), 'p', 5, 7, 9],
      ['latch/count-down', () => latch.countDown(), 'l', 3, 2],
      ['latch/set-count', () => latch.trySetCount(3), 'l', undefined, 3, 'deleted'],
    ]
    for (const [script, operation, key, before, after, meanwhile = after] of steps) {
      if (before === undefined) await admin.del(key)
      else await admin.set(key, before)
      await operation()
      assert.equal(await admin.get(key), String(after), script)
      await repliesForgotten(fixture)
      if (meanwhile === 'deleted') await admin.del(key)
      else await admin.set(key, meanwhile)
      const copy = sent.findLast((command) => runs(command, script))
      assert(copy)
      const [name = '', ...words] = sentAgo(AWAY_MS, copy)
      await admin.call(name, ...words)
      assert.equal(await admin.get(key), meanwhile === 'deleted' ? null : String(meanwhile), script)
    }
  })

  it('an operation has an unknown outcome if one copy ran without a reply and the next is too late, and counts once', async () => {
    const { admin } = fixture.server
    let tries = 0
    const { client } = await connect(
      async (command, send) => {
        if (!runs(command, 'semaphore/release')) return await send(command)
        if (++tries > 1) return await send(sentAgo(AWAY_MS, command))
        await send(command)
        await admin.del(idempotencyKey('a', client.id))
        throw new Error('the reply was lost')
      },
      { commandTimeoutMs: 500 },
    )
    const semaphore = client.getSemaphore('a')
    await semaphore.trySetPermits(3)
    await repliesForgotten(fixture)
    await assert.rejects(semaphore.release(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    assert(tries > 1, 'it was sent again')
    assert.equal(await admin.get('a'), '4')
  })

  it('an operation runs once, with one more round trip, after the clock of Redis was moved by hours', async () => {
    const { client, clock } = await connect((command, send) => send(command))
    const [semaphore, latch] = [client.getSemaphore('a'), client.getCountDownLatch('l')]
    await semaphore.trySetPermits(1)
    await latch.trySetCount(9)
    let done = 0
    for (const setByMs of [HOUR_MS, -2 * HOUR_MS, HOUR_MS]) {
      clock.aheadMs += setByMs // only the difference between both clocks counts
      for (const most of [3, 2]) {
        await repliesForgotten(fixture)
        const { scripts } = await countCommands(fixture.server, () => semaphore.release())
        assert(scripts <= most, `${scripts} commands`) // with one that lets Redis forget
        await latch.countDown()
        done++
        assert.deepEqual(await fixture.server.admin.mget('a', 'l'), [String(1 + done), String(9 - done)])
      }
    }
    clock.aheadMs -= HOUR_MS
    await semaphore.acquire({ permits: 1 + done })
    assert.equal(await fixture.server.admin.get('a'), '0')
  })

  it('the first operation of a client runs once in the background when Redis does not reply', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 500 })
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const semaphore = client.getSemaphore('a')
    await semaphore.availablePermits()
    proxy.freeze()
    await assert.rejects(semaphore.release(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    proxy.pass()
    await waitUntil(async () => (await fixture.server.admin.get('a')) === '1', { timeoutMs: 15_000 })
    await sleep(2_000)
    assert.equal(await fixture.server.admin.get('a'), '1')
  })
})

class SettableClock extends SystemClock {
  aheadMs = 0

  override now(): number {
    return super.now() + this.aheadMs
  }
}
