/** `lock.watch()` on a real Redis: the commands for many locks. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep } from '../support/wait-until.js'

describe('many locks that are watched', () => {
  const fixture = setUpFixture()

  it('a thousand locks that are watched cost a few commands for all of them', async () => {
    const client = await fixture.connect()
    const watches = Array.from({ length: 1_000 }, (_, index) => client.getLock(`watched:${index}`).watch())
    await Promise.all(watches.map((states) => states.next()))
    const startedAt = performance.now()
    const waiting = watches.map((states) => states.next())
    const { scripts } = await countCommands(fixture.server, () => sleep(1_500))
    // 32 calls in a command; 20 times a second at most, and one on either end.
    const most = ((performance.now() - startedAt) / 50 + 2) * Math.ceil(1_000 / 32)
    assert(scripts > 0 && scripts <= most, `${scripts} commands, at most ${most}`)
    await Promise.all(watches.map((states) => states.return?.()))
    for (const { done } of await Promise.all(waiting)) assert.equal(done, true)
  })
})
