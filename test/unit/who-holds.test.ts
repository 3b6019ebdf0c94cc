/** What a call that waited in vain says of the process that holds the lock, from the record of that client. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { RECORD_TTL_MS } from '../../src/fleet/record.js'
import { type ClientOptions, getMultiLock, type Lock, type LockOptions, WaitTimeoutError } from '../../src/index.js'
import type { Fault } from '../../src/testing/memory-port.js'
import { ClientBench } from '../support/fakes/client-bench.js'

const ID = '8743c9c0-0795-4907-87fd-6c71401dfa57'
const HOLDER = `${ID}:7`
const RECORD = `holdfast_client:${ID}`
const ORDERS = { name: 'orders-api', host: 'orders-7f9c', pid: 4711, version: '2.3.1' }
const BY_ID = `held by a Holdfast client of another process, ${ID} (owner 7), whose lease ends in 58 s unless renewed`

let bench: ClientBench

beforeEach(() => open({ inspection: { name: 'billing' } }))
afterEach(() => close())

/** A lock that another process holds. */
function open(options: ClientOptions): void {
  bench = new ClientBench(options)
  bench.redis.set('a', HOLDER, 1, 60_000)
}

async function close(): Promise<void> {
  bench.redis.delete('a')
  bench.redis.delete(RECORD)
  await bench.close()
}

function record(fields: object = {}, ageMs = 0): void {
  const text = JSON.stringify({ v: 1, client: ID, ...ORDERS, holds: [], waits: [], ...fields })
  bench.redis.execute(['SET', RECORD, text, 'PX', String(RECORD_TTL_MS - ageMs)])
}

const holding = (fields: object = {}): object => ({
  holds: [{ lock: 'a', holder: HOLDER, count: 1, heldMs: 20_000, ...fields }],
})

async function timeout(options: LockOptions = { waitTimeMs: 2_000 }, lock: Pick<Lock, 'lock'> = bench.lock) {
  const error = await bench.clock.until(lock.lock(options)).then(
    () => assert.fail('the lock is not free'),
    (error: unknown) => error,
  )
  assert(error instanceof WaitTimeoutError, String(error))
  return error
}

async function heldBy(options?: LockOptions, lock?: Pick<Lock, 'lock'>): Promise<string | undefined> {
  return (await timeout(options, lock)).heldBy
}

const questions = (): number => bench.port.count('GET')

describe('a call that waited for 1 s or more, with a record of the client that holds the lock', () => {
  it('names that process, and since when it holds the lock and what for', async () => {
    record(holding({ label: 'refund' }), 39_000)
    assert.equal(await heldBy(), 'held by orders-api, pid 4711 on orders-7f9c, for 61 s, label "refund"')
    assert.equal(questions(), 1)
  })

  it('names it without a label or a host, if it has none', async () => {
    record({ ...holding(), host: '' })
    assert.equal(await heldBy(), 'held by orders-api, pid 4711, for 22 s')
  })

  it('names it with the end of its lease, if the record is older than the hold', async () => {
    for (const other of [{}, holding({ lock: 'b' }), holding({ holder: `${ID}:8` })]) {
      record(other)
      bench.redis.set('a', HOLDER, 1, 60_000)
      assert.equal(
        await heldBy(),
        'held by orders-api, pid 4711 on orders-7f9c, whose lease ends in 58 s unless renewed',
      )
    }
  })

  it('does so for a lock of several, too', async () => {
    record(holding(), 39_000)
    const multi = getMultiLock(bench.lock, bench.client.getLock('b'))
    assert.equal(await heldBy(undefined, multi), '"a" is held by orders-api, pid 4711 on orders-7f9c, for 61 s')
  })

  it('reports it as a long wait', async () => {
    record(holding())
    const reports: (string | undefined)[] = []
    bench.client.on('longWait', (wait) => reports.push(wait.heldBy))
    await heldBy({ waitTimeMs: 1_500, warnAfterMs: 1_000 })
    assert.deepEqual(reports, ['held by orders-api, pid 4711 on orders-7f9c, for 21 s'])
  })

  it('shows what a terminal would execute as escapes, and no more than 120 characters of a text', async () => {
    record({ ...holding({ label: `\u202e${'x'.repeat(1_000)}` }), name: '\u001b[2Jorders', host: 'a "b"\n' })
    const label = `"\\u202e${'x'.repeat(119)}"`
    assert.equal(await heldBy(), `held by "\\u001b[2Jorders", pid 4711 on "a \\"b\\"\\n", for 22 s, label ${label}`)
  })
})

describe('a call that waited in vain', () => {
  it('does not read a record after less than 1 s', async () => {
    record(holding())
    assert.equal(await heldBy({ waitTimeMs: 999 }), BY_ID.replace('58 s', '59 s'))
    assert.equal(questions(), 0)
  })

  it('does not look for one of a Redisson client', async () => {
    bench.redis.delete('a')
    bench.redis.set('a', '8743c9c0-0795-4907-87fd-6c719a6b4586:54', 1, 60_000)
    assert.match((await heldBy()) ?? '', /^held by a Redisson client 8743c9c0-.* \(thread 54\)/)
    assert.equal(questions(), 0)
  })

  it('says what the lock does if there is no record, or something else in its place', async () => {
    for (const text of [undefined, '', 'nonsense', '{"v":1}', `{"v":1,"client":"${ID}"}`]) {
      bench.redis.set('a', HOLDER, 1, 60_000)
      if (text !== undefined) bench.redis.execute(['SET', RECORD, text])
      assert.equal(await heldBy(), BY_ID, text)
    }
  })

  for (const [what, fault] of [
    ['may not be read', { errorReply: 'NOPERM' }],
    ['does not arrive', { lost: 'reply' }],
  ] as [string, Fault][]) {
    it(`says what the lock does if the record ${what}, within 250 ms and without a warning`, async () => {
      record(holding())
      bench.port.fault = ({ name }) => (name === 'GET' ? fault : undefined)
      const begin = bench.clock.now()
      assert.equal(await heldBy(), BY_ID)
      assert.ok(bench.clock.now() - begin <= 2_260)
      assert.deepEqual(bench.warnings, [])
    })
  }

  it('does not read a record with inspection: false, or if the client may not write its own', async () => {
    record(holding())
    bench.port.fault = ({ name }) => (name === 'SET' ? { errorReply: 'NOPERM' } : undefined)
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
  it('are those in Redis, with what the record of their client says', async () => {
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

  it('are only in Redis without a record, or after less than 1 s', async () => {
    assert.deepEqual((await timeout()).holders, [{ holder: HOLDER, holdCount: 1 }])
    record(holding())
    bench.redis.set('a', HOLDER, 1, 60_000)
    assert.deepEqual((await timeout({ waitTimeMs: 500 })).holders, [{ holder: HOLDER, holdCount: 1 }])
    bench.redis.delete('a')
    bench.redis.set('a', `${JAVA}:54`, 3, 60_000)
    assert.deepEqual((await timeout()).holders, [{ holder: `${JAVA}:54`, holdCount: 3 }])
  })

  it('have no trace that is none', async () => {
    const [long, none] = [`${TRACE}0`, '0'.repeat(32)]
    for (const ids of [{ trace: long }, { trace: none }, { trace: `${TRACE.slice(1)}\n` }, { trace: 7, span: '<b>' }]) {
      record(holding(ids))
      bench.redis.set('a', HOLDER, 1, 60_000)
      const [holder] = (await timeout()).holders
      assert.deepEqual([holder?.label, holder?.trace, holder?.span], [undefined, undefined, undefined])
    }
  })

  it('are those of this client from memory, without a command', async () => {
    bench.redis.delete('a')
    const hold = await bench.lock.lock({ label: 'refund' })
    const before = bench.port.sent.length
    const { holders } = await timeout({ waitTimeMs: 0 })
    assert.equal(bench.port.sent.length - before, 1) // the attempt
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

  it('of a read-write lock are all readers for a writer, and the writer for a reader', async () => {
    const { client, clock, redis } = bench
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

  it('of a lock of several are those of the first one that is held', async () => {
    const multi = getMultiLock(bench.client.getLock('b'), bench.lock)
    const { holders, position } = await timeout(undefined, multi)
    assert.deepEqual([holders, position], [[{ holder: HOLDER, holdCount: 1 }], undefined])
  })

  it('are in a report of a long wait, too', async () => {
    record(holding())
    const reports: unknown[] = []
    bench.client.on('longWait', ({ holders, position }) => reports.push([holders[0]?.heldMs, position]))
    await timeout({ waitTimeMs: 1_500, warnAfterMs: 1_000 })
    assert.deepEqual(reports, [[21_000, 1]])
  })
})

describe('the position of a call that waited in vain', () => {
  /** Two others wait: the first one for as long as the test wants. */
  async function behind(lockOf: (client: typeof bench.client) => Lock): Promise<number | undefined> {
    const abort = new AbortController()
    const { client } = bench.connect({})
    const first = lockOf(bench.other).lock({ signal: abort.signal })
    const second = lockOf(client).lock({ signal: abort.signal })
    for (const wait of [first, second]) wait.catch(() => {})
    await bench.clock.advance(100)
    const { position } = await timeout({ waitTimeMs: 1_000 }, lockOf(bench.client))
    abort.abort()
    await Promise.allSettled([first, second])
    await bench.clock.advance(100)
    return position
  }

  it('is its place in the queue of a fair lock', async () => {
    assert.equal(await behind((client) => client.getFairLock('a')), 3)
  })

  it('is the place of its client in the turn queue of a plain lock', async () => {
    assert.equal(await behind((client) => client.getLock('a')), 3)
  })

  it('is not looked up after less than 1 s, or if this client holds the lock', async () => {
    assert.equal((await timeout({ waitTimeMs: 999 })).position, undefined)
    bench.redis.delete('a')
    const fair = bench.client.getFairLock('a')
    const hold = await fair.lock()
    assert.equal((await timeout({ waitTimeMs: 1_500 }, fair)).position, undefined)
    await hold.unlock()
    assert.equal(bench.port.count('LPOS'), 0)
  })

  it('does not exist without a queue', async () => {
    assert.equal((await timeout(undefined, bench.client.getFencedLock('a'))).position, undefined)
    assert.equal(bench.port.count('LPOS'), 0)
  })

  for (const [what, fault] of [
    ['is refused', { errorReply: 'NOPERM' }],
    ['does not arrive', { lost: 'reply' }],
  ] as [string, Fault][]) {
    it(`is unknown if it ${what}, within 250 ms and without a warning`, async () => {
      bench.port.fault = ({ name }) => (name === 'LPOS' ? fault : undefined)
      const begin = bench.clock.now()
      const { position, heldBy } = await timeout()
      assert.deepEqual([position, heldBy], [undefined, BY_ID])
      assert.equal(bench.port.count('LPOS'), 1)
      assert.ok(bench.clock.now() - begin <= 2_260)
      assert.deepEqual(bench.warnings, [])
    })
  }
})
