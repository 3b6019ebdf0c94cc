import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { JOBS_KEY, jobKey, lockChannel, UNLOCK_MESSAGE } from '../../src/wire/keys.js'
import { slotOf } from '../../src/wire/slots.js'

it('the record of a job is in the slot of the list of jobs, whatever its name', () => {
  for (const name of ['a', '{a}', 'a{b}c', '}{', '']) assert.equal(slotOf(jobKey(name)), slotOf(JOBS_KEY), name)
})

describe('the channel of a lock', () => {
  // Redisson's rule (RedissonObject.prefixName): a name with an opening brace anywhere is used as it is.
  const channels = {
    order: 'redisson_lock__channel:{order}',
    'lock:order:1001': 'redisson_lock__channel:{lock:order:1001}',
    '{shop}:order': 'redisson_lock__channel:{shop}:order',
    'order:{shop}': 'redisson_lock__channel:order:{shop}',
    'a{b': 'redisson_lock__channel:a{b',
    'a}b': 'redisson_lock__channel:{a}b}',
    'a}b{c': 'redisson_lock__channel:a}b{c',
    '{': 'redisson_lock__channel:{',
    '}': 'redisson_lock__channel:{}}',
    '{}': 'redisson_lock__channel:{}',
    '{}x': 'redisson_lock__channel:{}x',
    ' ': 'redisson_lock__channel:{ }',
    'Straße 1 \u{1F512}': 'redisson_lock__channel:{Straße 1 \u{1F512}}',
    'a\r\nb\0': 'redisson_lock__channel:{a\r\nb\0}',
    constructor: 'redisson_lock__channel:{constructor}',
  }
  for (const [lockName, channel] of Object.entries(channels)) {
    it(`the channel of a lock is ${JSON.stringify(channel)} for ${JSON.stringify(lockName)}`, () => {
      assert.equal(lockChannel(lockName), channel)
    })
  }

  it('the channel of a lock carries the message 0', () => {
    assert.equal(UNLOCK_MESSAGE, '0')
  })
})
