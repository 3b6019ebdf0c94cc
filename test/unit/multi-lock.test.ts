/** How a multi-lock waits: it keeps what it has for a moment only, and nobody else waits long for what it cannot use. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Lock, type MultiLock } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

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

  /**
   * For how long a multi-lock keeps what it has while another process has the last of its locks, round after round, ms.
   * @param others  locks of that process on the same, in the order in which they are taken
   */
  async function patience(waiting: MultiLock, others: readonly Lock[], rounds: number): Promise<number[]> {
    const [first, last] = [others[0], others.at(-1)] as [Lock, Lock]
    let other = await last.lock()
    const taking = waiting.lock()
    const kept: number[] = []
    for (;;) {
      await turn()
      const startedAt = bench.clock.now()
      while (await first.isLocked()) await bench.clock.step()
      kept.push(bench.clock.now() - startedAt)
      if (kept.length === rounds) break
      const rival = await first.lock()
      await other.unlock() // it gets the last one, must wait for the first, and gives the last one back
      await bench.clock.advance(10)
      other = await last.lock()
      await rival.unlock() // it gets the first one, and waits for the last
    }
    await other.unlock()
    await (await bench.clock.until(taking)).unlock()
    return kept
  }

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

  it('in vain says which of its locks is held', async () => {
    const other = await b.lock()
    const waiting = bench.clock.until(multi.lock({ waitTimeMs: 50 }))
    await assert.rejects(waiting, { code: 'LOCK_WAIT_TIMEOUT', heldBy: /^"b" is held by/ })
    await other.unlock()
  })

  it('for a minute is reported once, as a whole', async () => {
    const reports: string[] = []
    bench.client.on('longWait', ({ lockName }) => reports.push(lockName))
    const other = await b.lock()
    const taking = multi.lock()
    await bench.clock.advance(59_999)
    assert.deepEqual(reports, [])
    await bench.clock.advance(60_000)
    assert.deepEqual(reports, ['multi-lock of "b", "a"'])
    await other.unlock()
    await (await bench.clock.until(taking)).unlock()
  })

  it('is not reported if it is only tried, however late the reply is', async () => {
    const { client, port } = bench.connect({ commandTimeoutMs: 120_000, lockWatchdogTimeoutMs: 600_000 })
    const reports: unknown[] = []
    client.on('longWait', (report) => reports.push(report))
    port.once('lock/acquire-all', { replyMs: 100_000 })
    const hold = await bench.clock.until(getMultiLock(client.getLock('x'), client.getLock('y')).tryLock())
    await hold?.unlock()
    assert.deepEqual(reports, [])
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
    const expected = [1, 2, 4, 8, 16, 32].map((times) => times * PATIENCE_MS)
    assert.deepEqual(await patience(multi, [a, b], expected.length), expected)
    const { client } = bench.connect({})
    const values = ['1', '2'].map((value) => bench.client.getFasterMultiLock('g', [value]))
    const mixed = getMultiLock(...values, client.getLock('h'))
    const others = [bench.other.getFasterMultiLock('g', ['1', '2']), bench.other.getLock('h')]
    assert.deepEqual(await patience(mixed, others, expected.length), expected)
  })

  it('keeps what it has for a second at most where they do not: one name on two servers', async () => {
    const there = fakeClient(bench.clock, new FakePort(bench.clock))
    const mixed = getMultiLock(bench.client.getLock('a'), there.getLock('a'), bench.client.getFairLock('b'))
    const expected = [...[1, 2, 4, 8].map((times) => times * PATIENCE_MS), 750, 750]
    assert.deepEqual(await patience(mixed, [a, b], expected.length), expected)
    const hold = await bench.clock.until(mixed.lock())
    assert.deepEqual(
      hold.members.map(({ holder }) => holder.split(':')[0]),
      [bench.client.id, there.id, bench.client.id],
      'in the order in which they were given',
    )
    await hold.unlock()
    await bench.clock.until(there.close())
  })

  it('waits in the queue of a fair lock as any other caller does', async () => {
    const other = await b.lock()
    const waiting = [bench.client.getFairLock('b').lock(), multi.lock()]
    await turn()
    const requests = bench.port.sent.filter(({ name }) => name === 'fair-lock/acquire')
    const terms = requests.map(({ args: [, , ...withoutHolder] }) => withoutHolder.join())
    assert(terms.length >= waiting.length)
    assert.equal(new Set(terms).size, 1, terms.join('\n'))
    await other.unlock()
    for (const each of waiting) await (await bench.clock.until(each)).unlock()
  })

  it('begins to lose patience when it has something', async () => {
    const [first, last] = [await a.lock(), await b.lock()]
    const taking = multi.lock()
    await bench.clock.advance(500)
    await first.unlock()
    await bench.clock.advance(PATIENCE_MS - 1)
    assert.deepEqual(taken(), ['a', 'b'])
    await bench.clock.advance(1)
    assert.deepEqual(taken(), ['b'])
    await last.unlock()
    await (await bench.clock.until(taking)).unlock()
  })

  it('ends with nothing in hand when its wait time is over', async () => {
    const other = await b.lock()
    for (const waitTimeMs of [50, 0]) {
      const startedAt = bench.clock.now()
      assert.equal(await bench.clock.until(multi.tryLock({ waitTimeMs })), null)
      assert.equal(bench.clock.now() - startedAt, waitTimeMs)
      assert.deepEqual(taken(), ['b'])
    }
    await other.unlock()
  })

  it('ends at an abort at once with its reason, whatever that is, and soon has nothing in hand', async () => {
    const other = await b.lock()
    for (const reason of ['enough', null]) {
      const abort = new AbortController()
      const taking = multi.lock({ signal: abort.signal })
      await bench.clock.advance(10)
      bench.port.fault = ({ name }) => (name.startsWith('lock/release') ? { requestMs: 1_000 } : undefined)
      abort.abort(reason)
      const startedAt = bench.clock.now()
      await assert.rejects(bench.clock.until(taking), (thrown) => thrown === reason)
      assert.equal(bench.clock.now(), startedAt)
      assert.deepEqual(taken(), ['a', 'b'])
      await bench.clock.advance(1_000)
      assert.deepEqual(taken(), ['b'])
      await assert.rejects(multi.lock({ signal: abort.signal }), (thrown) => thrown === reason)
    }
    await other.unlock()
  })

  it('ends with the error of one of its locks when the others are free again', async () => {
    bench.port.once('fair-lock/acquire', { errorReply: 'NOPERM no permissions' })
    bench.port.fault = ({ name }) => (name.startsWith('lock/release') ? { requestMs: 1_000 } : undefined)
    await assert.rejects(bench.clock.until(multi.lock()), /NOPERM/)
    assert.deepEqual(taken(), [])
  })

  it('renews what it has with the lease that the caller asked for, and no longer', async () => {
    const other = await b.lock()
    const slow = getMultiLock(bench.client.getLock('a'), bench.client.getFairLock('b'))
    const taking = slow.lock({ leaseTimeMs: 30, waitTimeMs: 60_000 })
    for (let ms = 5; ms < PATIENCE_MS; ms += 5) {
      await bench.clock.advance(5)
      const leftMs = bench.redis.pttl('a')
      assert(leftMs > 15 && leftMs <= 30, `${leftMs} ms are left after ${ms}`)
    }
    await other.unlock()
    const hold = await bench.clock.until(taking)
    assert(hold.remainingMs() > 25)
    await hold.unlock()
  })
})
