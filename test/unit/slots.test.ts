import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { lockChannel } from '../../src/wire/keys.js'
import { checkSlots } from '../../src/wire/names.js'
import { keyIn, slotOf } from '../../src/wire/slots.js'

describe('the slot of a name', () => {
  it('the slot of a name equals that of CLUSTER KEYSLOT', () => {
    for (const [name, slot] of [
      ['order', 16_025],
      ['a{t}b', 15_891],
      ['a}b', 7_866],
      ['a{}b', 13_694],
      ['a{b', 13_340],
      ['a}b{c}', 7_365],
      ['{x}:é', 16_287],
      ['日本{語}', 6_482],
    ] as const)
      assert.equal(slotOf(name), slot, name)
  })

  it('the slot of a name does not depend on a } before the first {', () => {
    assert.equal(slotOf('}{t}'), slotOf('{t}'))
  })

  it('the slot of a name has a key for every slot, which is the same each time', () => {
    for (const slot of [0, 1, 8_191, 16_383]) {
      assert.equal(slotOf(keyIn(slot)), slot)
      assert.equal(keyIn(slot), keyIn(slot))
      assert.match(keyIn(slot), /^\d+$/)
    }
  })

  it('the slot of a name is shared by all its keys, or the name is rejected as the program wrote it', () => {
    const mapped = { key: 'p:a}b', name: 'a}b' }
    assert.throws(() => checkSlots(mapped), {
      value: 'a}b',
      allowed: /in a cluster a name for which nameMapper\.map returns one/,
    })
    assert.throws(() => checkSlots({ key: 'a}b', name: 'a}b' }), { allowed: /^in a cluster a name without braces/ })
    for (const key of ['order', 'a{t}b', '{shop}:order', '{a}{b}', 'Schloß 锁'])
      assert.equal(slotOf(checkSlots({ key, name: key })), slotOf(lockChannel(key)), key)
    for (const key of ['a}b', 'a{}b', 'a{b', '{', '{}'])
      assert.throws(() => checkSlots({ key, name: key }), { code: 'LOCK_CONFIG', path: 'lock name', value: key }, key)
  })
})
