/**
 * Redis, a proxy or a Redis client that replies nonsense: every call settles, with a typed error if it fails.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Client, getMultiLock, getRedLock, type Lock, LockError } from '../../src/index.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { fuzz } from '../support/fuzz.js'

const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    undefined,
    '',
    'OK',
    'QUEUED',
    '0',
    '-1',
    '1.5',
    'a:1',
    Buffer.from('1'),
    {},
    true,
    0,
    1,
  ),
  fc.integer(),
  fc.bigInt(),
  fc.double(),
  fc.string(),
)
const reply = fc.oneof(scalar, fc.array(scalar, { maxLength: 5 }), fc.array(fc.array(scalar, { maxLength: 3 })))

async function useLock(lock: Pick<Lock, 'lock' | 'tryLock'>): Promise<void> {
  const hold = (await lock.tryLock({ leaseTimeMs: 5_000 })) ?? (await lock.lock({ waitTimeMs: 2_000 }))
  await hold.isHeld()
  await hold.unlock()
}

const lockUse =
  (getLock: (client: Client) => Lock) =>
  async (client: Client): Promise<void> => {
    const lock = getLock(client)
    await useLock(lock)
    await lock.withLock({ waitTimeMs: 2_000 }, async (hold) => {
      await lock.isLocked()
      await lock.getHolders()
      await lock.tryWithLock(async () => {})
      await hold.extend(1_000).catch((error: unknown) => assert(error instanceof LockError))
    })
    await lock.remainingLeaseMs()
    await lock.forceUnlock()
  }

/** What programs do, by what they do it with. */
const USES: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  lock: lockUse((client) => client.getLock('a')),
  'non-reentrant lock': lockUse((client) => client.getNonReentrantLock('a')),
  'fair lock': lockUse((client) => client.getFairLock('a')),
  'fenced lock': lockUse((client) => client.getFencedLock('a')),
  'spin lock': lockUse((client) => client.getSpinLock('a')),
  'string lock': lockUse((client) => client.getStringLock('a')),
  'read lock': lockUse((client) => client.getReadWriteLock('a').readLock()),
  'write lock': lockUse((client) => client.getReadWriteLock('a').writeLock()),
  values: (client) => useLock(client.getFasterMultiLock('a', ['x', 'y'])),
  'multi-lock': (client) => useLock(getMultiLock(client.getLock('a'), client.getLock('b'))),
  'red lock': (client) => useLock(getRedLock(client.getLock('a'), client.getLock('b'), client.getLock('c'))),
  'hand-over': async (client) => {
    const hold = await client.getLock('a').lock()
    await (await client.adopt('a', hold.handOver())).unlock()
  },
  semaphore: async (client) => {
    const semaphore = client.getSemaphore('a')
    await semaphore.trySetPermits(2)
    await semaphore.withPermit({ waitTimeMs: 2_000 }, async () => await semaphore.availablePermits())
    await semaphore.drainPermits()
    await semaphore.delete()
  },
  permits: async (client) => {
    const semaphore = client.getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2, waitTimeMs: 2_000 })
    await semaphore.getLeaseTime(permit.permitIds[0] as string)
    await permit.unlock()
    await semaphore.acquiredPermits()
  },
  latch: async (client) => {
    const latch = client.getCountDownLatch('a')
    await latch.trySetCount(1)
    await latch.countDown()
    await latch.await({ waitTimeMs: 2_000 })
    await latch.getCount()
  },
}

describe('a reply that no script returns', () => {
  for (const [title, use] of Object.entries(USES)) {
    it(`a reply that no script returns is a typed error at most, and every call settles: ${title}`, async () => {
      // Which of the first replies are replaced, and by what.
      const other = fc.record({ reply })
      const plan = fc.array(fc.option(other, { freq: 2 }), { minLength: 1, maxLength: 12 })
      await fuzz(plan, async (replies) => {
        const clock = new FakeClock()
        const client = fakeClient(clock, new NonsensePort(clock, replies), {
          commandTimeoutMs: 1_000,
          waitTimeMs: 5_000,
        })
        client.on('warning', () => {})
        await clock.until(use(client)).catch((error: unknown) => {
          assert(error instanceof LockError, `${String(error)} is no LockError\n${(error as Error)?.stack}`)
        })
        await clock.until(client.close())
      })
    })
  }
})

/** What to reply instead, nil included; null: the right reply. */
type Other = { readonly reply: unknown } | null

/** Runs every command, and replies something else. */
class NonsensePort extends FakePort {
  readonly #replies: Other[]

  constructor(clock: FakeClock, replies: readonly Other[]) {
    super(clock)
    this.#replies = [...replies]
  }

  override async send(command: readonly string[], key: string): Promise<unknown> {
    const right = await super.send(command, key)
    const other = this.#replies.shift()
    return other ? other.reply : right
  }
}
