import { VirtualClock } from '../../../src/testing/virtual-clock.js'

export { turn, VirtualClock as FakeClock } from '../../../src/testing/virtual-clock.js'

/** Time in an event loop that is busy: what has arrived on the sockets is read when the test says so. */
export class BusyClock extends VirtualClock {
  #afterPoll: (() => void)[] = []

  override afterPoll(action: () => void): void {
    this.#afterPoll.push(action)
  }

  /** Everything that has arrived was read. */
  poll(): void {
    const actions = this.#afterPoll
    this.#afterPoll = []
    for (const action of actions) action()
  }
}
