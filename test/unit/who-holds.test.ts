/** What a call that waited in vain says of the process that holds the lock, from the record of that client. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { RECORD_TTL_MS } from '../../src/fleet/record.js'
import { type ClientOptions, getMultiLock, type Lock, type LockOptions, WaitTimeoutError } from '../../src/index.js'
import { waitBegan, waitingCalls } from '../../src/locks/reporting/waiting-calls.js'
import type { Fault } from '../../src/testing/memory-port.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const ID = '8743c9c0-0795-4907-87fd-6c71401dfa57'
const HOLDER = `${ID}:7`
const RECORD = `holdfast_client:${ID}`
const ORDERS = { name: 'orders-api', host: 'orders-7f9c', pid: 4711, version: '2.3.1' }
const BY_ID = `held by a Holdfast client of another process, ${ID} (owner 7), whose lease ends in 58 s unless renewed`

let fixture: ClientFixture

beforeEach(() => open({ inspection: { name: 'billing' } }))
afterEach(() => close())

/** A lock that another process holds. */
function open(options: ClientOptions): void {
  fixture = new ClientFixture(options)
  fixture.redis.set('a', HOLDER, 1, 60_000)
}

async function close(): Promise<void> {
  fixture.redis.delete('a')
  fixture.redis.delete(RECORD)
  await fixture.close()
}

function record(fields: object = {}, ageMs = 0): void {
  const text = JSON.stringify({ v: 1, client: ID, ...ORDERS, holds: [], waits: [], ...fields })
  fixture.redis.execute(['SET', RECORD, text, 'PX', String(RECORD_TTL_MS - ageMs)])
}

const holding = (fields: object = {}): object => ({
  holds: [{ lock: 'a', holder: HOLDER, count: 1, heldMs: 20_000, ...fields }],
})

async function timeout(options: LockOptions = { waitTimeMs: 2_000 }, lock: Pick<Lock, 'lock'> = fixture.lock) {
  const error = await fixture.clock.until(lock.lock(options)).then(
    () => assert.fail('the lock is not free'),
    (error: unknown) => error,
  )
  assert(error instanceof WaitTimeoutError, String(error))
  return error
}

async function heldBy(options?: LockOptions, lock?: Pick<Lock, 'lock'>): Promise<string | undefined> {
  return (await timeout(options, lock)).heldBy
}

const questions = (): number => fixture.port.count('GET')

describe('a call that waited for 1 s or more, with a record of the client that holds the lock', () => {
  it("a call that waited 1 s names the holder's process, since when it holds the lock and what for", async () => {
    record(holding({ label: 'refund' }), 39_000)
    assert.equal(await heldBy(), 'held by orders-api, pid 4711 on orders-7f9c, for 61 s, label "refund"')
    assert.equal(questions(), 1)
  })

  it("a call that waited 1 s names the holder's process without a label or a host, if it has none", async () => {
    record({ ...holding(), host: '' })
    assert.equal(await heldBy(), 'held by orders-api, pid 4711, for 22 s')
  })

  it("a call that waited 1 s names the holder with its lease's end, if its record is older", async () => {
    for (const other of [{}, holding({ lock: 'b' }), holding({ holder: `${ID}:8` })]) {
      record(other)
      fixture.redis.set('a', HOLDER, 1, 60_000)
      assert.equal(
        await heldBy(),
        'held by orders-api, pid 4711 on orders-7f9c, whose lease ends in 58 s unless renewed',
      )
    }
  })

  it('a call that waited 1 s names the holder for a lock of several, too', async () => {
    record(holding(), 39_000)
    const multi = getMultiLock(fixture.lock, fixture.client.getLock('b'))
    assert.equal(await heldBy(undefined, multi), '"a" is held by orders-api, pid 4711 on orders-7f9c, for 61 s')
  })

  it("a long-wait report names the holder's process, and since when it holds the lock", async () => {
    record(holding())
    const reports: (string | undefined)[] = []
    fixture.client.on('longWait', (wait) => reports.push(wait.heldBy))
    await heldBy({ waitTimeMs: 1_500, warnAfterMs: 1_000 })
    assert.deepEqual(reports, ['held by orders-api, pid 4711 on orders-7f9c, for 21 s'])
  })

  it('a call that waited 1 s escapes what a terminal would execute, and shows 120 characters at most', async () => {
    record({ ...holding({ label: `\u202e${'x'.repeat(1_000)}` }), name: '\u001b[2Jorders', host: 'a "b"\n' })
    const label = `"\\u202e${'x'.repeat(119)}"`
    assert.equal(await heldBy(), `held by "\\u001b[2Jorders", pid 4711 on "a \\"b\\"\\n", for 22 s, label ${label}`)
  })
})

describe('a call that waited in vain', () => {
  it('a call that waited in vain reads no record after less than 1 s', async () => {
    record(holding())
    assert.equal(await heldBy({ waitTimeMs: 999 }), BY_ID.replace('58 s', '59 s'))
    assert.equal(questions(), 0)
  })

  it('a call that waited in vain looks for no record of a Redisson client', async () => {
    fixture.redis.delete('a')
    fixture.redis.set('a', '8743c9c0-0795-4907-87fd-6c719a6b4586:54', 1, 60_000)
    assert.match((await heldBy()) ?? '', /^held by a Redisson client 8743c9c0-.* \(thread 54\)/)
    assert.equal(questions(), 0)
  })

  it('a call that waited in vain says what the lock does if there is no record, or something else', async () => {
    for (const text of [undefined, '', 'nonsense', '{"v":1}', `{"v":1,"client":"${ID}"}`]) {
      fixture.redis.set('a', HOLDER, 1, 60_000)
      if (text !== undefined) fixture.redis.execute(['SET', RECORD, text])
      assert.equal(await heldBy(), BY_ID, text)
    }
  })

  for (const [what, fault] of [
    ['may not be read', { errorReply: 'NOPERM' }],
    ['does not arrive', { lost: 'reply' }],
  ] as [string, Fault][]) {
    it(`a call that waited in vain says what the lock does if the record ${what}, within 250 ms`, async () => {
      record(holding())
      fixture.port.fault = ({ name }) => (name === 'GET' ? fault : undefined)
      const begin = fixture.clock.now()
      assert.equal(await heldBy(), BY_ID)
      assert.ok(fixture.clock.now() - begin <= 2_260)
      assert.deepEqual(fixture.warnings, [])
    })
  }

  it('a call that waited in vain reads no record with inspection: false, or if it may write none', async () => {
    record(holding())
    fixture.port.fault = ({ name }) => (name === 'SET' ? { errorReply: 'NOPERM' } : undefined)
    assert.equal(await heldBy(), BY_ID)
    assert.equal(questions(), 0)
    await close()
    open({ inspection: false })
    record(holding())
    assert.equal(await heldBy(), BY_ID)
    assert.equal(questions(), 0)
  })
})

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'
const JAVA = '8743c9c0-0795-4907-87fd-6c719a6b4586'

describe('the holders of a lock that was waited for', () => {
  it('the holders of a lock are those in Redis, with what the record of their client says', async () => {
    record(holding({ label: 'refund', trace: TRACE, span: SPAN }), 39_000)
    const { holders, position } = await timeout()
    assert.deepEqual(holders, [
      {
        holder: HOLDER,
        holdCount: 1,
        client: { id: ID, ...ORDERS },
        heldMs: 61_000,
        label: 'refund',
        trace: TRACE,
        span: SPAN,
      },
    ])
    assert.equal(position, 1)
  })

  it('the holders of a lock are only in Redis without a record, or after less than 1 s', async () => {
    assert.deepEqual((await timeout()).holders, [{ holder: HOLDER, holdCount: 1 }])
    record(holding())
    fixture.redis.set('a', HOLDER, 1, 60_000)
    assert.deepEqual((await timeout({ waitTimeMs: 500 })).holders, [{ holder: HOLDER, holdCount: 1 }])
    fixture.redis.delete('a')
    fixture.redis.set('a', `${JAVA}:54`, 3, 60_000)
    assert.deepEqual((await timeout()).holders, [{ holder: `${JAVA}:54`, holdCount: 3 }])
  })

  it('the holders of a lock have no trace if the record has no valid one', async () => {
    const [long, none] = [`${TRACE}0`, '0'.repeat(32)]
    for (const ids of [{ trace: long }, { trace: none }, { trace: `${TRACE.slice(1)}\n` }, { trace: 7, span: '<b>' }]) {
      record(holding(ids))
      fixture.redis.set('a', HOLDER, 1, 60_000)
      const [holder] = (await timeout()).holders
      assert.deepEqual([holder?.label, holder?.trace, holder?.span], [undefined, undefined, undefined])
    }
  })

  it('the holders of a lock are those of this client from memory, without a command', async () => {
    fixture.redis.delete('a')
    const hold = await fixture.lock.lock({ label: 'refund' })
    const before = fixture.port.sent.length
    const { holders } = await timeout({ waitTimeMs: 0 })
    assert.equal(fixture.port.sent.length - before, 1) // the attempt
    assert.deepEqual(
      holders.map(({ client, ...known }) => [client?.name, client?.pid, known]),
      [
        [
          'billing',
          process.pid,
          { holder: hold.holder, holdCount: 1, status: 'responding', heldMs: 0, label: 'refund' },
        ],
      ],
    )
    await hold.unlock()
  })

  it('the holders of a read-write lock are all readers for a writer, and the writer for a reader', async () => {
    const { client, clock, redis } = fixture
    record({ holds: [{ lock: 'rw', holder: `${ID}:7`, count: 1, heldMs: 20_000 }] })
    const readers = [`${ID}:7`, `${JAVA}:54`, `${JAVA}:55`]
    redis.set('rw', 'mode', 0, 60_000)
    redis.execute(['HSET', 'rw', 'mode', 'read'])
    for (const reader of readers) {
      redis.execute(['HSET', 'rw', reader, '1'])
      redis.execute(['SET', `{rw}:${reader}:rwlock_timeout:1`, '1', 'PX', '60000'])
    }
    const { holders, heldBy } = await timeout({ waitTimeMs: 1_000 }, client.getReadWriteLock('rw').writeLock())
    assert.deepEqual(
      holders.map(({ holder, mode, heldMs }) => [holder, mode, heldMs]),
      [[readers[0], 'read', 21_000], ...readers.slice(1).map((reader) => [reader, 'read', undefined])],
    )
    assert.equal(heldBy, 'held by orders-api, pid 4711 on orders-7f9c, for 21 s and 2 more')
    redis.delete('rw')
    await clock.advance(60_000)
    redis.execute(['HSET', 'rw', 'mode', 'write', `${JAVA}:54:write`, '1'])
    const reader = await timeout({ waitTimeMs: 20 }, client.getReadWriteLock('rw').readLock())
    assert.deepEqual(reader.holders, [{ holder: `${JAVA}:54:write`, holdCount: 1, mode: 'write' }])
    redis.delete('rw')
  })

  it('the holders of a lock of several are those of the first one that is held', async () => {
    const multi = getMultiLock(fixture.client.getLock('b'), fixture.lock)
    const { holders, position } = await timeout(undefined, multi)
    assert.deepEqual([holders, position], [[{ holder: HOLDER, holdCount: 1 }], undefined])
  })

  it('the holders of a lock are in a report of a long wait, too', async () => {
    record(holding())
    const reports: unknown[] = []
    fixture.client.on('longWait', ({ holders, position }) => reports.push([holders[0]?.heldMs, position]))
    await timeout({ waitTimeMs: 1_500, warnAfterMs: 1_000 })
    assert.deepEqual(reports, [[21_000, 1]])
  })
})

describe('the position of a call that waited in vain', () => {
  /** Two others wait: the first one for as long as the test wants. */
  async function behind(
    lockOf: (client: typeof fixture.client) => Lock,
    options: LockOptions = {},
  ): Promise<number | undefined> {
    const abort = new AbortController()
    const { client } = fixture.connect({})
    const first = lockOf(fixture.other).lock({ signal: abort.signal })
    const second = lockOf(client).lock({ signal: abort.signal })
    for (const wait of [first, second]) wait.catch(() => {})
    await fixture.clock.advance(100)
    const { position } = await timeout({ waitTimeMs: 1_000, ...options }, lockOf(fixture.client))
    abort.abort()
    await Promise.allSettled([first, second])
    await fixture.clock.advance(100)
    return position
  }

  it('the position of a call is its place in the queue of a fair lock', async () => {
    assert.equal(await behind((client) => client.getFairLock('a')), 3)
  })

  it('the position of a call is its place in the queue of an ordered lock, behind higher priorities', async () => {
    for (const lockOf of [
      (client: typeof fixture.client) => client.getLock('a', { order: 'fifo' }),
      (client: typeof fixture.client) => client.getReadWriteLock('rw', { order: 'fifo' }).readLock(),
    ]) {
      fixture.redis.execute(['HSET', 'rw', 'mode', 'write', `${HOLDER}:write`, '1'])
      assert.equal(await behind(lockOf), 3)
      assert.equal(await behind(lockOf, { priority: 1 }), 1)
    }
    fixture.redis.delete('rw')
  })

  it('the position of a call is the place of its client in the turn queue of a plain lock', async () => {
    assert.equal(await behind((client) => client.getLock('a')), 3)
  })

  it('the position of a call is not looked up after less than 1 s, or if this client holds it', async () => {
    assert.equal((await timeout({ waitTimeMs: 999 })).position, undefined)
    fixture.redis.delete('a')
    const fair = fixture.client.getFairLock('a')
    const hold = await fair.lock()
    assert.equal((await timeout({ waitTimeMs: 1_500 }, fair)).position, undefined)
    await hold.unlock()
    assert.equal(fixture.port.count('LPOS'), 0)
  })

  it('the position of a call does not exist without a queue', async () => {
    assert.equal((await timeout(undefined, fixture.client.getFencedLock('a'))).position, undefined)
    assert.equal(fixture.port.count('LPOS'), 0)
  })

  for (const [what, fault] of [
    ['is refused', { errorReply: 'NOPERM' }],
    ['does not arrive', { lost: 'reply' }],
  ] as [string, Fault][]) {
    it(`the position of a call is unknown if it ${what}, within 250 ms and without a warning`, async () => {
      fixture.port.fault = ({ name }) => (name === 'LPOS' ? fault : undefined)
      const begin = fixture.clock.now()
      const { position, heldBy } = await timeout()
      assert.deepEqual([position, heldBy], [undefined, BY_ID])
      assert.equal(fixture.port.count('LPOS'), 1)
      assert.ok(fixture.clock.now() - begin <= 2_260)
      assert.deepEqual(fixture.warnings, [])
    })
  }
})

describe('the register of waiting calls', () => {
  it('the register of waiting calls gives a client its own', () => {
    const [one, other] = [{ clock: fixture.clock }, { clock: fixture.clock }] as never[] as [never, never]
    const end = waitBegan(one, 'a', undefined, Number.POSITIVE_INFINITY)
    assert.deepEqual([waitingCalls(one).length, waitingCalls(other).length], [1, 0])
    end()
    assert.deepEqual(waitingCalls(one), [])
  })
})

describe('a call that waits inside locks of its own', () => {
  const lock = (name: string): Lock => fixture.client.getLock(name)
  /** A call chain that holds one lock and waits for another one for 10 s. */
  const chain = (holds: string, wants: string): Promise<void> =>
    lock(holds).withLock(async () => await (await lock(wants).tryLock({ waitTimeMs: 10_000 }))?.unlock())

  it('a call that waits for itself through two other call chains says which of its locks is wanted', async () => {
    const others = [chain('x', 'y'), chain('y', 'z')]
    await lock('z').withLock(async () => {
      const text = await heldBy({ waitTimeMs: 2_000 }, lock('x'))
      assert.match(text ?? '', /deadlock: the holder waits for "z", which this call chain holds/)
      await fixture.clock.until(Promise.all(others))
    })
  })

  it('a call that waits for itself through one of several readers says so', async () => {
    const sides = fixture.client.getReadWriteLock('r')
    const idle = await sides.readLock().lock()
    const others = [
      sides.readLock().withLock(async () => assert.equal(await lock('z').tryLock({ waitTimeMs: 10_000 }), null)),
      lock('x').withLock(async () => assert.equal(await sides.writeLock().tryLock({ waitTimeMs: 9_000 }), null)),
    ]
    await lock('z').withLock(async () => {
      const text = await heldBy({ waitTimeMs: 2_000 }, lock('x'))
      assert.match(text ?? '', /deadlock: the holder waits for "z"/)
      await fixture.clock.until(Promise.all(others))
    })
    await idle.unlock()
  })

  it('a call that waits for a holder is in no deadlock because somebody else waits for its own lock', async () => {
    const held = await lock('x').lock()
    const asking = lock('z').withLock(async () => await heldBy({ waitTimeMs: 2_000 }, lock('x')))
    const other = lock('z').tryLock({ waitTimeMs: 10_000 })
    assert.doesNotMatch((await asking) ?? '', /deadlock/)
    await (await fixture.clock.until(other))?.unlock()
    await held.unlock()
  })

  it('a call that waits for two chains that wait for each other is not part of their deadlock', async () => {
    const others = [chain('x', 'y'), chain('y', 'x')]
    await lock('z').withLock(async () => {
      const text = await heldBy({ waitTimeMs: 2_000 }, lock('x'))
      assert.doesNotMatch(text ?? '', /deadlock/)
      await fixture.clock.until(Promise.all(others))
    })
  })
})
