import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { Client } from '../../src/client.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { FencedKind } from '../../src/locks/kinds/fenced.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const LOCK = { key: 'a', name: 'a' }

it('a fenced lock is granted by a token and by nothing else', () => {
  const kind = new FencedKind()
  assert.deepEqual(kind.parseReply(['1', '7', ''], LOCK), { isGranted: true, fencingToken: 7n })
  assert.deepEqual(kind.parseReply(['0', 250], LOCK), { heldForMs: 250 })
  assert.deepEqual(kind.parseReply(['0', -1], LOCK), { heldForMs: -1 })
  for (const reply of [
    [],
    [null],
    ['1'],
    ['1', ''],
    ['1', null],
    ['1', 'x'],
    ['1', '1.5'],
    ['1', '9223372036854775808'],
    ['1', '-9223372036854775809'],
    ['2', '7'],
    ['', '7'],
    ['01', '7'],
    ['10', '7'],
    ['0'],
  ]) {
    assert.throws(() => kind.parseReply(reply, LOCK), NoReplyError, JSON.stringify(reply))
  }
})

it('a client remembers the highest token of 10,000 locks, and forgets the lock that it saw longest ago', () => {
  const kind = new FencedKind()
  const saw = (key: string, token: string): unknown => kind.parseReply(['1', token, ''], { key, name: key })
  const seen = (key: string): unknown =>
    kind.acquire({ key, holder: 'client:1', leaseTimeMs: 1_000, waitTimeMs: 0 }).args.at(-1)
  for (let n = 1; n <= 10_000; n++) saw(`lock ${n}`, '7')
  assert.equal(seen('lock 1'), '7')
  saw('lock 1', '8')
  saw('lock 10001', '7')
  assert.deepEqual(['lock 1', 'lock 2', 'lock 3', 'lock 10001'].map(seen), ['8', '0', '7', '7'])
})

it('a client does not ask for tokens beyond one below 0, which somebody has set', () => {
  const kind = new FencedKind()
  const request = { key: 'a', holder: 'client:1', leaseTimeMs: 1_000, waitTimeMs: 0 }
  assert.deepEqual(kind.parseReply(['1', '-5', ''], LOCK), { isGranted: true, fencingToken: -5n })
  assert.equal(kind.acquire(request).args.at(-1), '0')
})

it('each caller of a client gets a token of its own, also if the lock is free only because another caller released it', async () => {
  const fixture = new ClientFixture({})
  const lock = fixture.client.getFencedLock('a')
  const hold = await lock.lock()
  const next = lock.lock()
  await fixture.clock.advance(1)
  await hold.unlock()
  const later = await fixture.clock.until(next)
  assert.deepEqual([hold.fencingToken, later.fencingToken], [1n, 2n])
  await later.unlock()
  await fixture.close()
})

it('getToken() returns the last token, whatever its length; 0n before the first', async () => {
  const fixture = new ClientFixture({})
  const lock = fixture.client.getFencedLock('a')
  assert.equal(await lock.getToken(), 0n)
  for (const token of ['7', '12', '-5', '9007199254740993']) {
    fixture.redis.execute(['SET', 'redisson_lock_token:{a}', token])
    assert.equal(await lock.getToken(), BigInt(token))
  }
  await fixture.close()
})

it('a server that replies with nonsense grants no fenced lock, and has no token', async () => {
  let reply: unknown[] = []
  const port: RedisPort = {
    send: async () => reply,
    isErrorReply: () => false,
    subscribe: async () => {},
    unsubscribe: async () => {},
    listen() {},
    close: async () => {},
  }
  const client = new Client(port)
  const lock = client.getFencedLock('a')
  for (reply of [[], ['x7'], ['7x'], ['1.5']]) {
    await assert.rejects(lock.tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await assert.rejects(lock.getToken(), { code: 'LOCK_OUTCOME_UNKNOWN' })
  }
  await client.close()
})
