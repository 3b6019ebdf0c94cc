/** What a signal does, without ending this process: another handler of the signal keeps it alive. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { closeOnSignals, type SignalOptions } from '../../src/shutdown.js'
import { turn } from '../support/fakes/fake-clock.js'

let calls: string[]
let errors: Error[]
let drains: number[]
let whys: string[]
let closing: Promise<void>
let stop: () => void
/** The client was closed, in whatever way. */
let closed: () => void
/** What was sent to this process. */
let killed: unknown[][]

const other = (): void => {}

function handle(options: SignalOptions = {}): void {
  const begin = (): void => void calls.push('begin')
  const close = (drainMs: number, why: string): Promise<void> => {
    calls.push('close')
    drains.push(drainMs)
    whys.push(why)
    return closing
  }
  const onError = (error: Error): void => void errors.push(error)
  stop = closeOnSignals(begin, close, options, onError, (callback) => {
    closed = callback
  })
}

beforeEach(() => {
  ;[calls, errors, drains, whys, killed] = [[], [], [], [], []]
  mock.method(process, 'kill', (...args: unknown[]) => killed.push(args))
  closing = Promise.resolve()
  process.on('SIGTERM', other)
})

afterEach(() => {
  stop()
  process.off('SIGTERM', other)
  mock.restoreAll()
})

describe('closeOnSignals', () => {
  it('closeOnSignals lets leaders resign and closes with drainMs, once, and says which signal it was', async () => {
    handle({ drainMs: 5_000 })
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(calls, ['begin', 'close'])
    assert((drains[0] as number) > 4_000 && (drains[0] as number) <= 5_000)
    assert.match(whys[0] as string, /received SIGTERM\. .* `before`/)
    assert.deepEqual(process.listeners('SIGTERM'), [other], 'its own handler is gone')
    assert.deepEqual(process.listeners('SIGINT'), [])
  })

  it('closeOnSignals leaves to other handlers whether the process ends, and lets it end without one', async () => {
    handle()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(killed, [])
    process.off('SIGTERM', other)
    handle()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(killed, [[process.pid, 'SIGTERM']])
  })

  it('closeOnSignals drains for 10 s by default', async () => {
    handle()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert((drains[0] as number) > 9_000 && (drains[0] as number) <= 10_000)
  })

  it('closeOnSignals closes at once on the second signal', async () => {
    let finish = (): void => {}
    closing = new Promise((resolve) => {
      finish = resolve
    })
    handle()
    process.emit('SIGTERM', 'SIGTERM')
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.equal(drains[1], 0)
    assert.equal(whys[1], 'the process received SIGTERM again')
    assert.deepEqual(calls, ['begin', 'close', 'close'])
    finish()
    await turn()
  })

  it('closeOnSignals waits for `before`, then closes with what is left of drainMs', async () => {
    let finish = (): void => {}
    handle({ before: () => new Promise<void>((resolve) => (finish = resolve)) })
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(calls, ['begin'])
    finish()
    await turn()
    assert.deepEqual(calls, ['begin', 'close'])
    assert((drains[0] as number) > 9_000)
    assert.match(whys[0] as string, /`before` has finished/)
  })

  it('closeOnSignals closes at once when `before` takes longer than drainMs, and says so', async () => {
    handle({ drainMs: 20, before: () => new Promise(() => {}) })
    process.emit('SIGTERM', 'SIGTERM')
    while (calls.length < 2) await sleep(5)
    assert((drains[0] as number) <= 1)
    assert.match(whys[0] as string, /drainMs \(20 ms\) ended before `before` had finished/)
  })

  it('closeOnSignals cuts `before` on the second signal', async () => {
    handle({ before: () => new Promise(() => {}) })
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(drains, [0, 0])
  })

  it('closeOnSignals reports what `before` or close() threw, and closes all the same', async () => {
    closing = Promise.reject(new Error('not closed'))
    handle({
      before: () => {
        throw new Error('not finished')
      },
    })
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(
      errors.map(({ message }) => message),
      ['not finished', 'not closed'],
    )
    assert.deepEqual(process.listeners('SIGTERM'), [other])
  })

  it('closeOnSignals warns of other handlers of the signal, unless there is `before`', async () => {
    handle()
    process.emit('SIGTERM', 'SIGTERM')
    assert.deepEqual(
      errors.map((error) => (error as Error & { code: string }).code),
      ['CLOSED_BESIDE_HANDLER'],
    )
    await turn()
    errors = []
    handle({ before: () => {} })
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(errors, [])
  })

  it('closeOnSignals does not warn of the handlers of other clients', () => {
    process.off('SIGTERM', other)
    closing = new Promise(() => {}) // else the signal ends this process
    handle()
    const stopOther = closeOnSignals(
      other,
      () => closing,
      {},
      (error) => errors.push(error),
      other,
    )
    process.emit('SIGTERM', 'SIGTERM')
    stopOther()
    assert.deepEqual(errors, [])
  })

  it('closeOnSignals does nothing any more after the function that it returned was called', async () => {
    handle()
    stop()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(calls, [])
  })

  it('closeOnSignals leaves no handlers once the client is closed, and one for all clients until then', () => {
    handle()
    const stopOther = closeOnSignals(other, () => closing, {}, other, other)
    assert.equal(process.listenerCount('SIGTERM'), 2, 'and `other`')
    closed()
    assert.equal(process.listenerCount('SIGTERM'), 2)
    stopOther()
    assert.deepEqual(process.listeners('SIGTERM'), [other])
    assert.deepEqual(process.listeners('SIGINT'), [])
  })

  it('closeOnSignals listens until `before` has finished, also if that closes the client', async () => {
    let finish = (): void => {}
    handle({ before: () => new Promise<void>((resolve) => (finish = resolve)) })
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    closed()
    assert.equal(process.listenerCount('SIGTERM'), 2, 'else the end of another client would end the process')
    finish()
    while (process.listenerCount('SIGTERM') > 1) await sleep(5)
    assert.deepEqual(process.listeners('SIGTERM'), [other])
  })

  it('closeOnSignals listens again after somebody has removed all handlers', async () => {
    handle()
    const stopFirst = stop
    process.removeAllListeners('SIGTERM')
    handle()
    process.on('SIGTERM', other)
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    assert.deepEqual(calls, ['begin', 'close', 'begin', 'close'])
    stopFirst()
  })

  it('closeOnSignals refuses a `before` that is no function, and drainMs below 0', () => {
    for (const options of [{ before: 1 }, { drainMs: -1 }, { drainMs: 1.5 }]) {
      assert.throws(() => closeOnSignals(other, async () => {}, options as never, other, other), {
        code: 'LOCK_CONFIG',
      })
    }
    handle({ drainMs: 0 })
  })
})
