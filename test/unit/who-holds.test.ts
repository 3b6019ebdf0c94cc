/** What a call that waited in vain says of the process that holds the lock, from the record of that client. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { RECORD_TTL_MS } from '../../src/fleet/record.js'
import { type ClientOptions, getMultiLock, type Lock, type LockOptions, WaitTimeoutError } from '../../src/index.js'
import type { Fault } from '../../src/testing/memory-port.js'
import { ClientBench } from '../support/client-bench.js'

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

async function heldBy(options: LockOptions = { waitTimeMs: 2_000 }, lock: Pick<Lock, 'lock'> = bench.lock) {
  const error = await bench.clock.until(lock.lock(options)).then(
    () => assert.fail('the lock is not free'),
    (error: unknown) => error,
  )
  assert(error instanceof WaitTimeoutError, String(error))
  return error.heldBy
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
