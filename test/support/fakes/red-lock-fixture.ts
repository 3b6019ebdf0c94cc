import assert from 'node:assert/strict'
import { Client } from '../../../src/client.js'
import { type ClientOptions, getRedLock, type Lock, type RedLock } from '../../../src/index.js'
import { FakeClock } from './fake-clock.js'
import { FakePort } from './fake-port.js'

type Three<T> = [T, T, T]

/** A red lock on three servers, each with a client of its own, all on a fake clock. Each test has its own. */
export class RedLockFixture {
  readonly clock = new FakeClock()
  readonly ports = three(() => new FakePort(this.clock))
  readonly clients: Three<Client>
  readonly red: RedLock
  /** What random pauses are computed from, in [0, 1). */
  fraction = 0.5

  constructor(options: ClientOptions = { lockWatchdogTimeoutMs: 20_000 }) {
    const { clock } = this
    this.clients = three((n) => {
      const random = { uuid: () => `client-${n}`, fraction: () => this.fraction }
      return new Client(this.ports[n] as FakePort, options, { clock, random })
    })
    this.red = this.redOf((client) => client.getLock('a'))
  }

  redOf(lockOf: (client: Client) => Lock): RedLock {
    return getRedLock(...this.clients.map(lockOf))
  }

  /** The locks on each server. */
  get keys(): string[][] {
    return this.ports.map(({ redis }) => redis.keys)
  }

  /** Somebody else takes the lock of one server. */
  take(index: number, leaseTimeMs = 600_000): void {
    this.ports[index]?.redis.set('a', 'somebody:1', 1, leaseTimeMs)
  }

  free(index: number): void {
    this.ports[index]?.redis.delete('a')
  }

  /** Closes the clients, and fails if the test leaves a timer or a key. */
  async close(): Promise<void> {
    await this.clock.advance(0) // a late grant is released late
    assert.deepEqual(this.keys, [[], [], []], 'nothing is held')
    await this.clock.until(Promise.all(this.clients.map((client) => client.close())))
    assert.equal(this.clock.pending, 0, 'no timer is left')
  }
}

function three<T>(create: (index: number) => T): Three<T> {
  return [create(0), create(1), create(2)]
}
