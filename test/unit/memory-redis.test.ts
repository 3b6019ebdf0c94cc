import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { Batch, type Caller } from '../../src/delivery/batch.js'
import {
  fairLockAcquire,
  lockAcquire,
  lockInspect,
  lockRelease,
  permitAcquire,
  permitInspect,
  SCRIPTS,
} from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
import { forCluster, forMany, forOnce, inTime, once } from '../../src/lua/variants.js'
import { COMMANDS, ReplyError } from '../../src/testing/keyspace.js'
import * as lua from '../../src/testing/lua.js'
import { MemoryPort } from '../../src/testing/memory-port.js'
import { knownScript, MemoryRedis } from '../../src/testing/memory-redis.js'
import { VirtualClock } from '../../src/testing/virtual-clock.js'
import { formsOf } from '../support/script-names.js'

const WRONG_TYPE = { message: 'WRONGTYPE Operation against a key holding the wrong kind of value' }

let clock: VirtualClock
let redis: MemoryRedis

beforeEach(() => {
  clock = new VirtualClock()
  redis = new MemoryRedis(clock)
})

const run = (...command: string[]): unknown => redis.execute(command)

function evaluate({ script, keys, args }: ScriptCall, verb: 'EVAL' | 'EVALSHA' = 'EVALSHA'): unknown {
  const source = verb === 'EVAL' ? script.text : script.sha1
  return run(verb, source, String(keys.length), ...keys, ...args.map(String))
}

describe('the in-memory Redis', () => {
  it('the in-memory Redis knows every script in all its forms', () => {
    for (const script of SCRIPTS) {
      for (const form of formsOf(script)) assert.equal(knownScript(form.sha1)?.script, script, script.name)
    }
  })

  it('the in-memory Redis has exactly the commands that the scripts call', () => {
    const texts = SCRIPTS.map((script) => inTime(forCluster(forMany(forOnce(script)))).text).join()
    const called = new Set([...texts.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name]) => name))
    assert.deepEqual(Object.keys(COMMANDS).sort(), [...called].sort())
  })

  it('the in-memory Redis runs each call of a batch once, with all of its arguments', () => {
    const release = (name: string, number: number): ScriptCall => {
      run('HSET', name, 'ours:1', '1')
      return once(lockRelease(name, 'ours:1', '', '0'), { key: `replies:${name}`, number, openedAt: 0 })
    }
    const callers = ['a', 'b', 'c'].map((name, index) => ({
      call: release(name, index),
      resolve: () => {},
      reject: () => {},
    }))
    const batch = new Batch(callers[0] as Caller, 0)
    for (const caller of callers.slice(1)) assert(batch.add(caller))
    for (let copies = 0; copies < 2; copies++) assert.deepEqual(evaluate(batch.call, 'EVAL'), [[], [0, 0, 0]])
    for (const name of ['a', 'b', 'c']) assert.equal(run('EXISTS', name), 0)
  })

  it('the in-memory Redis runs no script but those of Holdfast', () => {
    assert.throws(() => run('EVAL', 'return 1', '0'), /^ReplyError|Holdfast's own scripts only/)
    assert.throws(() => run('EVALSHA', '0'.repeat(40), '0'), { message: /^NOSCRIPT / })
    assert.throws(() => run('FLUSHALL'), { message: /^ERR unknown command 'FLUSHALL'/ })
  })

  it('the in-memory Redis forgets scripts with SCRIPT FLUSH until they come as text', () => {
    redis.forgetScripts()
    assert.throws(() => evaluate(lockInspect('a')), { message: /^NOSCRIPT / })
    evaluate(lockInspect('a'), 'EVAL')
    evaluate(lockInspect('a'))
  })

  it('the in-memory Redis keeps a key until its deadline has passed', async () => {
    run('SET', 'a', '1', 'PX', '10')
    await clock.advance(10)
    assert.equal(run('PTTL', 'a'), 0)
    await clock.advance(1)
    assert.equal(run('PTTL', 'a'), -2)
  })

  it('the in-memory Redis deletes a key with PEXPIRE that is due at once', () => {
    run('SET', 'a', '1')
    assert.equal(run('PEXPIRE', 'a', '0'), 1)
    assert.equal(run('EXISTS', 'a'), 0)
    assert.throws(() => run('PEXPIRE', 'a', '1.5'), { message: 'ERR value is not an integer or out of range' })
  })

  it('the in-memory Redis counts in 64 bits', () => {
    run('SET', 'a', '9007199254740993')
    run('INCR', 'a')
    assert.equal(run('GET', 'a'), '9007199254740994')
    run('SET', 'a', String(2n ** 63n - 1n))
    assert.throws(() => run('INCR', 'a'), { message: 'ERR increment or decrement would overflow' })
  })

  it('the in-memory Redis replies with the error of the command that failed in a script', () => {
    run('SET', 'a', '1')
    assert.throws(() => evaluate(lockAcquire('a', 1_000, 'me:1')), WRONG_TYPE)
  })

  it('the in-memory Redis refuses nil as the argument of a command, also in a protected call', () => {
    const call = fairLockAcquire('a', 'queue', 'deadlines', 'no number', 'me:1', 20, 1, 'channel', '1', -1)
    assert.throws(() => evaluate(call), { message: 'ERR Lua redis lib command arguments must be strings or integers' })
    assert.equal(run('EXISTS', 'a'), 0, 'the script deletes a lock without a lease')
  })

  it('the in-memory Redis keeps bytes that are not UTF-8, and returns text', () => {
    const id = 'ff'.repeat(16)
    run('SET', 's', '1')
    evaluate(permitAcquire('s', 'leases', 1_000, 'channel', [id]))
    assert.deepEqual(evaluate(permitInspect('s', 'leases', 'channel', [id])), [0, 1, 1_000])
    assert.equal(evaluate(lockAcquire('ключ', 1_000, 'мы:1')), null)
    assert.deepEqual(evaluate(lockInspect('ключ')), [1_000, 'мы:1', '1'])
  })

  it('the in-memory Redis delivers a message after the script, only to a confirmed subscription', async () => {
    const port = new MemoryPort(clock, redis)
    const received: string[] = []
    const subscribing = port.subscribe('channel', (message) => received.push(message))
    assert.equal(redis.publish('channel', 'early'), 0)
    await subscribing
    evaluate(lockAcquire('a', 1_000, 'me:1'))
    assert.equal(evaluate(lockRelease('a', 'me:1', 'channel', '0')), 1)
    assert.deepEqual(received, [])
    await clock.advance(0)
    assert.deepEqual(received, ['0'])
    await port.close()
    assert.equal(redis.publish('channel', 'late'), 0)
  })

  it('the in-memory Redis throws ReplyError, which a port knows for an error reply', () => {
    const port = new MemoryPort(clock, redis)
    assert.equal(port.isErrorReply(new ReplyError('ERR')), true)
    assert.equal(port.isErrorReply(new Error('ERR')), false)
  })
})

describe('numbers of Lua', () => {
  it('numbers of Lua become text as in C', () => {
    for (const [value, digits, text] of [
      [0.1, 17, '0.10000000000000001'],
      [0.1, 14, '0.1'],
      [2 ** 53 + 2, 17, '9007199254740994'],
      [1e17, 17, '1e+17'],
      [1e14, 14, '1e+14'],
      [123_456_789_012_346, 14, '1.2345678901235e+14'],
      [-1.5e-7, 17, '-1.4999999999999999e-07'],
      [0.0001, 14, '0.0001'],
      [Number.POSITIVE_INFINITY, 17, 'inf'],
    ] as const) {
      assert.equal(lua.general(value, digits), text)
    }
  })

  it('numbers of Lua are formatted as in C', () => {
    assert.deepEqual([1.9, -1.9, 1e300].map(lua.integer), ['1', '-1', '-9223372036854775808'])
    assert.deepEqual(
      [0.25, 0.75, 1.25, -0.25, 0.3].map((value) => lua.fixed(value, 1)),
      ['0.2', '0.8', '1.2', '-0.2', '0.3'],
    )
    assert.deepEqual(
      [0.5, 1.5, 2.5, 1_700_000_000_000].map((value) => lua.fixed(value, 0)),
      ['0', '2', '2', '1700000000000'],
    )
  })

  it('numbers of Lua are read from text as by strtod', () => {
    const texts = ['12', ' 12\n', '1.5', '.5', '5.', '1e3', '0x10', '-0x10', 'inf', '12\0x', '', '1 2', '1e', 'x']
    assert.deepEqual(
      texts.map((text) => lua.tonumber(text)),
      [12, 12, 1.5, 0.5, 5, 1000, 16, -16, Number.POSITIVE_INFINITY, 12, undefined, undefined, undefined, undefined],
    )
    assert.equal(lua.tonumber('ff', 16), 255)
  })
})

describe('tables of Lua', () => {
  it('tables of Lua have the length of their list, also when it is filled out of order', () => {
    const table = lua.table([])
    lua.set(table, 2, 'b')
    lua.set(table, 1, 'a')
    assert.equal(lua.length(table), 2)
    lua.set(table, 2, undefined)
    assert.deepEqual(table.list, ['a'])
  })

  it('tables of Lua have no length with a gap, which Lua leaves open', () => {
    assert.throws(() => lua.length(lua.table([1, undefined, 3])), /a list with gaps/)
    assert.equal(lua.index(lua.table([1, undefined, 3]), 3), 3)
  })
})
