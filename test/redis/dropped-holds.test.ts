import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Client, LockOptions } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep, waitUntil } from '../support/wait-until.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Takes a lock and forgets it. In a function of its own, whose frame is gone when it returns. */
async function takeAndForget(client: Client, name: string, options: LockOptions = {}): Promise<void> {
  await client.getLock(name).lock(options)
}

describe('a hold that is dropped without unlock()', () => {
  const fixture = setUpFixture()

  /** The warnings of the process until the test ends. */
  function warningsOfProcess(): Error[] {
    const warnings: Error[] = []
    const onWarning = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', onWarning)
    fixture.onEnd(() => process.off('warning', onWarning))
    return warnings
  }

  it('a dropped hold is reported with its label and where it was taken', async () => {
    const client = await fixture.connect()
    const unheard = warningsOfProcess()
    const warnings: (Error & { code?: string })[] = []
    client.on('warning', (warning) => warnings.push(warning))
    await sleep(120) // holds that follow each other more quickly are not watched
    await takeAndForget(client, 'a', { label: 'refund' })
    await waitUntil(() => {
      collectGarbage()
      return warnings.length > 0
    })
    assert.equal(warnings[0]?.code, 'HOLD_DROPPED')
    assert.match(warnings[0]?.message ?? '', /^The hold of "a" \(label "refund"\) was dropped without unlock\(\)/)
    assert.match(warnings[0]?.message ?? '', /: it was taken \d{1,3} s ago and stays held/)
    const taken = /It was taken at\n +at \S*lock .*\n +at async takeAndForget .*dropped-holds\.test/
    assert.match(warnings[0]?.message ?? '', taken)
    assert(!unheard.some(({ message }) => message.startsWith('The hold of')))
    assert.equal(await client.getLock('a').isLocked(), true)
  })

  for (const [options, expected] of [
    [{ leaseTimeMs: 60_000 }, /s ago and nobody else gets it until its lease ends, in 5\d\.\ds\. Use/],
    [{ maxHoldMs: 600_000 }, /s ago and nobody else gets it until maxHoldMs ends, in 9m \d+s\. Use/],
  ] as const) {
    it(`a dropped hold is reported with its end if it has one: ${Object.keys(options)}`, async () => {
      const client = await fixture.connect()
      const warnings: string[] = []
      client.on('warning', ({ message }) => warnings.push(message))
      await sleep(120)
      await takeAndForget(client, 'a', options)
      await waitUntil(() => {
        collectGarbage()
        return warnings.length > 0
      })
      assert.match(warnings[0] ?? '', expected)
      await client.getLock('a').forceUnlock()
    })
  }

  it('a dropped hold is a warning of the process if nobody listens', async () => {
    const client = await fixture.connect()
    const warnings = warningsOfProcess()
    await sleep(120)
    await takeAndForget(client, 'b')
    await waitUntil(() => {
      collectGarbage()
      return warnings.some(({ message }) => message.startsWith('The hold of "b" was dropped'))
    })
  })

  it('a dropped hold is watched unless another was a moment before, as that costs more than the lock', async () => {
    const client = await fixture.connect()
    for (let isQuick = false; !isQuick; ) {
      await sleep(120)
      const startedAt = performance.now()
      const holds = [await client.getLock('a').lock(), await client.getLock('b').lock()]
      isQuick = performance.now() - startedAt < 20
      const areWatched = holds.map((hold) => hold.members[0] !== hold)
      if (isQuick) assert.deepEqual(areWatched, [true, false])
      for (const hold of holds) await hold.unlock()
    }
  })

  it('a dropped hold is the object in `lost`, even if it is lost before the program gets it', async () => {
    const client = await fixture.connect()
    const lost: unknown[] = []
    client.on('lost', ({ hold }) => lost.push(hold))
    const lock = client.getLock('a')
    const held: unknown[] = []
    for (let round = 0; round < 20; round++) {
      await sleep(30)
      const [hold] = await Promise.all([lock.lock(), lock.forceUnlock()])
      await lock.forceUnlock()
      held.push(hold)
    }
    assert.equal(lost.length, held.length)
    assert(lost.every((hold, index) => hold === held[index]))
  })

  it('a dropped hold is not reported if it was released, handed over, lost, or is still in use', async () => {
    const client = await fixture.connect()
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    const take = async (name: string) => {
      await sleep(120)
      return await client.getLock(name).lock()
    }
    await (async () => {
      await (await take('a')).unlock()
      await client.adopt('b', (await take('b')).handOver()).then((hold) => hold.unlock())
      await take('c')
      await client.getLock('c').forceUnlock()
    })()
    const kept = await take('d')
    for (let round = 0; round < 10; round++) {
      collectGarbage()
      await sleep(10)
    }
    assert.deepEqual(warnings, [])
    await kept.unlock()
  })

  it('a dropped hold is not reported in a scope, which has it until its unlock()', async () => {
    const client = await fixture.connect()
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    await sleep(120)
    await client.runInScope(async () => {
      await takeAndForget(client, 'a')
      for (let round = 0; round < 10; round++) {
        collectGarbage()
        await sleep(10)
      }
      await client.getLock('a').unlock()
    })
    assert.deepEqual(warnings, [])
  })

  it('a dropped hold is the object of its events, as long as the program has it', async () => {
    const client = await fixture.connect()
    const losses: unknown[] = []
    client.on('lost', ({ hold }) => losses.push(hold))
    await sleep(120)
    const hold = await client.getLock('a').lock()
    await client.getLock('a').forceUnlock()
    assert.equal(losses[0], hold)
  })
})

describe('lock.unlock() outside a scope', () => {
  const fixture = setUpFixture()

  it('lock.unlock() outside a scope says that this client still holds the lock, and since when', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    const hold = await lock.lock({ label: 'refund' })
    const held = /stays held by this client, taken [\d.]+ s ago, label "refund"/
    await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD', message: held })
    const inside = client.getLock('b').withLock(async () => await lock.unlock())
    await assert.rejects(inside, { code: 'LOCK_NOT_HELD', message: held })
    await hold.unlock()
    await assert.rejects(lock.unlock(), (error: Error) => !error.message.includes('stays held'))
  })
})
