import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DenseSet, NameMap } from '../../src/util/collections.js'

describe('a bag', () => {
  it('has what was put in and not taken out, whatever is done in between, as a Set has', () => {
    const bag = new DenseSet<{ n: number }>()
    const set = new Set<{ n: number }>()
    const items = Array.from({ length: 20 }, (_, n) => ({ n }))
    for (let step = 0; step < 2_000; step++) {
      const item = items[(step * 7919 + (step >> 3)) % items.length] as { n: number }
      if (step % 3 === 0) {
        bag.delete(item)
        set.delete(item)
      } else {
        bag.add(item)
        set.add(item)
      }
      assert.equal(bag.size, set.size)
      assert(items.every((one) => bag.has(one) === set.has(one)))
    }
    assert.deepEqual(new Set(bag), set)
    bag.clear()
    assert.deepEqual([bag.size, [...bag]], [0, []])
  })

  it('tells once of each that is gone, and can be changed while it is looked through', () => {
    let gone = 0
    const bag = new DenseSet<object>(() => gone++)
    const items = [{}, {}, {}]
    for (const item of items) bag.add(item)
    const seen: object[] = []
    for (const item of bag) {
      seen.push(item)
      for (const one of items) bag.delete(one)
    }
    assert.deepEqual([seen.length, gone, bag.size], [3, 3, 0])
  })

  it('may share what it has with another', () => {
    const [one, other] = [new DenseSet<object>(), new DenseSet<object>()]
    const [a, b] = [{}, {}]
    one.add(a)
    for (const item of [b, a]) other.add(item)
    one.delete(a)
    assert.deepEqual([one.has(a), other.has(a), other.has(b)], [false, true, true])
  })
})

describe('a directory', () => {
  it('knows names of all kinds, and none that it was not told', () => {
    const directory = new NameMap<number>()
    const names = ['a', '7', '', '__proto__', 'constructor', Symbol('a'), Symbol('a')]
    assert(names.every((name) => directory.get(name) === undefined))
    for (const [n, name] of names.entries()) directory.set(name, n)
    assert.deepEqual(
      names.map((name) => directory.get(name)),
      names.map((_, n) => n),
    )
    assert.equal(directory.values().length, names.length)
    for (const name of names) directory.delete(name)
    assert.deepEqual(directory.values(), [])
  })
})
