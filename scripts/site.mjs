// npm run site: builds the documentation into build/site/dist. Fails for a dead link, and for anything that a reader's
// browser would load from another host. `npm run site -- --serve` shows it at http://127.0.0.1:4173.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix, sep } from 'node:path'
import { build, serve } from 'vitepress'
import { fail, root, since } from './run.mjs'
import { writePages } from './site/pages.mjs'

const DIST = join(root, 'build/site/dist')
const BASE = process.env.SITE_BASE ?? '/'
const start = performance.now()

writePages()
await build(join(root, 'site'))
const pages = readdirSync(DIST, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll(sep, '/'))
  .filter((file) => file.endsWith('.html'))
const texts = new Map(pages.map((page) => [page, readFileSync(join(DIST, page), 'utf8')]))
const problems = pages.flatMap((page) => problemsOf(page))
const listed = [...readFileSync(join(DIST, 'llms.txt'), 'utf8').matchAll(/\]\(([^)]+)\)/g)].map(([, url]) => url)
problems.push(
  ...listed.filter((url) => !existsSync(join(DIST, url.slice(BASE.length)))).map((url) => `llms.txt: no ${url}`),
)
if (problems.length > 0) fail(problems.join('\n'))
console.log(`Built ${pages.length} pages into build/site/dist in ${since(start)}`)
if (process.argv.includes('--serve')) await serve({ root: join(root, 'site'), port: 4173 })

/** Links to pages and headings that do not exist, and files of other hosts. */
function problemsOf(page) {
  const html = texts.get(page)
  const loaded = [...html.matchAll(/<(?:script|img|link|source|iframe)\b[^>]*?\s(?:src|href|srcset)="([^"]+)"/g)]
  const foreign = loaded.map(([, url]) => url).filter((url) => /^(?:[a-z]+:)?\/\//.test(url))
  const linked = [...html.matchAll(/<a\b[^>]*?\shref="([^"]+)"/g)].map(([, url]) => url)
  const dead = linked.filter((url) => !/^[a-z]+:/.test(url) && !exists(page, url))
  return [
    ...foreign.map((url) => `${page}: loads ${url}`),
    ...new Set(dead.map((url) => `${page}: links to ${url}, which does not exist`)),
  ]
}

function exists(page, url) {
  const [path, anchor] = url.split('#')
  const file = path.startsWith(BASE) ? path.slice(BASE.length) : posix.join(posix.dirname(page), path)
  const target =
    path === '' ? page : [file, `${file}.html`, posix.join(file, 'index.html')].find((name) => texts.has(name))
  if (target === undefined) return path !== '' && existsSync(join(DIST, file)) && posix.extname(file) !== ''
  return !anchor || texts.get(target).includes(`id="${decodeURIComponent(anchor)}"`)
}
