import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import { withoutSecrets } from '../../src/util/secrets.js'

const SECRET = 'hunter2'

/** As ioredis makes it. */
function refused(name: string, args: unknown[], message = 'WRONGPASS invalid username-password pair'): Error {
  return Object.assign(new Error(message), { name: 'ReplyError', command: { name, args } })
}

function assertClean(error: unknown): void {
  const all = inspect(error, { depth: 20, showHidden: true }) + String((error as Error).stack)
  assert.ok(!all.includes(SECRET), all)
}

describe('an error that leaves the library', () => {
  it('an error that leaves the library is the same object without the rejected command', () => {
    const error = refused('hello', ['3', 'AUTH', 'app', SECRET])
    assert.equal(withoutSecrets(error), error)
    assert.ok(!('command' in error))
    assert.equal(error.message, 'WRONGPASS invalid username-password pair')
    assert.ok(!('command' in withoutSecrets(refused('evalsha', ['sha', '1', 'lock']))))
  })

  it('an error that leaves the library has no command in its causes and parts, even circular ones', () => {
    const cause = refused('auth', ['app', SECRET])
    const lastNodeError = refused('auth', [SECRET])
    const parts = new AggregateError([new Error('first'), refused('hello', ['3', 'AUTH', 'app', SECRET])], 'all', {
      cause,
    })
    const error = Object.assign(new Error('outer', { cause: parts }), { lastNodeError, replies: [1, 'text', [cause]] })
    cause.cause = error
    assertClean(withoutSecrets(error))
    assert.ok(!('command' in cause || 'command' in lastNodeError))
  })

  it('an error that leaves the library does not contain the password in a message', () => {
    const repeated = `ERR unknown command 'AUTH', with args beginning with: 'app' '${SECRET}' `
    assert.equal(withoutSecrets(refused('auth', ['app', SECRET], repeated)).message, "ERR unknown command 'AUTH'")
    assertClean(withoutSecrets(new Error(repeated)))
    assertClean(withoutSecrets(new Error(repeated.replace("', with", "' with"))))
    assert.equal(withoutSecrets(refused('auth', [SECRET], `ERR ${SECRET} is wrong`)).message, 'ERR … is wrong')
    const ofUser = withoutSecrets(refused('auth', ['app', SECRET], `ERR ${SECRET} of app is wrong`))
    assert.equal(ofUser.message, 'ERR … of app is wrong')
    const buffers = [['3', Buffer.from('AUTH'), 'app', Buffer.from(SECRET)]]
    assertClean(withoutSecrets(refused('HELLO', buffers, `ERR ${SECRET} is wrong`)))
    const named = refused('hello', ['3', 'auth', 'app', SECRET, 'SETNAME', 'web'], `ERR ${SECRET} of web is wrong`)
    assert.equal(withoutSecrets(named).message, 'ERR … of web is wrong')
    const failed = withoutSecrets(new Error('failed', { cause: new Error(`ERR ${SECRET}`) }), SECRET, undefined, '')
    assertClean(failed)
    assert.equal(failed.message, 'failed')
    assert.equal(withoutSecrets(repeated), "ERR unknown command 'AUTH'")
    assert.equal(withoutSecrets(`ERR ${SECRET}`, SECRET), 'ERR …')
  })

  it('an error that leaves the library keeps the arguments of commands that have no password', () => {
    const text = 'ERR 1 and app are wrong'
    for (const error of [
      refused('evalsha', ['sha', '1', 'app'], text),
      refused('evalsha', ['sha', 'AUTH', '1', 'app'], text),
      refused('HELLO', ['3', 'app'], text),
    ]) {
      assert.equal(withoutSecrets(error).message, text)
    }
  })

  it('an error that leaves the library keeps its class, name, code and stack', () => {
    const error = Object.assign(new TypeError(`${SECRET} of app`), { code: 'X' })
    const calls = error.stack?.split('\n').slice(1)
    assert.match(calls?.[0] ?? '', /secrets\.test/)
    assertClean(withoutSecrets(error, SECRET, 'secrets.test'))
    assert.ok(error instanceof TypeError)
    assert.equal(error.code, 'X')
    assert.deepEqual(error.stack?.split('\n').slice(1), calls)
  })

  it('an error that leaves the library is cleaned also without a stack, or without a text message', () => {
    const error = Object.assign(new Error('x'), { stack: `Error: ${SECRET}` })
    assert.equal(withoutSecrets(error, SECRET).stack, 'Error: …')
    for (const strange of [{ stack: undefined }, { message: 7 }]) {
      assertClean(withoutSecrets(Object.assign(refused('auth', [SECRET]), strange)))
    }
  })

  it('an error that leaves the library keeps its properties as they are if they contain no secret', () => {
    const error = Object.assign(new Error(), { code: 'X' })
    const before = [Object.getOwnPropertyDescriptors(error), error.stack]
    withoutSecrets(error, SECRET)
    assert.deepEqual([Object.getOwnPropertyDescriptors(error), error.stack], before)
  })

  it('an error that leaves the library may be frozen, or any other value', () => {
    for (const value of [undefined, null, 1, {}, [], Object.freeze(new Error('frozen'))]) {
      assert.equal(withoutSecrets(value), value)
    }
  })
})
