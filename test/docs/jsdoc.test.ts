/** What an editor shows: every public method of what users get has an example. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

/** From the compiled test in build/test/docs. */
const SOURCE = new URL('../../../src/', import.meta.url)

/** Classes whose methods users call. */
const PUBLIC = [
  'client.ts',
  'locks/base-lock.ts',
  'locks/lock.ts',
  'locks/hold.ts',
  'locks/kinds/read-write.ts',
  'synchronizers/semaphore.ts',
  'synchronizers/permit-expirable-semaphore.ts',
  'synchronizers/count-down-latch.ts',
]
/** What an editor shows for these needs no example: they are called by the language. */
const NAMELESS = /^(constructor|\[)/

describe('the documentation of a public method', () => {
  for (const file of PUBLIC) {
    it(`has an example: src/${file}`, () => {
      const text = readFileSync(new URL(file, SOURCE), 'utf8')
      const [, body = ''] = /^export (?:abstract )?class [\s\S]*?\{\n([\s\S]*)/m.exec(text) ?? []
      const documented = [
        ...body.matchAll(/ {2}\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}(?:async |override )*([\w[]+)[<(]/g),
      ]
      const without = documented.filter(
        ([, doc = '', name = '']) => !NAMELESS.test(name) && !doc.includes('@internal') && !doc.includes('@example'),
      )
      assert(documented.length > 1)
      assert.deepEqual(
        without.map(([, , name]) => name),
        [],
      )
    })
  }
})
