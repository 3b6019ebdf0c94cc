/** What somebody may have meant. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { similarTo } from '../../src/util/similar.js'

describe('a name that is not known', () => {
  const known = ['unlock', 'watch', 'masterName', 'who']
  for (const [name, expected] of [
    ['unlok', 'unlock'],
    ['unlcok', 'unlock'],
    ['nlockk', 'unlock'],
    ['unlockxx', 'unlock'],
    ['unlockxxx', undefined],
    ['xxxlock', undefined],
    ['wath', 'watch'],
    ['MASTER-NAME', 'masterName'],
    ['master_name', 'masterName'],
    ['', undefined],
  ] as const) {
    it(`${JSON.stringify(name)} is ${expected ? `close to ${expected}` : 'close to nothing'}`, () =>
      assert.equal(similarTo(name, known), expected))
  }
})
