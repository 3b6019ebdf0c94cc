import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { Client } from '../../src/client.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { FencedKind } from '../../src/locks/kinds/fenced.js'

it('a fenced lock is granted by a token and by nothing else', () => {
  const kind = new FencedKind()
  assert.deepEqual(kind.parseReply(['1', '7', ''], 'a'), { isGranted: true, fencingToken: 7n })
  assert.deepEqual(kind.parseReply(['0', 250], 'a'), { heldForMs: 250 })
  assert.deepEqual(kind.parseReply(['0', -1], 'a'), { heldForMs: -1 })
  for (const reply of [
    [],
    [null],
    ['1'],
    ['1', ''],
    ['1', null],
    ['1', 'x'],
    ['1', '1.5'],
    ['2', '7'],
    ['', '7'],
    ['0'],
  ]) {
    assert.throws(() => kind.parseReply(reply, 'a'), NoReplyError, JSON.stringify(reply))
  }
})

it('a server that replies with empty lists grants no fenced lock, and has no token', async () => {
  const port: RedisPort = {
    send: async () => [],
    isErrorReply: () => false,
    subscribe: async () => {},
    unsubscribe: async () => {},
    listen() {},
    close: async () => {},
  }
  const client = new Client(port)
  const lock = client.getFencedLock('a')
  await assert.rejects(lock.tryLock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
  await assert.rejects(lock.getToken(), { code: 'LOCK_OUTCOME_UNKNOWN' })
  await client.close()
})
