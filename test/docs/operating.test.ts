/** Every sample on docs/operating.md is what the command prints, on the fleet that the samples show. */
process.env['TZ'] = 'UTC'

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeFleet, runOn } from '../support/fakes/fake-fleet.js'
import { codeBlocksOf } from './code-blocks.js'

const PAGE = 'docs/operating.md'

describe(`the samples of ${PAGE}`, () => {
  const samples = codeBlocksOf(PAGE).filter(({ language }) => language === 'console')
  for (const { line, lines } of samples) {
    const [command = '', ...expected] = lines
    it(`${command.replace('$ ', '')}, in line ${line}, prints just that`, async () => {
      const fleet = new FakeFleet()
      if (command.includes('--anyway')) Object.assign(fleet, { outcome: 'freed', tookMs: 4_500 })
      const [, ...args] = command.replace('$ ', '').match(/'[^']*'|\S+/g) ?? []
      const typed = /^Type the lock's name to break it: (.*)$/m.exec(expected.join('\n'))?.[1]
      const { output } = await runOn(
        fleet,
        args.map((arg) => arg.replaceAll("'", '')),
        typed,
      )
      assert.deepEqual(output.trimEnd().split('\n'), expected)
    })
  }

  it('the samples of docs/operating.md are of every command but those that go on', () => {
    const shown = new Set(samples.map(({ lines: [command = ''] }) => command.split(' ')[2]))
    assert.deepEqual([...shown].sort(), ['deadlocks', 'ls', 'unlock', 'who'])
  })
})
