import { MemoryPort } from '../../../src/testing/memory-port.js'
import type { FakeClock } from './fake-clock.js'
import { FakeRedis } from './fake-redis.js'

export type { Sent } from '../../../src/testing/memory-port.js'

/** A connection to a Redis in memory. */
export class FakePort extends MemoryPort {
  readonly redis: FakeRedis

  constructor(clock: FakeClock, redis = new FakeRedis(clock)) {
    super(clock, redis)
    this.redis = redis
  }
}
