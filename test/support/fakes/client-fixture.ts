import assert from 'node:assert/strict'
import type { Client } from '../../../src/client.js'
import type { ClientOptions, Hold, LeaseLostError, Lock, LockOptions } from '../../../src/index.js'
import type { Lease } from '../../../src/locks/lease.js'
import { fakeClient } from './fake-client.js'
import { FakeClock, turn } from './fake-clock.js'
import { FakePort } from './fake-port.js'
import { FakeRedis } from './fake-redis.js'

export const CHANNEL = 'redisson_lock__channel:{a}'

/** A client with one lock, and another process on the same Redis, all on a fake clock. Each test has its own. */
export class ClientFixture {
  readonly clock = new FakeClock()
  readonly redis = new FakeRedis(this.clock)
  readonly port = new FakePort(this.clock, this.redis)
  readonly client: Client
  readonly lock: Lock
  /** The losses that `client` has reported. */
  readonly lost: LeaseLostError[] = []
  /** Its warnings. */
  readonly warnings: (Error & { code?: string })[] = []
  /** The other process. */
  readonly otherPort = new FakePort(this.clock, this.redis)
  readonly other: Client
  readonly #options: ClientOptions
  readonly #more: Client[] = []

  /** @param options  of all clients */
  constructor(options: ClientOptions) {
    this.#options = options
    this.client = this.#newClient(this.port)
    this.other = this.#newClient(this.otherPort)
    this.lock = this.client.getLock('a')
    this.client.on('lost', ({ error }) => this.lost.push(error))
    this.client.on('warning', (warning) => this.warnings.push(warning))
  }

  /** A further client, on a port of its own. */
  connect(options: ClientOptions): { port: FakePort; client: Client } {
    const port = new FakePort(this.clock, this.redis)
    const client = this.#newClient(port, options)
    this.#more.push(client)
    return { port, client }
  }

  /** Closes the clients, and fails if the test leaves a timer, subscription or key. */
  async close(): Promise<void> {
    const { clock, client, other } = this
    await clock.until(Promise.all([client, other, ...this.#more].map((each) => each.close())))
    await clock.advance(10) // a queue that yielded to others
    assert.equal(clock.pending, 0, 'no timer is left')
    assert.deepEqual([...this.port.channels, ...this.otherPort.channels], [], 'no subscription is left')
    assert.deepEqual(this.redis.keys, [], 'nothing is held')
  }

  /** A hold and `waiters` waiters of one client: the first of them was refused, and has subscribed. */
  async heldAndWaitedFor(waiters: number, options: LockOptions = {}): Promise<[Hold, Promise<Hold>[]]> {
    const hold = await this.lock.lock()
    const waiting = Array.from({ length: waiters }, () => this.lock.lock(options))
    for (const waiter of waiting) waiter.catch(() => {})
    await turn()
    return [hold, waiting]
  }

  /** The commands that `client` sends during `action`, except subscriptions, with or without the turn queue. */
  async commandsOf(action: () => unknown): Promise<string[]> {
    const before = this.#commands().length
    await action()
    await turn()
    return this.#commands().slice(before)
  }

  /** The hold count of the owner of a hold in Redis. */
  countInRedis({ lockName, holder }: Hold): number | undefined {
    return this.redis.holders(lockName).find((other) => other.holder === holder)?.count
  }

  /** Fails unless a hold is held, by its own account and in Redis. */
  assertSafe(hold: Hold): void {
    hold.assertHeld()
    assert(this.redis.isHeldBy(hold.lockName, hold.holder), 'Redis agrees with the hold')
  }

  /** Releases a hold, of one lock or of several, that has to be safe. */
  async releaseSafe(hold: Hold): Promise<void> {
    for (const member of hold.members) this.assertSafe(member)
    await hold.unlock()
  }

  async pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => void this.clock.after(ms, resolve))
  }

  #commands(): string[] {
    return this.port.sent.map(({ name }) => name.replace('-queued', '')).filter((name) => name.includes('/'))
  }

  #newClient(port: FakePort, options: ClientOptions = {}): Client {
    return fakeClient(this.clock, port, { ...this.#options, ...options })
  }
}

/** How often the lease of this hold was handed off before. */
export function handOffsOf(hold: Hold): number {
  return (hold.lease as Lease).handOffs
}
