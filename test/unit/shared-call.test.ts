import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { SharedCall } from '../../src/adapters/shared-call.js'
import { sleep } from '../support/wait-until.js'

/** A call whose replies the test provides. */
function controlled() {
  const sent: { resolve(reply: string): void; reject(error: Error): void }[] = []
  const call = new SharedCall<string>(() => new Promise((resolve, reject) => sent.push({ resolve, reject })))
  return { call, sent }
}

describe('a shared call', () => {
  it('a shared call is sent once for all callers of one turn, even one promise later', async () => {
    const { call, sent } = controlled()
    const replies = [call.join(1_000), call.join(1_000), Promise.resolve().then(() => call.join(1_000))]
    await turn()
    assert.equal(sent.length, 1)
    sent[0]?.resolve('yes')
    assert.deepEqual(await Promise.all(replies), ['yes', 'yes', 'yes'])
  })

  it('a shared call does not serve callers after it was sent: they share the next one', async () => {
    const { call, sent } = controlled()
    const first = call.join(1_000)
    await turn()
    const others = [call.join(1_000), call.join(1_000)]
    await turn()
    assert.equal(sent.length, 1)
    sent[0]?.resolve('first')
    assert.equal(await first, 'first')
    await turn()
    assert.equal(sent.length, 2)
    sent[1]?.resolve('second')
    assert.deepEqual(await Promise.all(others), ['second', 'second'])
  })

  it('a shared call rejects for the callers that shared it, not for those that share the next one', async () => {
    const { call, sent } = controlled()
    const first = [call.join(1_000), call.join(1_000)]
    await turn()
    const second = call.join(1_000)
    sent[0]?.reject(new Error('no'))
    for (const one of first) await assert.rejects(one, /no/)
    await turn()
    sent[1]?.resolve('yes')
    assert.equal(await second, 'yes')
  })

  it('a shared call is sent again when its timeout passes without a reply, which may be lost', async () => {
    const { call, sent } = controlled()
    void call.join(20)
    await turn()
    const next = call.join(20)
    await sleep(60)
    assert.equal(sent.length, 2)
    sent[1]?.resolve('yes')
    assert.equal(await next, 'yes')
  })
})
