/**
 * Every public call with arguments of any kind: it works, or fails with a typed error, and bad input is refused before a
 * command is sent.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { type Client, ConfigError, getMultiLock, getRedLock, LockError } from '../../src/index.js'
import { createTestRedis, type TestRedis } from '../../src/testing/index.js'
import { fuzz } from '../support/fuzz.js'

const OPTIONS = [
  ...['leaseTimeMs', 'waitTimeMs', 'maxHoldMs', 'warnAfterMs', 'signal', 'within', 'label', 'permits', 'onAcquire'],
  ...[
    'onRelease',
    'atLeastMs',
    'timeToLiveMs',
    'onElected',
    'onLost',
    'base',
    'initialDelayMs',
    'maxDelayMs',
    'unknown',
  ],
]

/** Has a getter that fails, as a proxy of an ORM might have. */
class BrokenError extends Error {}
const BROKEN = Object.defineProperty({}, 'leaseTimeMs', {
  enumerable: true,
  get: () => {
    throw new BrokenError()
  },
})

const strange = fc.constantFrom<unknown>(
  ...[undefined, null, '', ' ', 'a', '{', '{}', '{a}', '}{', '\u0000', '\ud800', 'é', 'a'.repeat(5_000), '-1', '1e3'],
  ...[0, -0, 1, -1, 0.5, 1_000, 2 ** 31, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY, Number.MIN_VALUE, 10n],
  ...[true, false, Symbol('s'), /a/, new Date(Number.NaN), new Map(), new Proxy({}, {}), Object.create(null), BROKEN],
  ...[() => {}, () => 1, async () => 'done', Promise.resolve(1), [], ['a'], ['a', 'a'], [null], {}],
  ...[new AbortController().signal, AbortSignal.abort(new BrokenError()), globalThis],
)
const anything = fc.oneof({ weight: 3, arbitrary: strange }, { weight: 1, arbitrary: fc.anything() })
const argument = fc.oneof(
  { weight: 3, arbitrary: anything },
  { weight: 2, arbitrary: fc.dictionary(fc.constantFrom(...OPTIONS), anything, { maxKeys: 3 }) },
)

type Subject = (client: Client) => object | Promise<object>

const LOCK = ['lock', 'tryLock', 'withLock', 'tryWithLock', 'unlock'] as const
const PLAIN = [
  ...LOCK,
  ...['adopt', 'forceUnlock', 'getHoldCount', 'getHolders', 'isHeldByCurrentOwner', 'isLocked', 'remainingLeaseMs'],
  'watch',
]
const COUNTED = ['acquire', 'tryAcquire', 'withPermit', 'tryWithPermit', 'addPermits', 'reducePermits', 'delete']

/** Public methods, by what has them. */
const SUBJECTS: Readonly<Record<string, readonly [Subject, readonly string[]]>> = {
  client: [
    (client) => client,
    [
      ...[
        'getLock',
        'getFairLock',
        'getNonReentrantLock',
        'getNonReentrantFairLock',
        'getReadWriteLock',
        'getFencedLock',
      ],
      ...['getSpinLock', 'getStringLock', 'getFasterMultiLock', 'getSemaphore', 'getPermitExpirableSemaphore'],
      ...['getCountDownLatch', 'adopt', 'withLock', 'runInScope'],
    ],
  ],
  lock: [(client) => client.getLock('a'), PLAIN],
  'fair lock': [(client) => client.getFairLock('a'), PLAIN],
  'fenced lock': [(client) => client.getFencedLock('a'), PLAIN],
  'spin lock': [(client) => client.getSpinLock('a'), PLAIN],
  'string lock': [(client) => client.getStringLock('a'), PLAIN],
  'read lock': [(client) => client.getReadWriteLock('a').readLock(), PLAIN],
  'write lock': [(client) => client.getReadWriteLock('a').writeLock(), PLAIN],
  values: [(client) => client.getFasterMultiLock('a', ['x', 'y']), LOCK],
  'multi-lock': [(client) => getMultiLock(client.getLock('a'), client.getLock('b')), LOCK],
  'red lock': [(client) => getRedLock(client.getLock('a')), LOCK],
  hold: [
    (client) => client.getLock('a').lock(),
    ['unlock', 'isHeld', 'assertHeld', 'extend', 'handOver', 'remainingMs'],
  ],
  semaphore: [
    (client) => client.getSemaphore('a'),
    [...COUNTED, 'trySetPermits', 'availablePermits', 'drainPermits', 'release', 'releaseIfExists'],
  ],
  permits: [
    (client) => client.getPermitExpirableSemaphore('a'),
    [
      ...[...COUNTED, 'trySetPermits', 'setPermits', 'availablePermits', 'acquiredPermits', 'getPermits', 'release'],
      ...['tryRelease', 'updateLeaseTime', 'getLeaseTime'],
    ],
  ],
  latch: [(client) => client.getCountDownLatch('a'), ['await', 'countDown', 'getCount', 'trySetCount', 'delete']],
}

describe('a call with any arguments', () => {
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason)
  before(() => process.on('unhandledRejection', onUnhandled))
  after(() => process.off('unhandledRejection', onUnhandled))

  for (const [title, [subject, methods]] of Object.entries(SUBJECTS)) {
    it(`a call with any arguments works or fails with a typed error: ${title}`, async () => {
      const calls = fc.tuple(fc.constantFrom(...methods), fc.array(argument, { maxLength: 3 }))
      await fuzz(calls, async ([method, args]) => {
        const redis = createTestRedis({ time: 'virtual' })
        const client = redis.connect({ waitTimeMs: 5_000 })
        client.on('warning', () => {})
        const object = await redis.time.until(Promise.resolve(subject(client)))
        const call = () => (object as Record<string, (...all: unknown[]) => unknown>)[method]?.(...args)
        await check(redis, client, call, args.some(isLongWait))
        await redis.time.until(client.close())
      })
      await new Promise((resolve) => setImmediate(resolve))
      assert.deepEqual(unhandled, [])
    })
  }
})

it('a name that is no text is refused as such, whatever else is wrong', async () => {
  await using redis = createTestRedis()
  const client = redis.connect()
  const circular: Record<string, unknown> = {}
  circular['itself'] = circular
  for (const name of [circular, 10n, globalThis] as unknown as string[]) {
    const expected = { code: 'LOCK_CONFIG', path: 'lock name' }
    assert.throws(() => client.getSpinLock(name, { unknown: 1 } as never), expected)
    assert.throws(() => client.getFasterMultiLock(name, [] as never), expected)
    assert.throws(() => client.getLock(name), expected)
  }
  assert.throws(() => client.runInScope(undefined as never), { code: 'LOCK_CONFIG', path: 'fn' })
})

/** Options of a call that may wait for longer than the virtual time of a test, for permits that nobody has. */
function isLongWait(options: unknown): boolean {
  const waitTimeMs = Object.getOwnPropertyDescriptor(Object(options), 'waitTimeMs')?.value
  return typeof waitTimeMs === 'number' && waitTimeMs >= 600_000
}

async function check(redis: TestRedis, client: Client, call: () => unknown, mayWait = false): Promise<void> {
  const before = redis.sent(client).length
  try {
    const called = Promise.resolve(call())
    called.catch(() => {})
    await redis.time.until(called)
  } catch (error) {
    if (mayWait && error instanceof Error && error.message.startsWith('still pending')) return
    // What the caller's own getter or signal throws is the caller's.
    if (error instanceof BrokenError) return
    assert(error instanceof LockError, `${String(error)} is no LockError\n${(error as Error)?.stack}`)
    if (error instanceof ConfigError)
      assert.equal(redis.sent(client).length, before, 'refused before a command is sent')
  }
}
