/** Some proxies of hosted clusters read each script, and refuse it unless its keys are written KEYS[n]. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { offenceOf } from '../support/lua-rule.js'
import { SCRIPTS } from '../support/script-names.js'

describe('the text of a script', () => {
  it('the text of a script has literal keys in every call of Redis, in all its forms', () => {
    for (const { name, text } of SCRIPTS) assert.equal(offenceOf(text), undefined, name)
  })
})

describe('the rule of such proxies', () => {
  const refused = [
    "redis.call('get', key)",
    "redis.call('get', KEYS[n])",
    "redis.call('get', 'lock:' .. KEYS[1])",
    "redis.call('del', KEYS[1], key)",
    "redis.call('del', unpack(KEYS))",
    'redis.call(ARGV[1], KEYS[1])',
    "redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), 1))",
    'local call = redis.call',
  ]
  for (const call of refused) {
    it(`the rule of literal keys refuses ${call}`, () => {
      assert.ok(offenceOf(`redis.call('get', KEYS[1])\n${call}\n`))
    })
  }
})
