/** What a multi-lock loses before it has all of its locks, and how it begins its lease when it has them. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Hold, type Lock, type MultiLock } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

let bench: ClientBench
let multi: MultiLock
/** Locks of another process. */
let a: Lock
let b: Lock

beforeEach(() => {
  bench = new ClientBench({})
  // Of two kinds, so that no single command takes both.
  multi = getMultiLock(bench.client.getLock('a'), bench.client.getFairLock('b'))
  a = bench.other.getLock('a')
  b = bench.other.getFairLock('b')
})

afterEach(() => bench.close())

describe('a multi-lock that waits takes again', () => {
  it('what was force-unlocked meanwhile', async () => {
    const other = await b.lock()
    const taking = multi.lock()
    await bench.clock.advance(20)
    await bench.client.getLock('a').forceUnlock()
    await other.unlock()
    await bench.releaseSafe(await bench.clock.until(taking))
  })

  it('what Redis lost meanwhile', async () => {
    const other = await b.lock()
    const taking = multi.lock({ leaseTimeMs: 10_000 })
    await bench.clock.advance(20)
    bench.redis.delete('a')
    await other.unlock()
    await bench.releaseSafe(await bench.clock.until(taking))
  })

  it('what was handed over meanwhile by the hold that it re-entered', async () => {
    await bench.client.getLock('a').withLock(async (outer) => {
      const other = await b.lock()
      const taking = multi.lock()
      await turn()
      const adopted = await a.adopt(outer.handOver())
      await other.unlock()
      await bench.clock.advance(20)
      adopted.assertHeld()
      await adopted.unlock()
      await bench.releaseSafe(await bench.clock.until(taking))
    })
  })

  it('what ran out meanwhile, although Redis still has it', async () => {
    const [first, slow] = [bench.connect({ lockWatchdogTimeoutMs: 3_000 }), bench.connect({ commandTimeoutMs: 10_000 })]
    first.port.fault = ({ name }) => (name === 'lock/renew' ? { lost: 'reply' } : undefined)
    slow.port.fault = ({ name }) => (name.startsWith('lock/acquire') ? { replyMs: 3_200 } : undefined)
    const startedAt = bench.clock.now()
    const hold = await bench.clock.until(getMultiLock(first.client.getLock('a'), slow.client.getLock('b')).lock())
    assert(bench.clock.now() - startedAt < 3_300, `${bench.clock.now() - startedAt} ms`)
    await bench.releaseSafe(hold)
  })

  it('what runs out while it takes the rest, and gives up at the third time in a row', async () => {
    const { client, port } = bench.connect({ lockWatchdogTimeoutMs: 1_000 })
    port.fault = ({ name }) => {
      if (name.endsWith('/renew')) return { lost: 'request' }
      return /\/acquire/.test(name) ? { replyMs: 700 } : undefined
    }
    const taking = getMultiLock(client.getLock('a'), client.getFairLock('b')).lock()
    await assert.rejects(bench.clock.until(taking), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.deepEqual(
      port.sent.filter(({ name }) => /\/acquire/.test(name)).map(({ keys }) => keys[0]),
      ['a', 'b', 'a', 'b'],
    )
    await bench.clock.advance(5_000)
  })
})

describe('a multi-lock that waits gives up', () => {
  it('when a lease of its own runs out while it takes the rest', async () => {
    bench.port.fault = ({ name }) => {
      if (name.endsWith('/renew')) return { lost: 'request' }
      return /\/acquire/.test(name) ? { replyMs: 700 } : undefined
    }
    const taking = multi.lock({ leaseTimeMs: 1_000 })
    await assert.rejects(bench.clock.until(taking), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(bench.port.sent.filter(({ name }) => /\/acquire/.test(name)).length, 2)
    await bench.clock.advance(5_000)
  })

  it('when the client of a lock that it has is closed', async () => {
    const { client } = bench.connect({})
    const other = await b.lock()
    const taking = getMultiLock(client.getLock('a'), bench.client.getFairLock('b')).lock()
    const refused = assert.rejects(taking, { code: 'LOCK_LEASE_LOST', reason: 'closed' })
    await bench.clock.advance(20)
    await bench.clock.until(client.close())
    await other.unlock()
    await bench.clock.until(refused)
  })
})

describe('a multi-lock that re-enters a hold that others have taken away', () => {
  let rival: Hold

  /** Inside a hold on `a` that is lost, as will be noticed later. */
  async function inside(fn: (multi: MultiLock) => Promise<void>): Promise<void> {
    await bench.client.runInScope(async () => {
      const plain = bench.client.getLock('a')
      await plain.lock()
      await a.forceUnlock()
      rival = await a.lock()
      await fn(getMultiLock(plain, bench.client.getLock('c')))
    })
  }

  it('waits in the queue of that lock first, without a signal as with one', async () => {
    for (const signal of [undefined, new AbortController().signal]) {
      await inside(async (both) => {
        let taking: Promise<Hold> | undefined
        const commands = await bench.commandsOf(() => {
          taking = both.lock({ signal, waitTimeMs: 60_000 })
        })
        assert.deepEqual([...new Set(commands)], ['lock/reenter', 'lock/acquire'])
        await rival.unlock()
        await bench.releaseSafe(await bench.clock.until(taking as Promise<Hold>))
      })
    }
  })

  it('asks for nothing more if it is only tried', async () => {
    await inside(async (both) => {
      const commands = await bench.commandsOf(async () => assert.equal(await both.tryLock(), null))
      assert.deepEqual(commands, ['lock/reenter'])
      await rival.unlock()
    })
  })
})

describe('a multi-lock with a lease of its own, which begins when it has all its locks', () => {
  it('asks again for that lease if there is no reply, or Redis cannot reply now', async () => {
    for (const fault of [{ lost: 'reply' } as const, { errorReply: 'LOADING Redis is loading the dataset' }]) {
      bench.port.once('lock/renew', fault)
      const hold = await bench.clock.until(multi.lock({ leaseTimeMs: 20_000 }))
      await bench.releaseSafe(hold)
    }
  })

  it('rejects with any other error, at once and with nothing in hand', async () => {
    bench.port.fault = ({ name }) => (name === 'lock/renew' ? { errorReply: 'NOPERM no permissions' } : undefined)
    const startedAt = bench.clock.now()
    await assert.rejects(bench.clock.until(multi.lock({ leaseTimeMs: 20_000 })), /NOPERM/)
    assert.equal(bench.clock.now(), startedAt)
    assert.deepEqual(bench.redis.keys, [])
  })
})
