/** The pages stay short enough to be read. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ROOT } from './code-blocks.js'

const { countWords } = (await import(new URL('scripts/site/count-words.mjs', ROOT).href)) as {
  countWords: () => { pages: { page: string; words: number }[]; total: number }
}

it('the pages have at most 50,000 words: node scripts/site/count-words.mjs lists them', () => {
  const { pages, total } = countWords()
  const longest = pages.sort((one, other) => other.words - one.words).slice(0, 10)
  assert.ok(total <= 50_000, `${total} words; ${longest.map(({ page, words }) => `${page}: ${words}`).join(', ')}`)
})
