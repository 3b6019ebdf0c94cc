/** What a lock costs that nobody else wants. Counts and bytes are the same on every machine; how fast it is, is not. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import type { Cost } from '../support/processes/cost-process.js'

/** With ioredis, whose own share is about 6 promises and 8 kB for two commands. */
const LIMITS: Record<string, Cost> = {
  lock: { promises: 14, timers: 0.05, kB: 20, calls: 235, files: 46 },
  withLock: { promises: 16, timers: 0.05, kB: 23, calls: 262, files: 47 },
}

describe('an uncontended lock', () => {
  const fixture = setUpFixture()

  for (const [name, limits] of Object.entries(LIMITS)) {
    it(`${name}() and the release: few promises, no timer, little garbage, few calls in few files`, async () => {
      await using child = spawnChild(
        new URL('../support/processes/cost-process.js', import.meta.url),
        [fixture.server.url, name],
        { nodeArgs: ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'] },
      )
      const cost = await child.nextMessage<Cost>()
      for (const [what, limit] of Object.entries(limits)) {
        const actual = cost[what as keyof Cost]
        assert(actual <= limit, `${what}: ${actual}, more than ${limit}`)
      }
    })
  }
})
