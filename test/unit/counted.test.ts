import assert from 'node:assert/strict'
import { it } from 'node:test'
import { counted } from '../../src/util/counted.js'

it('counted things have groups of digits, and a plural of their own if theirs is irregular', () => {
  const texts = [counted(0, 'lock'), counted(1, 'lock'), counted(1_234, 'lock'), counted(2, 'entry', 'entries')]
  assert.deepEqual(texts, ['0 locks', '1 lock', '1,234 locks', '2 entries'])
})
