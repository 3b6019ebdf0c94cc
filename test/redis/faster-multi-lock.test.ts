import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

describe('a faster multi-lock', () => {
  const fixture = setUpFixture()

  it('free values are acquired although callers of the same client wait for other values of the group', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const busy = await other.getFasterMultiLock('order', ['a']).lock()
    const waiting = client.getFasterMultiLock('order', ['a', 'b']).lock()
    await listening(fixture)

    const free = await client.getFasterMultiLock('order', ['c']).lock({ waitTimeMs: 3_000 })
    await free.unlock()

    await busy.unlock()
    await (await waiting).unlock()
  })

  it('freed values go at once to the next waiter of the client, whoever acquired other values before', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const busy = await other.getFasterMultiLock('order', ['a', 'b']).lock()
    const waiting = ['a', 'b'].map(async (value) => await client.getFasterMultiLock('order', [value]).lock())
    await listening(fixture)

    await busy.unlock()
    const startedAt = performance.now()
    const holds = await Promise.all(waiting) // neither waits for the other to release
    assert.ok(performance.now() - startedAt < 3_000)
    for (const hold of holds) await hold.unlock()
  })

  it('faster multi-locks are renewed together in one script call, and only a lost one is reported', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_800 })
    const holds = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        client
          .getFasterMultiLock(`order:${n % 4}`, [`${n}`, ...(n % 2 ? ['and', `${n} more`].map((v) => `${v}${n}`) : [])])
          .lock(),
      ),
    )
    await sleep(200) // what was long on its way is renewed at once, alone
    const { scripts } = await countCommands(fixture.server, () => sleep(1_500))
    // Each for itself would be 40 at least.
    assert(scripts >= 2 && scripts < 20, `${scripts} scripts in two periods or three`)
    const [victim, ...others] = holds
    const fields = Object.entries(await fixture.server.admin.hgetall('order:0'))
    const mine = fields.filter(([field, value]) => value === victim?.holder || field.includes(`:${victim?.holder}:`))
    await fixture.server.admin.hdel('order:0', ...mine.map(([field]) => field))
    await waitUntil(() => victim?.signal.aborted)
    await sleep(1_000)
    for (const hold of others) hold.assertHeld()
    await Promise.all(others.map((hold) => hold.unlock()))
  })
})
