/** Replies of scripts in every form in which Redis clients return them, and what is none. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isErrorOf, isRetryable, NoReplyError, toArray, toInteger, toWords } from '../../src/delivery/replies.js'

describe('a reply', () => {
  it('that is an integer may be a number, a bigint, a text or bytes; nil stays nil', () => {
    for (const seven of [7, 7n, '7', Buffer.from('7')]) assert.equal(toInteger(seven), 7)
    for (const below of [-1, -1n, '-1', Buffer.from('-1')]) assert.equal(toInteger(below), -1)
    for (const lease of [30_000, 30_000n, '30000']) assert.equal(toInteger(lease), 30_000)
    for (const zero of [0, 0n, '0']) assert.equal(toInteger(zero), 0)
    assert.equal(toInteger(null), null)
  })

  it('is no integer if it is empty, a list, a fraction or another text', () => {
    for (const strange of [
      undefined,
      '',
      [],
      {},
      [[]],
      Buffer.from(''),
      1.5,
      '1.5',
      'a:1',
      Number.NaN,
      true,
      'QUEUED',
      ' ',
      '7 ',
    ]) {
      assert.throws(() => toInteger(strange), NoReplyError, JSON.stringify(strange))
    }
  })

  it('that is a list has words, of which nil is empty', () => {
    assert.deepEqual(toWords([null, 'a', 1, 2n, Buffer.from('b')]), ['', 'a', '1', '2', 'b'])
    assert.deepEqual(toWords([]), [])
    assert.deepEqual(toArray([1, [2]]), [1, [2]])
    for (const strange of [null, undefined, 'a', 1, {}]) {
      assert.throws(() => toArray(strange), NoReplyError)
      assert.throws(() => toWords(strange), NoReplyError)
    }
  })
})

describe('an error', () => {
  it('is worth a retry if there was no reply, or if Redis cannot serve now', () => {
    assert.equal(isRetryable(new NoReplyError('gone')), true)
    assert.equal(isRetryable(new Error('LOADING Redis is loading the dataset in memory')), true)
    assert.equal(isRetryable(new Error('NOPERM no permissions')), false)
    assert.equal(isRetryable('LOADING'), false)
  })

  it('has one of several codes', () => {
    const refused = new Error('NOPERM no permissions')
    assert.equal(isErrorOf(refused, 'NOPERM', 'CROSSSLOT'), true)
    assert.equal(isErrorOf(refused, 'CROSSSLOT', 'NOPERM'), true)
    assert.equal(isErrorOf(refused, 'CROSSSLOT'), false)
    assert.equal(isErrorOf('NOPERM', 'NOPERM'), false)
  })
})
