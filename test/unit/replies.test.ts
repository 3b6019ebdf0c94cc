/** Replies of scripts in every form in which Redis clients return them, and what is none. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  advised,
  isErrorOf,
  isLasting,
  isRetryable,
  mayHaveRun,
  NoReplyError,
  toArray,
  toInteger,
  toWords,
} from '../../src/delivery/replies.js'
import { OutcomeUnknownError, WrongTypeError } from '../../src/errors.js'

describe('a reply', () => {
  it('a reply that is an integer may be a number, a bigint, a text or bytes; nil stays nil', () => {
    for (const seven of [7, 7n, '7', Buffer.from('7')]) assert.equal(toInteger(seven), 7)
    for (const below of [-1, -1n, '-1', Buffer.from('-1')]) assert.equal(toInteger(below), -1)
    for (const lease of [30_000, 30_000n, '30000']) assert.equal(toInteger(lease), 30_000)
    for (const zero of [0, 0n, '0']) assert.equal(toInteger(zero), 0)
    assert.equal(toInteger(null), null)
  })

  it('a reply is no integer if it is empty, a list, a fraction or another text', () => {
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

  it('a reply that is a list has words, of which nil is empty', () => {
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
  it('an error is worth a retry if there was no reply, or if Redis cannot serve now', () => {
    assert.equal(isRetryable(new NoReplyError('gone')), true)
    assert.equal(isRetryable(new Error('LOADING Redis is loading the dataset in memory')), true)
    assert.equal(isRetryable(new Error('NOPERM no permissions')), false)
    assert.equal(isRetryable('LOADING'), false)
  })

  const lasting = [false, true, false] as const
  const atOnce = [false, false, false] as const
  const notNow = [true, false, false] as const
  const unknown = [true, false, true] as const
  for (const [message, expected] of [
    ['NOPERM this user has no permissions to run the command', lasting],
    ["ERR The user executing the script can't run this command or subcommand script: 3f, on @user_script:9.", lasting],
    ['WRONGTYPE Operation against a key holding the wrong kind of value', lasting],
    ["ERR unknown command 'EVALSHA', with args beginning with:", lasting],
    ["ERR unsupported command 'wait'", lasting],
    ["ERR command 'EVAL' is not allowed", lasting],
    ['ERR value is not an integer or out of range script: 3f, on @user_script:9.', lasting],
    ['ERR one reader can hold a lock 10000 times at most', lasting],
    ['ERR bad lua script for redis cluster, all the keys that the script uses should be passed …', lasting],
    ["OOM command not allowed when used memory > 'maxmemory'. script: 3f, on @user_script:9.", atOnce],
    ['NOAUTH Authentication required.', atOnce],
    ['MOVED 3999 127.0.0.1:6381', atOnce],
    ["CROSSSLOT Keys in request don't hash to the same slot", atOnce],
    ['ERR eval/evalsha command keys must be in same slot', atOnce],
    ['LOADING Redis is loading the dataset in memory', notNow],
    ['TRYAGAIN Multiple keys request during rehashing of slot', notNow],
    ['CLUSTERDOWN The cluster is down', notNow],
    ['Too many Cluster redirections', notNow],
    ["READONLY You can't write against a read only replica. script: 3f, on @user_script:9.", notNow],
    ['MISCONF Redis is configured to save snapshots. Commands that may modify the data set are disabled', notNow],
    ['UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)', unknown],
    ['NOGOODSLAVE No suitable replica to promote', unknown],
    ['ERR max number of clients reached', unknown],
    ['ERR upstream failure', unknown],
    ['ERR Script attempted to access a non local key in a cluster node script: 3f, on @user_script:9.', unknown],
    ['no upstream host', unknown],
    ['ERR Error running script: @user_script:5: attempt to index a nil value', [false, false, true]],
  ] as const) {
    const [forCaller, forGood, inDoubt] = expected
    const so = `${forCaller ? '' : 'not '}for a caller${forGood ? ', never again' : ''}${inDoubt ? ', and may hide that it ran' : ''}`
    it(`an error is worth a retry or not, ${so}: ${message}`, () => {
      const error = new Error(message)
      assert.deepEqual([isRetryable(error), isLasting(error), mayHaveRun(error)], expected)
    })
  }

  it('an error of Holdfast, or a bug, is no reply of Redis', () => {
    const noReply = new NoReplyError("unknown command 'x'")
    assert.deepEqual([isRetryable(noReply), isLasting(noReply), mayHaveRun(noReply)], [true, false, true])
    for (const error of [
      new OutcomeUnknownError('a', 'lock', noReply),
      new WrongTypeError('a', 'string', new Error('WRONGTYPE')),
      new TypeError('x is not a function'),
      'LOADING',
    ]) {
      assert.deepEqual([isRetryable(error), isLasting(error), mayHaveRun(error)], [false, false, false])
    }
  })

  it('an error that leaves its reader at a loss gets advice once, also if it is frozen', () => {
    const moving = new Error('TRYAGAIN Multiple keys request during rehashing of slot')
    for (const _ of ['at first', 'again']) assert.equal(advised(moving), moving)
    assert.match(moving.message, /^TRYAGAIN .* of slot: a slot [^:]* is being moved, [^:]*: wait until .* fix`$/)
    assert(moving.stack?.startsWith(`Error: ${moving.message}\n`), moving.stack)
    const elsewhere = new Error('ERR Script attempted to access a non local key in a cluster node')
    assert.match((advised(elsewhere) as Error).message, /cluster node: this is a node of a cluster, .* share a slot$/)
    const frozen = Object.freeze(new Error('TRYAGAIN'))
    assert.equal(advised(frozen), frozen)
    for (const other of [new Error('OOM'), new Error('no TRYAGAIN'), 'TRYAGAIN', undefined]) {
      const before = String(other)
      assert.equal(String(advised(other)), before)
    }
  })

  it('an error has one of several codes', () => {
    const refused = new Error('NOPERM no permissions')
    assert.equal(isErrorOf(refused, 'NOPERM', 'CROSSSLOT'), true)
    assert.equal(isErrorOf(refused, 'CROSSSLOT', 'NOPERM'), true)
    assert.equal(isErrorOf(refused, 'CROSSSLOT'), false)
    assert.equal(isErrorOf('NOPERM', 'NOPERM'), false)
  })
})
