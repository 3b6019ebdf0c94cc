/** `release: 'background'`: the call ends with its function, and nothing of the release is lost. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const OPTIONS = { release: 'background' } as const

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
})

afterEach(() => fixture.close())

const releases = (): number => fixture.port.count('lock/release-queued')

describe("withLock() with release: 'background'", () => {
  it('a call with a background release ends with its function: the release is sent, and not awaited', async () => {
    const { clock, lock, port, redis } = fixture
    port.once('lock/release-queued', { requestMs: 500, replyMs: 500 })
    const startedAt = clock.now()
    assert.equal(await clock.until(lock.withLock(OPTIONS, () => 'value')), 'value')
    assert.equal(clock.now(), startedAt)
    await clock.advance(500)
    assert.deepEqual([redis.keys, releases()], [[], 1])
    await clock.advance(500)
  })

  it('a background release without a reply is repeated, and is no error of the call', async () => {
    const { clock, lock, port, redis, warnings } = fixture
    port.once('lock/release-queued', { lost: 'request' })
    assert.equal(await clock.until(lock.withLock(OPTIONS, () => 'value')), 'value')
    await clock.advance(10_000)
    assert.deepEqual([redis.keys, releases()], [[], 2])
    assert.deepEqual(
      warnings.map(({ code }) => code),
      ['LOCK_OUTCOME_UNKNOWN'],
    )
  })

  it('a loss that only the reply to a background release shows is the event lost', async () => {
    const { clock, lock, redis, lost } = fixture
    const value = await clock.until(
      lock.withLock(OPTIONS, () => {
        redis.flush()
        return 'value'
      }),
    )
    await clock.advance(1_000)
    assert.equal(value, 'value')
    assert.deepEqual(
      lost.map(({ reason }) => reason),
      ['gone'],
    )
  })

  it('a loss that is known when the function ends rejects the call, also with a background release', async () => {
    const { clock, lock } = fixture
    const call = lock.withLock({ ...OPTIONS, leaseTimeMs: 1_000 }, () => clock.block(2_000))
    await assert.rejects(clock.until(call), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
  })

  it('an error of the function is thrown at once, and the background release is sent all the same', async () => {
    const { clock, lock, port, redis } = fixture
    port.once('lock/release-queued', { requestMs: 500, replyMs: 500 })
    const startedAt = clock.now()
    const call = lock.withLock(OPTIONS, () => Promise.reject(new Error('failed')))
    await assert.rejects(clock.until(call), { message: 'failed' })
    assert.equal(clock.now(), startedAt)
    await clock.advance(1_000)
    assert.deepEqual(redis.keys, [])
  })

  it('onRelease is called after a background release, and what it throws is a warning', async () => {
    const { clock, lock, port, warnings } = fixture
    port.once('lock/release-queued', { replyMs: 500 })
    let releasedAt = 0
    const onRelease = (): never => {
      releasedAt = clock.now()
      throw new Error('too late')
    }
    const startedAt = clock.now()
    await clock.until(lock.tryWithLock({ ...OPTIONS, onRelease }, () => {}))
    await clock.advance(1_000)
    assert.equal(releasedAt - startedAt, 500)
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['too late'],
    )
  })

  it('close() waits for a background release', async () => {
    const { clock, redis } = fixture
    const { client, port } = fixture.connect({})
    port.once('lock/release-queued', { requestMs: 500, replyMs: 500 })
    await clock.until(client.getLock('a').withLock(OPTIONS, () => {}))
    const startedAt = clock.now()
    await clock.until(client.close())
    assert.equal(clock.now() - startedAt, 1_000)
    assert.deepEqual(redis.keys, [])
  })

  it('the next call for the lock does not overtake a background release', async () => {
    const { clock, lock, port } = fixture
    for (let round = 0; round < 10; round++) await clock.until(lock.withLock(OPTIONS, () => {}))
    assert.equal(port.count('lock/acquire'), 10)
  })

  it('release is refused if it is neither await nor background', async () => {
    const options = { release: 'later' } as never
    await assert.rejects(
      fixture.lock.withLock(options, () => {}),
      {
        code: 'LOCK_CONFIG',
        message: /release.*'await' or 'background'/,
      },
    )
    assert.equal(fixture.port.count(), 0)
  })
})
