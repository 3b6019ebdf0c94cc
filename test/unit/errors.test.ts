import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import { notImported } from '../../src/errors.js'
import {
  ClientClosedError,
  ConfigError,
  LeaseLostError,
  LockError,
  type LossReason,
  NotDurableError,
  NotHeldError,
  OutcomeUnknownError,
  WaitTimeoutError,
} from '../../src/index.js'

const HOLDER = '9c5c8f8e-9a3f-4f43-8d0c-6a4c40a1e3a1:42'
const HUGE_NAME = 'x'.repeat(1024 * 1024)

/** One of each that says a lock name. */
function errorsAbout(lockName: string): LockError[] {
  return [
    new LeaseLostError(lockName, HOLDER, 'expired'),
    new WaitTimeoutError(lockName, 1_000),
    new OutcomeUnknownError(lockName, 'lock', new Error('no reply within 3000 ms')),
    new NotDurableError(lockName, 'late', 'not within 2000 ms'),
    new ClientClosedError(lockName),
    new ConfigError('leaseTimeMs', 0, 'a whole number of ms', { lockName }),
  ]
}

describe('an error', () => {
  it('an error has a stable code, its class name, and the lock it is about', () => {
    const found = [...errorsAbout('a'), new NotHeldError('not held', 'a')].map((error) => {
      assert(error instanceof LockError && error instanceof Error)
      return [error.name, error.code, error.lockName]
    })
    assert.deepEqual(found, [
      ['LeaseLostError', 'LOCK_LEASE_LOST', 'a'],
      ['WaitTimeoutError', 'LOCK_WAIT_TIMEOUT', 'a'],
      ['OutcomeUnknownError', 'LOCK_OUTCOME_UNKNOWN', 'a'],
      ['NotDurableError', 'LOCK_NOT_DURABLE', 'a'],
      ['ClientClosedError', 'LOCK_CLIENT_CLOSED', 'a'],
      ['ConfigError', 'LOCK_CONFIG', 'a'],
      ['NotHeldError', 'LOCK_NOT_HELD', 'a'],
    ])
  })

  it('an error has no lock name if it is not about a lock', () => {
    assert.equal(new ClientClosedError().lockName, undefined)
    assert.equal(new ConfigError('url', undefined, 'a Redis URL').lockName, undefined)
    assert.equal(new ClientClosedError().message, 'The Holdfast client is closed: open a new one with connect()')
  })

  it('an error quotes the lock name in its message', () => {
    for (const error of errorsAbout('lock:order 1001')) assert.match(error.message, /"lock:order 1001"/)
  })

  it('an error escapes characters of a lock name that could forge a log line', () => {
    for (const { message } of errorsAbout('a"\r\nERROR all is lost\u001b[2J\0')) {
      assert(message.includes(String.raw`"a\"\r\nERROR all is lost\u001b[2J\u0000"`), message)
    }
  })

  it('an error has a short message for a lock name of 1 MB, and the whole name in lockName', () => {
    for (const error of errorsAbout(HUGE_NAME)) {
      assert(error.message.length < 600, `${error.name}: ${error.message.length} characters`)
      assert.match(error.message, /… \(1048576 characters\)"/)
      assert.equal(error.lockName, HUGE_NAME)
    }
  })

  it('an error can be serialized to JSON and inspected', () => {
    for (const error of errorsAbout('a')) {
      assert.deepEqual(JSON.parse(JSON.stringify(error)).code, error.code)
      const shown = inspect(error)
      assert.match(shown, new RegExp(`^${error.name}: `))
      assert(shown.length < 5_000, `${error.name}: ${shown.length} characters`)
    }
  })

  it('an error has the stack of its caller', () => {
    for (const error of errorsAbout('a')) assert.match(error.stack ?? '', /errorsAbout.*errors\.test/)
  })
})

describe('a package that cannot be imported', () => {
  const failure = (code: string, message: string): Error => Object.assign(new Error(message), { code })

  it('a package that is missing is to be installed', () => {
    for (const cause of [
      failure('ERR_MODULE_NOT_FOUND', "Cannot find package 'ioredis' imported from /app/main.js"),
      failure('MODULE_NOT_FOUND', "Cannot find module 'ioredis'\nRequire stack:\n- /app/main.js"),
    ]) {
      const { message } = notImported('url', 'ioredis', cause)
      assert.equal(message, 'url: expected the package ioredis to be installed (npm install ioredis)')
    }
  })

  it('a package that cannot be imported for another reason says why', () => {
    for (const [cause, why] of [
      [
        failure('MODULE_NOT_FOUND', "Cannot find module 'redis-parser'\nRequire stack:"),
        "Cannot find module 'redis-parser'",
      ],
      [new SyntaxError('Unexpected token'), 'Unexpected token'],
    ] as const) {
      const error = notImported('url', 'ioredis', cause)
      assert.equal(error.message, `url: expected the package ioredis to load, but importing it failed: ${why}`)
      assert.equal(error.cause, cause)
    }
  })
})

describe('LeaseLostError', () => {
  const reasons: Record<LossReason, RegExp> = {
    expired: /its lease ended before it was renewed/,
    gone: /Redis no longer knows the holder/,
    forced: /force-unlocked/,
    maxHold: /maxHoldMs/,
    closed: /the client was closed/,
  }
  for (const [reason, text] of Object.entries(reasons) as [LossReason, RegExp][]) {
    it(`LeaseLostError names the holder and the reason of the loss: ${reason}`, () => {
      const error = new LeaseLostError('a', HOLDER, reason)
      assert.equal(error.reason, reason)
      assert.equal(error.holder, HOLDER)
      assert.match(error.message, text)
      assert(error.message.includes(HOLDER))
    })
  }
})

describe('WaitTimeoutError', () => {
  it('WaitTimeoutError states the wait time', () => {
    const error = new WaitTimeoutError('a', 1_500)
    assert.equal(error.waitTimeMs, 1_500)
    assert.match(error.message, /within 1500 ms/)
  })
})

describe('OutcomeUnknownError', () => {
  it('OutcomeUnknownError keeps its cause, and names the operation and what happened', () => {
    const cause = new Error('no reply within 3000 ms')
    const error = new OutcomeUnknownError('a', 'unlock', cause)
    assert.equal(error.cause, cause)
    assert.equal(error.operation, 'unlock')
    assert.match(error.message, /"unlock" for "a": no reply within 3000 ms/)
  })

  it('OutcomeUnknownError has a message for a cause without one, or that is not an error', () => {
    assert.match(new OutcomeUnknownError('a', 'lock', new RangeError()).message, /: RangeError\. /)
    for (const cause of [undefined, null, 'ECONNRESET', 42, {}]) {
      assert.match(new OutcomeUnknownError('a', 'lock', cause).message, /^Redis did not reply to "lock"/)
    }
  })
})

describe('ConfigError', () => {
  it('ConfigError names the option, its value, and what is allowed', () => {
    const error = new ConfigError('leaseTimeMs', -5, 'a whole number of ms')
    assert.equal(error.message, 'leaseTimeMs: expected a whole number of ms, not -5')
    assert.deepEqual([error.path, error.value, error.allowed], ['leaseTimeMs', -5, 'a whole number of ms'])
  })

  it('ConfigError shortens any value', () => {
    const cyclic: { self?: unknown } = {}
    cyclic.self = cyclic
    const shown: [unknown, string][] = [
      ['1000', '"1000"'],
      [Number.NaN, 'NaN'],
      [10n, '10'],
      [true, 'true'],
      [null, 'null'],
      [cyclic, '[object Object]'],
      [[1, 2], '[object Array]'],
      [Object.create(null), '[object Object]'],
      [() => {}, 'function'],
      [Symbol('secret'), 'symbol'],
      [HUGE_NAME, `"${'x'.repeat(120)}… (1048576 characters)"`],
    ]
    for (const [value, text] of shown) {
      assert.equal(
        new ConfigError('option', value, 'something else').message,
        `option: expected something else, not ${text}`,
      )
    }
  })

  it('ConfigError does not show a value that might be a secret', () => {
    const error = new ConfigError('url', undefined, 'a Redis URL')
    assert.equal(error.message, 'url: expected a Redis URL')
    assert.equal(error.value, undefined)
  })

  it('ConfigError keeps its cause', () => {
    const cause = new Error('Cannot find package')
    assert.equal(new ConfigError('url', undefined, 'the package ioredis', { cause }).cause, cause)
  })
})
