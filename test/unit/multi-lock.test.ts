/** How a multi-lock waits: it keeps what it has for a moment only, and nobody else waits long for what it cannot use. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Lock, type MultiLock } from '../../src/index.js'
import { ClientBench } from '../support/client-bench.js'
import { turn } from '../support/fake-clock.js'

/** Of the first wait with something in hand, with a random number in the middle. */
const PATIENCE_MS = 75

describe('a multi-lock that waits', () => {
  let bench: ClientBench
  let multi: MultiLock
  /** Locks of another process. */
  let a: Lock
  let b: Lock

  beforeEach(() => {
    bench = new ClientBench({})
    // Of two kinds, so that no single command takes both.
    multi = getMultiLock(bench.client.getFairLock('b'), bench.client.getLock('a'))
    a = bench.other.getLock('a')
    b = bench.other.getFairLock('b')
  })

  afterEach(() => bench.close())

  const taken = (): string[] => bench.redis.keys.filter((name) => name.length === 1).sort()

  it('keeps what it has for a moment while it waits for what comes later in the order', async () => {
    const other = await b.lock()
    const taking = multi.lock()
    await bench.clock.advance(PATIENCE_MS - 1)
    assert.deepEqual(taken(), ['a', 'b'])
    await bench.clock.advance(1)
    assert.deepEqual(taken(), ['b'], 'others can have it')
    await other.unlock()
    const hold = await bench.clock.until(taking)
    assert.deepEqual(taken(), ['a', 'b'])
    await hold.unlock()
  })

  it('takes plain locks of one server in one command, unless another caller of its client waits for one of them', async () => {
    const [x, y] = [bench.client.getLock('x'), bench.client.getLock('y')]
    const both = getMultiLock(y, x)
    const commands = await bench.commandsOf(async () => await (await both.lock()).unlock())
    assert.deepEqual(commands.slice(0, 1), ['lock/acquire-all'])
    assert.deepEqual(commands.slice(1).sort(), ['lock/release', 'lock/release'])
    const other = await bench.other.getLock('y').lock()
    assert.equal(await bench.clock.until(both.tryLock()), null)
    const before = y.lock()
    await turn()
    const joint = both.lock()
    await turn()
    await other.unlock()
    await (await bench.clock.until(before)).unlock()
    await (await bench.clock.until(joint)).unlock()
  })

  it('that takes long is reported with what others hold, and not with what it has itself', async () => {
    const reports: (string | undefined)[] = []
    bench.client.on('longWait', ({ heldBy }) => reports.push(heldBy))
    const other = await b.lock()
    const taking = multi.lock({ warnAfterMs: 20 })
    await bench.clock.advance(PATIENCE_MS - 1)
    assert.deepEqual(taken(), ['a', 'b'])
    assert.match(reports[0] ?? '', /^"b" is held by/)
    await other.unlock()
    await (await bench.clock.until(taking)).unlock()
    assert.equal(reports.length, 1)
  })

  it('gives way at once if what it waits for comes earlier in the order, and has its turn later', async () => {
    const [other, later] = [await b.lock(), a]
    const taking = multi.lock()
    await bench.clock.advance(500)
    const first = await later.lock()
    await other.unlock()
    await bench.clock.advance(5)
    assert.deepEqual(taken(), ['a'], 'it had b for an instant')
    const second = await b.tryLock()
    assert(second)
    await second.unlock()
    await first.unlock()
    await (await bench.clock.until(taking)).unlock()
  })

  it('keeps what it has for twice as long the next time, without a limit where all clients share the order', async () => {
    let other = await b.lock()
    const taking = multi.lock()
    await bench.clock.advance(PATIENCE_MS)
    for (let patienceMs = 2 * PATIENCE_MS; patienceMs <= 32 * PATIENCE_MS; patienceMs *= 2) {
      const first = await a.lock()
      await other.unlock() // it gets b, must wait for a, and gives b back
      await bench.clock.advance(10)
      other = await b.lock()
      await first.unlock() // it gets a, and waits for b
      await turn()
      await bench.clock.advance(patienceMs - 10)
      assert.deepEqual(taken(), ['a', 'b'])
      await bench.clock.advance(20)
      assert.deepEqual(taken(), ['b'])
    }
    await other.unlock()
    await (await bench.clock.until(taking)).unlock()
  })

  it('ends with nothing in hand when its wait time is over, or at an abort', async () => {
    const other = await b.lock()
    assert.equal(await bench.clock.until(multi.tryLock({ waitTimeMs: 50 })), null)
    assert.deepEqual(taken(), ['b'])
    assert.equal(await bench.clock.until(multi.tryLock()), null)
    assert.deepEqual(taken(), ['b'])
    const abort = new AbortController()
    const taking = multi.lock({ signal: abort.signal })
    await bench.clock.advance(10)
    assert.deepEqual(taken(), ['a', 'b'])
    abort.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await turn()
    assert.deepEqual(taken(), ['b'])
    await assert.rejects(multi.lock({ signal: abort.signal }), (reason) => reason === 'enough')
    await other.unlock()
  })

  it('renews what it has with the lease that the caller asked for, and no longer', async () => {
    const other = await b.lock()
    const slow = getMultiLock(bench.client.getLock('a'), bench.client.getFairLock('b'))
    const taking = slow.lock({ leaseTimeMs: 90, waitTimeMs: 60_000 })
    await bench.clock.advance(70)
    assert(bench.redis.pttl('a') <= 90)
    await other.unlock()
    const hold = await bench.clock.until(taking)
    assert(hold.remainingMs() > 80)
    await hold.unlock()
  })

  it('takes again what was taken away from it meanwhile', async () => {
    const other = await b.lock()
    const taking = multi.lock()
    await bench.clock.advance(20)
    await bench.client.getLock('a').forceUnlock()
    await other.unlock()
    const hold = await bench.clock.until(taking)
    bench.assertSafe(hold.members[0] as never)
    bench.assertSafe(hold.members[1] as never)
    await hold.unlock()
  })
})
