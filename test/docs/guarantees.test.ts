/** docs/guarantees.md promises only what a test shows: every promise cites one, and every test cited exists. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { ROOT, readPage } from './code-blocks.js'

const PAGE = 'docs/guarantees.md'

/** A promise is a heading `### G1. …`; it reaches to the next heading. */
const promises = readPage(PAGE)
  .split(/^(?=##)/m)
  .filter((section) => /^### G\d+\./.test(section))
  .map((section) => ({ title: section.split('\n')[0] ?? '', citations: citationsOf(section) }))

describe('a promise of docs/guarantees.md', () => {
  it('is there at all', () => {
    assert.ok(promises.length > 0)
  })

  for (const { title, citations } of promises) {
    it(`${title.replace(/^#+ /, '')} is shown by tests that exist`, () => {
      assert.ok(citations.length > 0, 'no test is cited')
      const missing = citations.filter((citation) => !isThere(citation))
      assert.deepEqual(missing, [])
    })
  }
})

interface Citation {
  file: string
  title: string
}

/** A list item `` - `test/redis/lock.test.ts`: the title of the test ``, which may go on in an indented line. */
function citationsOf(text: string): Citation[] {
  return [...text.matchAll(/^- `(test\/[\w/.-]+)`: (.*(?:\n {2}.*)*)$/gm)].map(([, file = '', title = '']) => ({
    file,
    title: title.replace(/\s+/g, ' '),
  }))
}

function isThere({ file, title }: Citation): boolean {
  const path = new URL(file, ROOT)
  return existsSync(path) && titlesIn(file, readFileSync(path, 'utf8')).some((pattern) => pattern.test(title))
}

/**
 * What the titles in a source match: of `test` and `it`, of `describe`, whose tests may be one for each kind of lock, and
 * of the cases beside Java. A `${value}` in a title may be anything.
 */
function titlesIn(file: string, source: string): RegExp[] {
  const before = file.startsWith('test/interop/') ? /\btitle:\s+/ : /\b(?:test|it|describe)\(\s*/
  const quoted = /(['"`])((?:(?!\1)[^\\]|\\.)*)\1/
  return [...source.matchAll(new RegExp(before.source + quoted.source, 'g'))].map(([, , title = '']) => {
    const fixed = title.replace(/\\(.)/g, '$1').split(/\$\{[^}]*\}/)
    return new RegExp(`^${fixed.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+')}$`)
  })
}
