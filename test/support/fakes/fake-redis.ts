import { toBytes } from '../../../src/testing/bytes.js'
import { ReplyError } from '../../../src/testing/keyspace.js'
import { MemoryRedis } from '../../../src/testing/memory-redis.js'

/** An error reply of Redis. */
export { ReplyError as FakeReplyError }

/** Redis in memory, with what tests of plain locks look at and change. */
export class FakeRedis extends MemoryRedis {
  /** Locks that exist now. */
  get keys(): string[] {
    this.keyspace.tick()
    const isLock = (key: string): boolean =>
      this.keyspace.content(key)?.type === 'hash' && !key.startsWith('holdfast_idempotency:')
    return this.keyspace.names().filter(isLock)
  }

  isHeldBy(key: string, holder: string): boolean {
    this.keyspace.tick()
    return this.keyspace.read(toBytes(key), 'hash')?.has(toBytes(holder)) === true
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
