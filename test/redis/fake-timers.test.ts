import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'

describe('the fake timers of a test', () => {
  const fixture = setUpFixture()

  it('a lock is acquired and released, and keeps its lease', async (t) => {
    const client = await fixture.connect()
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] })
    // Jest has a fake process.nextTick as well, but Node itself needs the real one here.
    const { nextTick } = process
    let own = 0
    t.mock.method(process, 'nextTick', (...args: Parameters<typeof nextTick>) => {
      const frames = new Error().stack?.split('\n').slice(1) ?? []
      const caller = frames.find((frame) => !/node:|fake-timers/.test(frame)) ?? ''
      if (/\/src\//.test(caller) && !/node_modules/.test(caller)) own++
      nextTick(...args)
    })
    const hold = await client.getLock('a').lock()
    t.mock.timers.tick(120_000)
    hold.assertHeld()
    await hold.unlock()
    assert.equal(own, 0, 'calls of a process.nextTick that may be a fake')
  })
})
