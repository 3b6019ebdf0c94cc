import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { uptime } from 'node:os'
import { describe, it } from 'node:test'
import { SYSTEM, SystemClock, type TimeSources, threadClock } from '../../src/util/clock.js'
import { timersLeft } from '../support/leak-check.js'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** What setTimeout takes; anything longer fires after 1 ms. */
const LONGEST_MS = 2 ** 31 - 1

const CLOCKS = [
  ['the clock of the machine', new SystemClock()],
  ['the clock of the threads', threadClock],
] as const

/** A machine whose clocks go as the test says. */
class Machine implements TimeSources {
  #monotonic = 5_000
  #wall = 1_700_000_000_000
  #sinceBoot = 90_000
  /** How often the time since boot was read. */
  bootReads = 0

  monotonic = (): number => this.#monotonic
  wall = (): number => this.#wall
  sinceBoot = (): number => {
    this.bootReads++
    return this.#sinceBoot
  }

  run(ms: number): void {
    this.#monotonic += ms
    this.suspend(ms)
  }

  suspend(ms: number): void {
    this.#wall += ms
    this.#sinceBoot += ms
  }

  setWall(byMs: number): void {
    this.#wall += byMs
  }

  setSinceBoot(byMs: number): void {
    this.#sinceBoot += byMs
  }
}

describe('now()', () => {
  it('now() advances with the monotonic clock', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    const start = clock.now()
    machine.run(1_234)
    assert.equal(clock.now() - start, 1_234)
  })

  for (const [title, byMs] of [
    ['an hour ahead', HOUR_MS],
    ['an hour back', -HOUR_MS],
  ] as const) {
    it(`now() ignores that the wall clock is set ${title}`, () => {
      const machine = new Machine()
      const clock = new SystemClock(machine)
      const start = clock.now()
      machine.setWall(byMs)
      assert.equal(clock.now() - start, 0)
      machine.run(10)
      assert.equal(clock.now() - start, 10)
    })
  }

  it('now() reads the time since boot only when the wall clock has jumped by more than half a second', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    for (let second = 0; second < 10; second++) {
      machine.run(1_000)
      clock.now()
    }
    machine.setWall(500)
    clock.now()
    assert.equal(machine.bootReads, 1, 'only at the start')
    machine.setWall(1)
    clock.now()
    clock.now()
    assert.equal(machine.bootReads, 2)
  })

  it('now() ignores that the time since boot is not precise', () => {
    for (const byMs of [-10, 250]) {
      const machine = new Machine()
      const clock = new SystemClock(machine)
      const start = clock.now()
      machine.setWall(HOUR_MS)
      machine.setSinceBoot(byMs)
      assert.equal(clock.now() - start, 0)
    }
  })

  it('now() counts a suspension of little more than half a second', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    const start = clock.now()
    machine.suspend(501)
    assert.equal(clock.now() - start, 501)
  })

  it('now() counts the time for which the machine was suspended, once', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    const start = clock.now()
    machine.run(1_000)
    machine.suspend(HOUR_MS)
    assert.equal(clock.now() - start, HOUR_MS + 1_000)
    machine.run(1_000)
    assert.equal(clock.now() - start, HOUR_MS + 2_000)
    machine.suspend(MINUTE_MS)
    assert.equal(clock.now() - start, HOUR_MS + MINUTE_MS + 2_000)
  })

  it('now() counts a suspension that ended with the wall clock set', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    const start = clock.now()
    machine.suspend(MINUTE_MS)
    machine.setWall(-HOUR_MS)
    assert.equal(clock.now() - start, MINUTE_MS)
    machine.setWall(HOUR_MS)
    assert.equal(clock.now() - start, MINUTE_MS)
  })

  it('now() counts many short suspensions that were not observed one by one', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    const start = clock.now()
    for (let nap = 0; nap < 100; nap++) {
      machine.suspend(100)
      clock.now()
    }
    const slept = clock.now() - start
    assert(slept > 9_000 && slept <= 10_000, `${slept} ms of 10,000`)
  })

  it('now() never goes back, whatever the wall clock and the time since boot do', () => {
    const machine = new Machine()
    const clock = new SystemClock(machine)
    let last = clock.now()
    for (let step = 0; step < 10_000; step++) {
      // Numbers that look random, and are the same in every run.
      const noise = (step * 7_919) % 2_003
      machine.run(noise % 3)
      if (noise % 5 === 0) machine.setWall((noise - 1_000) * 997)
      if (noise % 7 === 0) machine.suspend(noise)
      const now = clock.now()
      assert(now >= last, `${last} was followed by ${now}`)
      last = now
    }
  })

  it('now() has the time since boot in ms', () => {
    assert(Math.abs(SYSTEM.sinceBoot() - 1_000 * uptime()) < 10_000)
  })

  it('now() reads the real clocks of the machine', () => {
    const clock = new SystemClock()
    const [before, now, after] = [performance.now(), clock.now(), performance.now()]
    assert(before <= now && now <= after)
  })
})

interface Timeout {
  readonly ms: number
  readonly action: () => void
  hasRef: boolean
  isCleared: boolean
}

/** A clock whose timers fire on request. Like Node's, they take a delay that is too long for 1 ms. */
function takeTimers(): { readonly clock: SystemClock; readonly timers: Timeout[]; fireNext(): number } {
  const timers: Timeout[] = []
  const clock = new SystemClock(undefined, {
    setTimeout(action, ms) {
      const timer = { ms: ms > LONGEST_MS ? 1 : ms, action, hasRef: true, isCleared: false }
      timers.push(timer)
      return Object.assign(timer, { unref: () => (timer.hasRef = false) }) as unknown as NodeJS.Timeout
    },
    clearTimeout(timer) {
      Object.assign(timer, { isCleared: true })
    },
  })
  let fired = 0
  return {
    clock,
    timers,
    /** How long it took, ms. */
    fireNext() {
      const timer = timers[fired++]
      assert(timer && !timer.isCleared, 'there should be a timer')
      timer.action()
      return timer.ms
    },
  }
}

describe('after()', () => {
  it('after() fires once, after the delay', () => {
    const { clock, timers, fireNext } = takeTimers()
    let fired = 0
    clock.after(250, () => fired++)
    assert.equal(fired, 0)
    assert.equal(fireNext(), 250)
    assert.equal(fired, 1)
    assert.equal(timers.length, 1)
  })

  it('after() rounds up, so it never fires early, and fires now for a time in the past', () => {
    const { clock, timers } = takeTimers()
    for (const delayMs of [0.2, 10.01, 0, -5]) clock.after(delayMs, () => {})
    assert.deepEqual(
      timers.map(({ ms }) => ms),
      [1, 11, 0, 0],
    )
  })

  it('after() fires on time for delays longer than setTimeout accepts', () => {
    const delayMs = 100 * 24 * HOUR_MS
    const { clock, fireNext } = takeTimers()
    let fired = false
    clock.after(delayMs, () => (fired = true))
    let passedMs = 0
    while (!fired) {
      passedMs += fireNext()
      assert.equal(fired, passedMs >= delayMs, `after ${passedMs} ms of ${delayMs}`)
    }
    assert.equal(passedMs, delayMs)
  })

  it('after() never fires for an infinite delay', () => {
    const { clock, fireNext } = takeTimers()
    clock.after(Number.POSITIVE_INFINITY, () => assert.fail('fired'))
    for (let times = 0; times < 100; times++) assert.equal(fireNext(), LONGEST_MS)
  })

  it('after() can be cancelled, before and after the first of several timers has fired', () => {
    const { clock, timers, fireNext } = takeTimers()
    const action = (): void => assert.fail('it was cancelled')
    const cancel = clock.after(3 * LONGEST_MS, action)
    fireNext()
    cancel()
    cancel()
    clock.after(10, action)()
    assert.deepEqual(
      timers.map(({ isCleared }) => isCleared),
      [false, true, true],
      'the first of them had fired',
    )
  })

  it('after() keeps the process alive unless unreferenced, also with the second of several timers', () => {
    const { clock, timers, fireNext } = takeTimers()
    clock.after(2 * LONGEST_MS, () => {}, false)
    fireNext()
    clock.after(2 * LONGEST_MS, () => {})
    assert.deepEqual(
      timers.map(({ hasRef }) => hasRef),
      [false, false, true],
    )
  })

  for (const [name, clock] of CLOCKS) {
    it(`after() of ${name} works with the timers of Node`, () => {
      const before = timersLeft()
      const cancel = clock.after(HOUR_MS, () => {})
      assert.equal(timersLeft(before), 1)
      cancel()
      assert.equal(timersLeft(before), 0)
      const cancelOther = clock.after(HOUR_MS, () => {}, false)
      assert.equal(timersLeft(before), 0, 'it does not keep the process alive')
      cancelOther()
    })
  }
})

describe('afterPoll()', () => {
  for (const [name, clock] of CLOCKS) {
    it(`afterPoll() of ${name} waits until what has arrived on the sockets was read`, async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      const events: string[] = []
      socket.on('data', (data) => events.push(String(data)))
      const [[peer]] = (await Promise.all([once(server, 'connection'), once(socket, 'ready')])) as [[Socket], unknown]
      peer.write('arrived')
      await new Promise<void>((resolve) => clock.afterPoll(resolve))
      events.push('polled')
      for (const each of [socket, peer]) each.destroy()
      server.close()
      assert.deepEqual(events, ['arrived', 'polled'])
    })
  }
})

describe('the clock of the threads', () => {
  it('the clock of the threads has the monotonic time of the process in ms', () => {
    const hrtimeMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000
    const [before, now, after] = [hrtimeMs(), threadClock.now(), hrtimeMs()]
    assert(before <= now && now <= after)
  })
})
