/** Whoever is served from an ordered lock's queue: with errors in the Redis in memory, which the order must show. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Hold, Lock } from '../../src/index.js'
import { createTestRedis } from '../../src/testing/index.js'
import { command, type Undo } from '../support/patched.js'

/** Four callers wait for what a fifth one has. @returns who was served before it left, and in each turn after that */
async function served(sides: readonly ('readLock' | 'writeLock')[]): Promise<string[][]> {
  await using redis = createTestRedis({ time: 'virtual' })
  const [one, two] = [redis.connect(), redis.connect()]
  const lockOf = (at: number): Lock => {
    const both = (at % 2 === 0 ? one : two).getReadWriteLock('a', { order: 'fifo' })
    return both[sides[at] as 'readLock' | 'writeLock']()
  }
  const first = await one.getReadWriteLock('a', { order: 'fifo' }).writeLock().lock()
  const inside = new Map<string, Hold>()
  const wait = async (side: string, at: number): Promise<void> => {
    const hold = await lockOf(at).lock({ waitTimeMs: 3_000 })
    inside.set(`${side} ${at}`, hold)
  }
  for (const [at, side] of sides.entries()) {
    wait(side, at).catch(() => {}) // with a planted error
    await redis.time.advance(10)
  }
  const turns: string[][] = [[...inside.keys()]]
  await first.unlock().catch(() => {})
  let served = 0
  for (let look = 0; served < sides.length && look < 100; look++) {
    await redis.time.advance(20)
    if (inside.size === 0) continue
    served += inside.size
    turns.push([...inside.keys()].sort())
    const holds = [...inside.values()]
    inside.clear()
    for (const hold of holds) await hold.unlock().catch(() => {})
  }
  return turns
}

const SIDES = ['readLock', 'writeLock', 'readLock', 'readLock'] as const
const TURNS = [[], ['readLock 0'], ['writeLock 1'], ['readLock 2', 'readLock 3']]

const ERRORS: Readonly<Record<string, () => Undo>> = {
  'the last one is served first': command('zrange', (original) => (keys, [key = '', from, to, ...more]) => {
    return from === '0' && to === '0' && key.endsWith(':places')
      ? original(keys, [key, '-1', '-1', ...more])
      : original(keys, [key, from as string, to as string, ...more])
  }),
  'readers get in beside a writer': command('hget', (original) => (keys, args) => {
    return args[1] === 'mode' && original(keys, args) !== null ? 'read' : original(keys, args)
  }),
}

describe('a queue with maxWaiters', () => {
  const locks: Readonly<Record<string, (client: Client, maxWaiters?: number) => Lock>> = {
    'lock in order': (client, maxWaiters) => client.getLock('a', { order: 'fifo', maxWaiters }),
    'write lock in order': (client, maxWaiters) =>
      client.getReadWriteLock('a', { order: 'fifo', maxWaiters }).writeLock(),
    'fair lock': (client, maxWaiters) => client.getFairLock('a', { maxWaiters }),
    'non-reentrant fair lock': (client, maxWaiters) => client.getNonReentrantFairLock('a', { maxWaiters }),
  }
  for (const [title, lockOf] of Object.entries(locks)) {
    it(`a queue with maxWaiters refuses whom it has no place for, and says so: ${title}`, async () => {
      await using redis = createTestRedis({ time: 'virtual' })
      const client = redis.connect()
      const hold = await lockOf(client, 0).lock()
      const full = { code: 'LOCK_QUEUE_FULL', lockName: 'a', waiters: 0, holders: [hold.holder] }
      await assert.rejects(redis.time.until(lockOf(redis.connect(), 0).lock()), full)
      const waiting = [lockOf(redis.connect(), 1).lock()]
      await redis.time.advance(10)
      await assert.rejects(redis.time.until(lockOf(redis.connect(), 1).lock()), { ...full, waiters: 1 })
      waiting.push(lockOf(redis.connect()).lock())
      await redis.time.advance(10)
      await hold.unlock()
      for (const next of waiting) await (await redis.time.until(next)).unlock()
    })
  }
})

describe('the order of an ordered lock', () => {
  it('an ordered lock serves a reader, then a writer, then two readers together', async () => {
    assert.deepEqual(await served(SIDES), TURNS)
  })

  for (const [error, plant] of Object.entries(ERRORS)) {
    it(`the order of an ordered lock shows the planted error: ${error}`, async () => {
      const undo = plant()
      try {
        assert.notDeepEqual(await served(SIDES), TURNS)
      } finally {
        undo()
      }
    })
  }
})
