import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { durationOf } from '../../src/util/duration-text.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

describe('durationOf', () => {
  for (const [ms, text] of [
    [0, '0ms'],
    [680.6, '681ms'],
    [999, '999ms'],
    [SECOND, '1.0s'],
    [24_190, '24.1s'],
    [MINUTE - 1, '59.9s'],
    [MINUTE, '1m 0s'],
    [11 * MINUTE + 2 * SECOND, '11m 2s'],
    [HOUR - 1, '59m 59s'],
    [HOUR, '1h 0m'],
    [2 * HOUR + 14 * MINUTE, '2h 14m'],
    [48 * HOUR - 1, '47h 59m'],
    [48 * HOUR, '2d 0h'],
    [76 * HOUR, '3d 4h'],
    [Number.POSITIVE_INFINITY, 'no end'],
  ] as const) {
    it(`durationOf writes ${ms} ms as ${text}`, () => assert.equal(durationOf(ms), text))
  }
})
