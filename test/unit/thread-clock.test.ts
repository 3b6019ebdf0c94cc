import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SetClock } from '../../src/watchdog/thread-protocol.js'

describe('the clock of the watchdog thread', () => {
  it('a thread whose clock starts with it, as on Bun and Deno, is never ahead of the process, and behind by the fastest message', () => {
    let process = 3_600_000
    const startedAt = process
    const clock = new SetClock(() => process - startedAt)
    const receive = (tookMs: number): void => {
      const sentAt = process
      process += tookMs
      clock.received(sentAt)
    }
    receive(80)
    assert.equal(process - clock.now(), 80)
    receive(5)
    assert.equal(process - clock.now(), 5)
    receive(300)
    process += 1_000
    assert.equal(process - clock.now(), 5)
  })

  it('a thread that reads the clock of the process, as on Node, is not set', () => {
    const clock = new SetClock(() => 5_000)
    clock.received(4_990)
    assert.equal(clock.now(), 5_000)
  })
})
