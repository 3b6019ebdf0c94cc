import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { measureLateness, measureSlowness, slownessOf } from './lateness.js'

function block(ms: number): void {
  const endsAt = performance.now() + ms
  while (performance.now() < endsAt);
}

describe('lateness', () => {
  it('lateness is by how much timers fire late, and a process that computes all the time is too slow', () => {
    const [latenessMs, slowness] = [measureLateness(), measureSlowness()]
    block(300)
    assert.ok(latenessMs() >= 280)
    assert.match(slowness() ?? '', /^timers were \d+ ms late in \d+ ms$/)
  })

  it('lateness of a twentieth of the time is too slow, and less is not', () => {
    assert.equal(slownessOf(49, 1_000), undefined)
    assert.equal(slownessOf(51, 1_000), 'timers were 51 ms late in 1000 ms')
  })
})
