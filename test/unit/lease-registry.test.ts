/** The leases of one client, by key. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { LeaseRegistry } from '../../src/locks/lease-registry.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

function lease(key: string, holder = 'client:1') {
  return { key, holder, owner: {}, kind: {} as never, grantedAt: 0, isLive: true, markLost: () => {} }
}

describe('the leases of a client', () => {
  it('the leases of a client are found by key and holder until they end, in any order', () => {
    let ended = 0
    const registry = new LeaseRegistry<ReturnType<typeof lease>>(() => ended++)
    assert.equal(registry.find('a', 'client:1'), undefined)
    const [one, two, three] = [lease('a'), lease('a', 'client:2'), lease('b')] as const
    for (const each of [one, two, three]) registry.add(each)
    assert.deepEqual([registry.onKey('a'), registry.onKey('c')], [[one, two], []])
    assert.equal(registry.find('a', 'client:2'), two)
    assert.equal(registry.find('b', 'client:2'), undefined)
    registry.delete(one)
    registry.delete(one)
    assert.deepEqual([registry.onKey('a'), registry.size, ended], [[two], 2, 1])
    registry.delete(two)
    registry.delete(three)
    assert.deepEqual([registry.onKey('a'), registry.size, ended, [...registry]], [[], 0, 3, []])
  })

  it('the leases of a client leave nothing of their keys in memory', () => {
    const registry = new LeaseRegistry<ReturnType<typeof lease>>(() => {})
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    for (let count = 0; count < 50_000; count++) {
      const each = lease(`lock ${count}`)
      registry.add(each)
      registry.delete(each)
    }
    collectGarbage()
    const grownBytes = process.memoryUsage().heapUsed - before
    assert(grownBytes < 2_000_000, `${grownBytes} bytes`)
    assert.equal(registry.size, 0)
  })
})
