/** docs/guarantees.md promises only what a test shows: every promise cites tests, and every cited test exists. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { ROOT, readPage } from './code-blocks.js'

const PAGE = 'docs/guarantees.md'

/** A promise is a section with a heading `### G1. …`. */
const promises = readPage(PAGE)
  .split(/^(?=##)/m)
  .filter((section) => /^### G\d+\./.test(section))
  .map((section) => ({ title: section.split('\n')[0] ?? '', citations: citationsOf(section) }))

describe('a promise of docs/guarantees.md', () => {
  it('exists', () => {
    assert.ok(promises.length > 0)
  })

  for (const { title, citations } of promises) {
    it(`${title.replace(/^#+ /, '')} cites tests that exist`, () => {
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

/** A list item `` - `test/redis/lock.test.ts`: the title of the test ``, which may continue in an indented line. */
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
 * Patterns of the titles in a source: of `test` and `it`, of `describe`, which may have a test for each kind of lock, and
 * of the cases run with Java. A `${value}` in a title matches anything.
 */
function titlesIn(file: string, source: string): RegExp[] {
  const before = file.startsWith('test/interop/') ? /\btitle:\s+/ : /\b(?:test|it|describe)\(\s*/
  const quoted = /(['"`])((?:(?!\1)[^\\]|\\.)*)\1/
  return [...source.matchAll(new RegExp(before.source + quoted.source, 'g'))].map(([, , title = '']) => {
    const fixed = title.replace(/\\(.)/g, '$1').split(/\$\{[^}]*\}/)
    return new RegExp(`^${fixed.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+')}$`)
  })
}
