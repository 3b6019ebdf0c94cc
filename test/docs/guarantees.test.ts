/**
 * docs/guarantees.md promises only what a test shows: test/docs/guarantees.md cites tests for every promise, and every cited
 * test exists.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { ROOT, readPage } from './code-blocks.js'

const PAGE = 'docs/guarantees.md'
const CITATIONS = 'test/docs/guarantees.md'

/** A promise is a section with a heading `### G1. …`; its tests are in the section `## G1. …` of the other file. */
const promises = sectionsOf(PAGE, /^### (G\d+\..*)/).map(({ title }) => title)
const cited = sectionsOf(CITATIONS, /^## (.*)/).map(({ title, text }) => ({ title, citations: citationsOf(text) }))

describe('a promise of docs/guarantees.md', () => {
  it('a promise of docs/guarantees.md exists', () => {
    assert.ok(promises.length > 0)
  })

  for (const promise of promises) {
    it(`${promise} has a section with tests that exist in ${CITATIONS}`, () => {
      const [section, ...others] = cited.filter(({ title }) => title === promise)
      assert.ok(section, 'there is no section with this heading')
      assert.equal(others.length, 0, 'there is more than one section with this heading')
      assert.ok(section.citations.length > 0, 'no test is cited')
      const missing = section.citations.filter((citation) => !isThere(citation))
      assert.deepEqual(missing, [])
    })
  }
})

describe('a section of test/docs/guarantees.md', () => {
  it('a section of test/docs/guarantees.md has the heading of a promise', () => {
    const headings = cited.map(({ title }) => title)
    assert.deepEqual(
      headings.filter((title) => !promises.includes(title)),
      [],
    )
  })

  it('a section of test/docs/guarantees.md has no other list items than citations', () => {
    const items = readPage(CITATIONS).match(/^[-*] /gm) ?? []
    assert.equal(items.length, cited.flatMap(({ citations }) => citations).length)
  })
})

/** The sections of a page whose first line is such a heading, with the group of it as title. */
function sectionsOf(page: string, heading: RegExp): { title: string; text: string }[] {
  return readPage(page)
    .split(/^(?=##)/m)
    .map((text) => ({ title: heading.exec(text)?.[1] ?? '', text }))
    .filter(({ title }) => title !== '')
}

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
