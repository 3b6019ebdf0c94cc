import assert from 'node:assert/strict'
import type { Client } from '../../../src/client.js'
import type { ClientOptions } from '../../../src/client-options.js'
import type { ClientEvents, Hold, HoldOptions } from '../../../src/index.js'
import { fakeClient } from './fake-client.js'
import { FakeClock } from './fake-clock.js'
import { FakePort, type Sent } from './fake-port.js'

export const LEASE_MS = 30_000
/** Every third of the lease. */
export const PERIOD_MS = 10_000
/** When a hold is lost if nothing renews it, ms from the command that acquired it: 1 % and 2 ms before Redis ends it. */
export const SURE_MS = 29_698

/** A client whose locks are renewed, on a fake clock and a fake port. */
export class WatchdogFixture {
  readonly clock = new FakeClock()
  readonly port = new FakePort(this.clock)
  readonly client: Client
  readonly lost: ClientEvents['lost'][0][] = []

  constructor(options: ClientOptions = {}) {
    this.client = fakeClient(this.clock, this.port, options)
    this.client.on('lost', (loss) => this.lost.push(loss))
  }

  async close(): Promise<void> {
    this.port.fault = () => undefined
    await this.clock.until(this.client.close())
    assert.equal(this.clock.pending, 0, 'no timer is left after close()')
  }

  async take(name: string, options: HoldOptions = {}): Promise<Hold> {
    return await this.clock.until(this.client.getLock(name).lock(options))
  }

  async takeMany(count: number): Promise<Hold[]> {
    const locks = Array.from({ length: count }, (_, n) => this.client.getLock(`lock:${n}`))
    return await this.clock.until(Promise.all(locks.map((lock) => lock.lock())))
  }

  renewals(): Sent[] {
    return this.port.sent.filter(({ name }) => name === 'lock/renew')
  }

  /** The locks of each renewal. */
  renewed(): (readonly string[])[] {
    return this.renewals().map(({ keys }) => keys)
  }
}
