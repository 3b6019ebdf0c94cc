/** The first attempt of a call, made without a queue and without a promise of its own: what must not get lost with them. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { waitingCalls } from '../../src/locks/reporting/waiting-calls.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
})

afterEach(() => fixture.close())

/** The scripts whose requests and replies take a while. */
function slow(ms: number, ...scripts: string[]): void {
  for (const script of scripts) fixture.port.once(script, { requestMs: ms / 2, replyMs: ms / 2 })
}

/** Three calls for one lock in one turn, and the order in which they get it. */
function threeCalls(): { calls: Promise<void>[]; order: string[] } {
  const order: string[] = []
  const calls = ['a', 'b', 'c'].map(async (name) => {
    const hold = await fixture.client.getLock('a').lock()
    order.push(name)
    await hold.unlock()
  })
  return { calls, order }
}

describe('calls that come during the first attempt of another', () => {
  it('they queue behind it, and send nothing of their own until it has a reply', async () => {
    const { clock, port } = fixture
    slow(100, 'lock/acquire')
    const { calls, order } = threeCalls()
    await clock.advance(99)
    assert.equal(port.count('lock/acquire'), 1)
    await clock.until(Promise.all(calls))
    assert.deepEqual(order, ['a', 'b', 'c'])
  })

  it('the one whose first attempt is refused stays ahead of those that came meanwhile', async () => {
    const { clock, other } = fixture
    const held = await clock.until(other.getLock('a').lock())
    slow(100, 'lock/acquire')
    const { calls, order } = threeCalls()
    await clock.advance(500)
    await clock.until(held.unlock())
    await clock.until(Promise.all(calls))
    assert.deepEqual(order, ['a', 'b', 'c'])
  })

  it('their own wait times count meanwhile', async () => {
    const { clock, client } = fixture
    slow(1_000, 'lock/acquire')
    const first = client.getLock('a').lock()
    const startedAt = clock.now()
    assert.equal(await clock.until(client.getLock('a').tryLock({ waitTimeMs: 50 })), null)
    assert.equal(clock.now() - startedAt, 50)
    await (await clock.until(first)).unlock()
  })

  it('a call that tries once asks at once, and waits for nobody', async () => {
    const { clock, client, port } = fixture
    port.once('lock/acquire', { replyMs: 1_000 })
    const first = client.getLock('a').lock()
    await turn()
    assert.equal(await clock.until(client.getLock('a').tryLock()), null)
    assert.equal(port.count('lock/acquire'), 2)
    await (await clock.until(first)).unlock()
  })
})

describe('a first attempt in flight', () => {
  for (const [how, end] of Object.entries({
    'its signal aborts': (abort: AbortController) => abort.abort(new Error('no longer wanted')),
    'its client closes': () => void fixture.client.close(),
  })) {
    it(`a call rejects at once when ${how}, and what arrives later is released`, async () => {
      const { clock, client, redis } = fixture
      const abort = new AbortController()
      slow(1_000, 'lock/acquire')
      const startedAt = clock.now()
      const call = client.getLock('a').lock({ signal: abort.signal })
      await clock.advance(100)
      end(abort)
      await assert.rejects(clock.until(call), /no longer wanted|closed/)
      assert.equal(clock.now() - startedAt, 100)
      await clock.advance(2_000)
      assert.deepEqual(redis.keys, [])
    })
  }
})

describe('a first attempt that is refused late', () => {
  it('a long wait counts from the call, and not from the reply that refuses it', async () => {
    const { clock, client, other } = fixture
    const hold = await clock.until(other.getLock('a').lock())
    slow(600, 'lock/acquire')
    const waitedMs: number[] = []
    client.on('longWait', (event) => waitedMs.push(event.waitedMs))
    const waiting = client.getLock('a').tryLock({ waitTimeMs: 1_300, warnAfterMs: 1_000 })
    assert.equal(await clock.until(waiting), null)
    assert.deepEqual(waitedMs, [1_000])
    await clock.until(hold.unlock())
  })
})

describe('the asynchronous context', () => {
  it('a call that is refused waits in its own call chain, whoever shared its command', async () => {
    const { clock, client, other } = fixture
    const names = ['x', 'y', 'z']
    const held = await clock.until(Promise.all(names.map((name) => other.getLock(name).lock())))
    const outer = await clock.until(Promise.all(names.map((name) => client.getLock(`outer:${name}`).lock())))
    const calls = names.map((name) =>
      client.getLock(`own:${name}`).withLock(async () => await client.getLock(name).lock()),
    )
    await clock.advance(100)
    assert.deepEqual(
      waitingCalls(fixture.lock.context).map(({ key, holds }) => [key, holds.map(({ lockName }) => lockName)]),
      names.map((name) => [name, [`own:${name}`]]),
    )
    for (const hold of [...held, ...outer]) await clock.until(hold.unlock())
    for (const hold of await clock.until(Promise.all(calls))) await clock.until(hold.unlock())
  })

  it('the end of a hold is published in the context of its unlock(), whoever shared its command', async () => {
    const { clock, client } = fixture
    const caller = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const listener = (message: unknown): void => {
      seen.push([(message as { lockName: string }).lockName, caller.getStore()])
    }
    subscribe('holdfast:hold:end', listener)
    const names = ['x', 'y', 'z']
    const holds = await clock.until(Promise.all(names.map((name) => client.getLock(name).lock())))
    await clock.until(Promise.all(holds.map((hold) => caller.run(`of ${hold.lockName}`, () => hold.unlock()))))
    unsubscribe('holdfast:hold:end', listener)
    assert.deepEqual(
      seen,
      names.map((name) => [name, `of ${name}`]),
    )
  })
})
