import { ReplyError } from '../../src/testing/keyspace.js'
import { MemoryPort } from '../../src/testing/memory-port.js'
import { MemoryRedis } from '../../src/testing/memory-redis.js'
import type { FakeClock } from './fake-clock.js'

export type { Fault, Sent } from '../../src/testing/memory-port.js'

/** An error reply of Redis. */
export { ReplyError as FakeReplyError }

/** Redis in memory, with what tests of plain locks look at and change. */
export class FakeRedis extends MemoryRedis {
  /** Locks that exist now. */
  get keys(): string[] {
    this.keyspace.tick()
    return this.keyspace.names().filter((key) => this.keyspace.content(key)?.type === 'hash')
  }

  isHeldBy(key: string, holder: string): boolean {
    return this.execute(['HEXISTS', key, holder]) === 1
  }

  holders(key: string): { holder: string; count: number }[] {
    this.keyspace.tick()
    return [...(this.keyspace.read(key, 'hash') ?? [])].map(([holder, count]) => ({ holder, count: Number(count) }))
  }

  pttl(key: string): number {
    return this.execute(['PTTL', key]) as number
  }

  /** Somebody holds a lock. */
  set(key: string, holder: string, count: number, leaseTimeMs: number): void {
    this.execute(['HSET', key, holder, String(count)])
    this.execute(['PEXPIRE', key, String(leaseTimeMs)])
  }

  delete(key: string): void {
    this.execute(['DEL', key])
  }

  /** The tickets in a turn queue. */
  tickets(key: string): readonly string[] {
    return this.execute(['LRANGE', key, '0', '-1']) as string[]
  }
}

/** A connection to it. */
export class FakePort extends MemoryPort {
  readonly redis: FakeRedis

  constructor(clock: FakeClock, redis = new FakeRedis(clock)) {
    super(clock, redis)
    this.redis = redis
  }
}
