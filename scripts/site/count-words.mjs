// Prints the words of each page for users and their total: node scripts/site/count-words.mjs [--json]
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from '../run.mjs'

/** The words of the pages in the root and in docs/, as `wc -w` counts them, and their total. */
export function countWords() {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file.replaceAll(sep, '/')}`)
    .sort()
  const pages = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'README.zh-CN.md', ...docs].map(
    (page) => ({
      page,
      words: readFileSync(join(root, page), 'utf8').match(/\S+/g)?.length ?? 0,
    }),
  )
  return { pages, total: pages.reduce((sum, { words }) => sum + words, 0) }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { pages, total } = countWords()
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ pages, total }))
  } else {
    for (const { page, words } of [...pages, { page: 'total', words: total }]) {
      console.log(`${words.toLocaleString('en').padStart(7)} ${page}`)
    }
  }
}
