/** Each small configuration file has the verdict of the table, which has Redisson's beside it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eachFile, isAccepted, readByHoldfast, readTable } from '../support/config-inputs.js'

const table = readTable()

describe('a small configuration file', () => {
  it('a small configuration file has the verdict of the table, and leads to its values', async () => {
    const found = await eachFile(table, async (file, name) => {
      const { verdict, reads } = await readByHoldfast(file)
      return [name, { verdict, reads }]
    })
    const expected = Object.entries(table).map(([name, { holdfast, reads = {} }]) => [
      name,
      { verdict: holdfast, reads },
    ])
    assert.deepEqual(Object.fromEntries(found), Object.fromEntries(expected))
    assert.ok(found.length >= 194)
  })

  it('the table says why where Holdfast and Redisson differ, and only there', () => {
    const wrong = Object.entries(table).filter(([, { holdfast, java, javaReads, because }]) => {
      const isDifferent = isAccepted(holdfast) !== isAccepted(java) || javaReads !== undefined
      return isDifferent !== (because !== undefined)
    })
    assert.deepEqual(
      wrong.map(([name]) => name),
      [],
    )
  })
})
