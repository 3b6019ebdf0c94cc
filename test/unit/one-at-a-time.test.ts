import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OneAtATime } from '../../src/util/one-at-a-time.js'
import { turn } from '../support/fakes/fake-clock.js'

describe('actions that run one at a time', () => {
  it('actions that run one at a time begin in order, each when the last has ended, also by an error', async () => {
    const actions = new OneAtATime()
    const diary: string[] = []
    const ends: (() => void)[] = []
    const run = async (name: string): Promise<string> =>
      await actions.run(async () => {
        diary.push(`${name} begins`)
        await new Promise<void>((resolve) => ends.push(resolve))
        diary.push(`${name} ends`)
        if (name === 'b') throw new Error('of b')
        return name
      })
    const outcomes = Promise.allSettled(['a', 'b', 'c'].map(run))
    await turn()
    assert.deepEqual(diary, ['a begins'])
    for (let index = 0; index < 3; index++) {
      ends[index]?.()
      await turn()
    }
    assert.deepEqual(diary, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
    assert.deepEqual(
      (await outcomes).map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.message)),
      ['a', 'of b', 'c'],
    )
  })

  it('actions that run one at a time begin at once if none runs, also after others', async () => {
    const actions = new OneAtATime()
    for (const name of ['a', 'b']) {
      let hasBegun = false
      const running = actions.run(() => {
        hasBegun = true
        return name
      })
      assert.equal(hasBegun, true)
      assert.equal(await running, name)
    }
  })
})
