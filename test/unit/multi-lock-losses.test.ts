/** What a multi-lock loses before it has all of its locks, and how it begins its lease when it has them. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Hold, type Lock, type MultiLock } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

let fixture: ClientFixture
let multi: MultiLock
/** Locks of another process. */
let a: Lock
let b: Lock

beforeEach(() => {
  fixture = new ClientFixture({})
  // Of two kinds, so that no single command takes both.
  multi = getMultiLock(fixture.client.getLock('a'), fixture.client.getFairLock('b'))
  a = fixture.other.getLock('a')
  b = fixture.other.getFairLock('b')
})

afterEach(() => fixture.close())

describe('a multi-lock that waits takes again', () => {
  it('a waiting multi-lock takes again what was force-unlocked meanwhile', async () => {
    const other = await b.lock()
    const taking = multi.lock()
    await fixture.clock.advance(20)
    await fixture.client.getLock('a').forceUnlock()
    await other.unlock()
    await fixture.releaseSafe(await fixture.clock.until(taking))
  })

  it('a waiting multi-lock takes again what Redis lost meanwhile', async () => {
    const other = await b.lock()
    const taking = multi.lock({ leaseTimeMs: 10_000 })
    await fixture.clock.advance(20)
    fixture.redis.delete('a')
    await other.unlock()
    await fixture.releaseSafe(await fixture.clock.until(taking))
  })

  it('a waiting multi-lock takes again what its re-entered hold handed over meanwhile', async () => {
    await fixture.client.getLock('a').withLock(async (outer) => {
      const other = await b.lock()
      const taking = multi.lock()
      await turn()
      const adopted = await a.adopt(outer.handOver())
      await other.unlock()
      await fixture.clock.advance(20)
      adopted.assertHeld()
      await adopted.unlock()
      await fixture.releaseSafe(await fixture.clock.until(taking))
    })
  })

  it('a waiting multi-lock takes again what ran out meanwhile, although Redis still has it', async () => {
    const [first, slow] = [
      fixture.connect({ lockWatchdogTimeoutMs: 3_000 }),
      fixture.connect({ commandTimeoutMs: 10_000 }),
    ]
    first.port.fault = ({ name }) => (name === 'lock/renew' ? { lost: 'reply' } : undefined)
    slow.port.fault = ({ name }) => (name.startsWith('lock/acquire') ? { replyMs: 3_200 } : undefined)
    const startedAt = fixture.clock.now()
    const hold = await fixture.clock.until(getMultiLock(first.client.getLock('a'), slow.client.getLock('b')).lock())
    assert(fixture.clock.now() - startedAt < 3_300, `${fixture.clock.now() - startedAt} ms`)
    await fixture.releaseSafe(hold)
  })

  it('a waiting multi-lock takes again what runs out, and gives up at the third time in a row', async () => {
    const { client, port } = fixture.connect({ lockWatchdogTimeoutMs: 1_000 })
    port.fault = ({ name }) => {
      if (name.endsWith('/renew')) return { lost: 'request' }
      return /\/acquire/.test(name) ? { replyMs: 700 } : undefined
    }
    const taking = getMultiLock(client.getLock('a'), client.getFairLock('b')).lock()
    await assert.rejects(fixture.clock.until(taking), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.deepEqual(
      port.sent.filter(({ name }) => /\/acquire/.test(name)).map(({ keys }) => keys[0]),
      ['a', 'b', 'a', 'b'],
    )
    await fixture.clock.advance(5_000)
  })
})

describe('a multi-lock that waits gives up', () => {
  it('a waiting multi-lock gives up when a lease of its own runs out while it takes the rest', async () => {
    fixture.port.fault = ({ name }) => {
      if (name.endsWith('/renew')) return { lost: 'request' }
      return /\/acquire/.test(name) ? { replyMs: 700 } : undefined
    }
    const taking = multi.lock({ leaseTimeMs: 1_000 })
    await assert.rejects(fixture.clock.until(taking), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(fixture.port.sent.filter(({ name }) => /\/acquire/.test(name)).length, 2)
    await fixture.clock.advance(5_000)
  })

  it('a waiting multi-lock gives up when the client of a lock that it has is closed', async () => {
    const { client } = fixture.connect({})
    const other = await b.lock()
    const taking = getMultiLock(client.getLock('a'), fixture.client.getFairLock('b')).lock()
    const refused = assert.rejects(taking, { code: 'LOCK_LEASE_LOST', reason: 'closed' })
    await fixture.clock.advance(20)
    await fixture.clock.until(client.close())
    await other.unlock()
    await fixture.clock.until(refused)
  })
})

describe('a multi-lock that re-enters a hold that others have taken away', () => {
  let rival: Hold

  /** Inside a hold on `a` that is lost, as will be noticed later. */
  async function inside(fn: (multi: MultiLock) => Promise<void>): Promise<void> {
    await fixture.client.runInScope(async () => {
      const plain = fixture.client.getLock('a')
      await plain.lock()
      await a.forceUnlock()
      rival = await a.lock()
      await fn(getMultiLock(plain, fixture.client.getLock('c')))
    })
  }

  it("a multi-lock that re-enters a lost hold waits in that lock's queue first, signal or not", async () => {
    for (const signal of [undefined, new AbortController().signal]) {
      await inside(async (both) => {
        let taking: Promise<Hold> | undefined
        const commands = await fixture.commandsOf(() => {
          taking = both.lock({ signal, waitTimeMs: 60_000 })
        })
        assert.deepEqual([...new Set(commands)], ['lock/reenter', 'lock/acquire'])
        await rival.unlock()
        await fixture.releaseSafe(await fixture.clock.until(taking as Promise<Hold>))
      })
    }
  })

  it('a multi-lock that re-enters a lost hold asks for nothing more if it is only tried', async () => {
    await inside(async (both) => {
      const commands = await fixture.commandsOf(async () => assert.equal(await both.tryLock(), null))
      assert.deepEqual(commands, ['lock/reenter'])
      await rival.unlock()
    })
  })
})

describe('a multi-lock with a lease of its own, which begins when it has all its locks', () => {
  it('a multi-lock with its own lease asks for it again without a reply, or if Redis cannot reply', async () => {
    for (const fault of [{ lost: 'reply' } as const, { errorReply: 'LOADING Redis is loading the dataset' }]) {
      fixture.port.once('lock/renew', fault)
      const hold = await fixture.clock.until(multi.lock({ leaseTimeMs: 20_000 }))
      await fixture.releaseSafe(hold)
    }
  })

  it('a multi-lock with its own lease rejects with any other error, at once and empty-handed', async () => {
    fixture.port.fault = ({ name }) => (name === 'lock/renew' ? { errorReply: 'NOPERM no permissions' } : undefined)
    const startedAt = fixture.clock.now()
    await assert.rejects(fixture.clock.until(multi.lock({ leaseTimeMs: 20_000 })), /NOPERM/)
    assert.equal(fixture.clock.now(), startedAt)
    assert.deepEqual(fixture.redis.keys, [])
  })
})
