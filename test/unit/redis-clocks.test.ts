/** What a client knows of the time at each server. */
import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { RedisClocks } from '../../src/delivery/redis-clocks.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'

describe('the time at a server', () => {
  let clock: FakeClock
  let clocks: RedisClocks
  /** The keys whose servers were asked. */
  let asked: string[]
  let reply: () => void
  let fail: (error: Error) => void

  beforeEach(() => {
    clock = new FakeClock()
    asked = []
    clocks = new RedisClocks(clock, (key) => {
      asked.push(key)
      return new Promise((resolve, reject) => {
        ;[reply, fail] = [resolve, reject]
      })
    })
  })

  it('the time at a server is that of its last reply, in whole ms, and goes on like that of the process', async () => {
    assert.equal(clocks.timeAt('one', clock.now()), undefined)
    clocks.learn('one', 5_000)
    await clock.advance(100)
    assert.equal(clocks.timeAt('one', clock.now()), 5_100)
    assert.equal(clocks.timeAt('one', clock.now() + 0.7), 5_100)
    clocks.learn('one', 9_000)
    assert.equal(clocks.timeAt('one', clock.now()), 9_000)
    assert.equal(clocks.timeAt('two', clock.now()), undefined)
  })

  it('the time at a server is asked for again in the background after a minute, once, and counts until then', async () => {
    clocks.learn('one', 5_000)
    await clock.advance(59_999)
    assert.equal(clocks.isKnown('one', 'a', clock.now()), true)
    assert.deepEqual(asked, [])
    await clock.advance(1)
    for (const key of ['a', 'b']) assert.equal(clocks.isKnown('one', key, clock.now()), true)
    assert.deepEqual(asked, ['a'])
    fail(new Error('Connection is closed'))
    await turn()
    assert.equal(clocks.isKnown('one', 'c', clock.now()), true)
    assert.deepEqual(asked, ['a', 'c'], 'and again after a failure')
  })

  it('the time at a server is not known before its first reply, or while it is not known which server it is', () => {
    clocks.learn('one', 5_000)
    assert.equal(clocks.isKnown('two', 'a', clock.now()), false)
    assert.equal(clocks.isKnown(undefined, 'a', clock.now()), false)
    assert.deepEqual(asked, [])
  })

  it('the time at a server is awaited only by those who ask for the first time', async () => {
    assert.equal(clocks.isAwaited('one'), false)
    const reading = clocks.refresh('one', 'a')
    assert.equal(clocks.refresh('one', 'b'), reading)
    assert.deepEqual(
      [clocks.isAwaited('one'), clocks.isAwaited('two'), clocks.isAwaited(undefined)],
      [true, false, false],
    )
    reply()
    await reading
    assert.equal(clocks.isAwaited('one'), false)

    const ofUnknown = clocks.refresh(undefined, 'c')
    assert.deepEqual([clocks.isAwaited(undefined), clocks.isAwaited('one')], [true, false])
    reply()
    await ofUnknown

    clocks.learn('one', 5_000)
    void clocks.refresh('one', 'd')
    assert.equal(clocks.isAwaited('one'), false, 'it is known approximately')
    assert.deepEqual(asked, ['a', 'c', 'd'])
  })
})
