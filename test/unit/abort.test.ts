/** Signals that many waits share. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { beforeEach, describe, it } from 'node:test'
import { onAbort } from '../../src/util/abort.js'

describe('a signal that many waits share', () => {
  let controller: AbortController
  let called: string[]

  beforeEach(() => {
    controller = new AbortController()
    called = []
  })

  const add = (name: string): (() => void) => onAbort(controller.signal, () => void called.push(name))
  const listeners = (): number => getEventListeners(controller.signal, 'abort').length

  it('a shared signal has one listener however many they are, and none once all of them have ended', () => {
    const cancels = ['a', 'b', 'c'].map(add)
    assert.equal(listeners(), 1)
    for (const cancel of cancels.slice(1)) cancel()
    assert.equal(listeners(), 1)
    cancels[0]?.()
    assert.equal(listeners(), 0)
    controller.abort()
    assert.deepEqual(called, [])
  })

  it('a shared signal calls each wait that has not ended', () => {
    const [, cancel] = ['a', 'b', 'c'].map(add)
    cancel?.()
    controller.abort()
    assert.deepEqual(called, ['a', 'c'])
  })

  it('a shared signal calls all waits although each ends as it is called', () => {
    const cancels = ['a', 'b', 'c'].map((name) =>
      onAbort(controller.signal, () => {
        called.push(name)
        for (const cancel of cancels) cancel()
      }),
    )
    controller.abort()
    assert.deepEqual(called, ['a', 'b', 'c'])
    assert.equal(listeners(), 0)
  })

  it('a shared signal keeps a wait begun after another ended, even if that one ends twice', () => {
    const cancel = add('a')
    cancel()
    add('b')
    cancel()
    assert.equal(listeners(), 1)
    controller.abort()
    assert.deepEqual(called, ['b'])
  })
})
