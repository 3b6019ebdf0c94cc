/** Time limits of commands: one timer, and each limit as exact as a timer of its own. */
import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { Deadlines, type Limited } from '../../src/delivery/deadlines.js'
import { VirtualClock } from '../../src/testing/virtual-clock.js'

const LIMIT_MS = 3_000

describe('time limits', () => {
  let clock: VirtualClock
  let deadlines: Deadlines
  let over: [string, number][]

  beforeEach(() => {
    clock = new VirtualClock()
    deadlines = new Deadlines(clock, LIMIT_MS)
    over = []
  })

  /** A command without a reply, until the returned function is called. */
  function send(name: string): () => void {
    const end = (): void => {
      command.isDone = true
      deadlines.ended()
    }
    const timeOut = (): void => {
      over.push([name, clock.now() - startedAt])
      end()
    }
    const command: Limited = { endsAt: clock.now() + LIMIT_MS, timeOut, isDone: false, next: undefined }
    deadlines.add(command)
    return end
  }

  let startedAt = 0
  beforeEach(() => {
    startedAt = clock.now()
  })

  it('each command is over after the limit, to the millisecond, with one timer for all', async () => {
    for (const name of ['a', 'b', 'c']) {
      send(name)
      assert.equal(clock.pending, 1)
      await clock.advance(700)
    }
    await clock.advance(LIMIT_MS)
    assert.deepEqual(over, [
      ['a', LIMIT_MS],
      ['b', LIMIT_MS + 700],
      ['c', LIMIT_MS + 1_400],
    ])
    assert.equal(clock.pending, 0)
  })

  it('a command that got its reply is not over, whatever the order of the replies', async () => {
    const [a, b, c] = [send('a'), send('b'), send('c')]
    c()
    a()
    await clock.advance(1_000)
    const d = send('d')
    b()
    await clock.advance(LIMIT_MS - 1)
    d()
    await clock.advance(LIMIT_MS)
    assert.deepEqual(over, [])
  })

  it('thousands of commands, of which one never gets its reply: that one is over, once', async () => {
    const ends: (() => void)[] = []
    for (let index = 0; index < 5_000; index++) {
      if (index === 2_500) send('silent')
      else ends.push(send(String(index)))
      if (index % 100 === 0) await clock.advance(1)
      if (index % 3 === 0) for (const end of ends.splice(0)) end()
    }
    for (const end of ends) end()
    await clock.advance(2 * LIMIT_MS)
    assert.deepEqual(
      over.map(([name]) => name),
      ['silent'],
    )
    assert.equal(clock.pending, 0)
  })

  it('the timer keeps no process alive, stays armed after the last reply, and is armed anew when it has fired', async () => {
    send('a')()
    assert.deepEqual([clock.pending, clock.keepingAlive], [1, 0])
    await clock.advance(LIMIT_MS)
    assert.equal(clock.pending, 0)
    send('b')
    await clock.advance(LIMIT_MS)
    assert.deepEqual(over, [['b', 2 * LIMIT_MS]])
  })

  it('a reply that came while the event loop was blocked counts, although the timer fires first', async () => {
    const end = send('a')
    clock.afterPoll = (action) => {
      end() // the reply is read before
      action()
    }
    clock.block(2 * LIMIT_MS)
    await clock.advance(1)
    assert.deepEqual(over, [])
  })

  it('close() stops the timer, and commands sent later leave none behind', () => {
    const end = send('a')
    deadlines.close()
    assert.equal(clock.pending, 1, 'a command is in flight')
    end()
    assert.equal(clock.pending, 0)
    send('b')()
    assert.equal(clock.pending, 0)
  })
})
