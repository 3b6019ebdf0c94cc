import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DenseSet, NameMap } from '../../src/util/collections.js'

describe('DenseSet', () => {
  it('DenseSet contains the same items as a Set after any sequence of additions and deletions', () => {
    const dense = new DenseSet<{ n: number }>('place')
    const set = new Set<{ n: number }>()
    const items = Array.from({ length: 20 }, (_, n) => ({ n }))
    for (let step = 0; step < 2_000; step++) {
      const item = items[(step * 7919 + (step >> 3)) % items.length] as { n: number }
      if (step % 3 === 0) {
        dense.delete(item)
        set.delete(item)
      } else {
        dense.add(item)
        set.add(item)
      }
      assert.equal(dense.size, set.size)
      assert(items.every((one) => dense.has(one) === set.has(one)))
    }
    assert.deepEqual(new Set(dense), set)
    dense.clear()
    assert.deepEqual([dense.size, [...dense]], [0, []])
  })

  it('DenseSet reports each deletion once, and may be changed during iteration', () => {
    let deleted = 0
    const dense = new DenseSet<object>('place', () => deleted++)
    const items = [{}, {}, {}]
    for (const item of items) dense.add(item)
    const seen: object[] = []
    for (const item of dense) {
      seen.push(item)
      for (const one of items) dense.delete(one)
    }
    assert.deepEqual([seen.length, deleted, dense.size], [3, 3, 0])
  })

  it('DenseSet may share items with another DenseSet', () => {
    const [one, other] = [new DenseSet<object>('one'), new DenseSet<object>('other')]
    const [a, b] = [{}, {}]
    one.add(a)
    for (const item of [b, a]) other.add(item)
    one.delete(a)
    assert.deepEqual([one.has(a), other.has(a), other.has(b)], [false, true, true])
  })
})

describe('NameMap', () => {
  it('NameMap accepts names of all kinds, and finds only those that were set', () => {
    const map = new NameMap<number>()
    const names = ['a', '7', '', '__proto__', 'constructor', Symbol('a'), Symbol('a')]
    assert(names.every((name) => map.get(name) === undefined))
    for (const [n, name] of names.entries()) map.set(name, n)
    assert.deepEqual(
      names.map((name) => map.get(name)),
      names.map((_, n) => n),
    )
    assert.equal(map.values().length, names.length)
    for (const name of names) map.delete(name)
    assert.deepEqual(map.values(), [])
  })
})
