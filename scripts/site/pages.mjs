// Writes the pages of the site into build/site/pages: docs/ as it is, README.md as the home page, and the examples.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, posix, sep } from 'node:path'
import { needsOf } from '../../site/needs.mjs'
import { root } from '../run.mjs'

const OUT = join(root, 'build/site/pages')
const HOME_PAGES = { 'README.md': 'index.md', 'README.zh-CN.md': 'zh-CN.md' }
const BENCHMARK_RESULTS = 'bench/results/README.md'

export function writePages() {
  rmSync(OUT, { recursive: true, force: true })
  cpSync(join(root, 'docs/images'), join(OUT, 'images'), { recursive: true })
  cpSync(join(root, 'site/icon.svg'), join(OUT, 'public/icon.svg'))
  const pages = [
    ...Object.keys(HOME_PAGES),
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    BENCHMARK_RESULTS,
    ...filesIn('docs').filter((file) => file.endsWith('.md')),
  ].filter((file) => existsSync(join(root, file)))
  for (const page of pages) {
    const text = withLinks(page, withNeeds(readFileSync(join(root, page), 'utf8')))
    write(targetOf(page), page === 'README.md' ? homePage(text) : text)
  }
  for (const example of filesIn('examples')) write(targetOf(example), examplePage(example))
  write('examples/index.md', `# Examples\n\nEach program runs in the tests.\n\n${exampleList()}\n`)
  writeForModels(pages)
}

/** https://llmstxt.org: what there is to read, for language models, and each page as Markdown beside it. */
function writeForModels(pages) {
  const base = process.env.SITE_BASE ?? '/'
  const entries = pages
    .filter((page) => page.startsWith('docs/'))
    .map((page) => {
      const text = withLinks(page, withNeeds(readFileSync(join(root, page), 'utf8')))
      write(`public/${targetOf(page)}`, text)
      const [title, about = ''] = text.split('\n\n')
      return `- [${title.replace(/^# /, '')}](${base}${targetOf(page)}): ${plainText(about)}`
    })
  const [, about] = readFileSync(join(root, 'README.md'), 'utf8').split('\n\n')
  write('public/llms.txt', `# Holdfast\n\n> ${plainText(about)}\n\n## Pages\n\n${entries.join('\n')}\n`)
}

function plainText(markdown) {
  return markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('\n', ' ')
}

/** Where a file of the project is on the site; null if it is not there. */
function targetOf(file) {
  if (HOME_PAGES[file]) return HOME_PAGES[file]
  if (file === BENCHMARK_RESULTS) return 'benchmark-results.md'
  if (/^(CHANGELOG|CONTRIBUTING|SECURITY)\.md$/.test(file)) return file.toLowerCase()
  if (file === 'LICENSE' || file.startsWith('test/')) return null
  if (file.startsWith('examples/')) return `${file.slice(0, -extname(file).length)}.md`
  return file.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
}

/** Links between files of the project, as links between pages of the site. */
function withLinks(page, text) {
  const target = targetOf(page)
  const link = (path) => {
    if (/^(#|[a-z]+:)/.test(path)) return path
    const [file, anchor] = path.split('#')
    const linked = posix.join(posix.dirname(page), file)
    const to = linked.startsWith('docs/images/') ? linked.slice('docs/'.length) : targetOf(linked)
    if (to === null) return undefined
    const relative = posix.relative(posix.dirname(target), to)
    return `${relative.startsWith('.') ? '' : './'}${relative}${anchor ? `#${anchor}` : ''}`
  }
  return outsideCode(text, (prose) =>
    prose
      .replace(/\[([^\]]*)\]\(([^)\s]+)\)/g, (_, label, path) => {
        const to = link(path)
        return to === undefined ? label : `[${label}](${to})`
      })
      .replace(/((?:src|srcset|href)=")([^"]+)"/g, (_, before, path) => `${before}${link(path) ?? path}"`),
  )
}

/** Shows what a block borrows, so that it compiles as it is copied. */
function withNeeds(text) {
  return text.replace(/^<!-- example: (.*) -->\n```ts\n([\s\S]*?)^```$/gm, (_, names, code) => {
    return `\`\`\`ts\n${needsOf(names.split(/,\s*/), code)}\n${code}\`\`\``
  })
}

function outsideCode(text, change) {
  return text
    .split(/(^[ >]*```[\s\S]*?^[ >]*```$)/m)
    .map((part, index) => (index % 2 === 0 ? change(part) : part))
    .join('')
}

/** README.md below a title with buttons. */
function homePage(text) {
  const body = text.replace(/^# .*\n/, '')
  const tagline = /^[A-Z][^\n]*(?:\n[^\n]+)*/m.exec(body)?.[0] ?? ''
  return `---
layout: home
hero:
  name: Holdfast
  tagline: ${JSON.stringify(tagline.replaceAll('\n', ' ').replaceAll('**', ''))}
  actions:
    - { theme: brand, text: Getting started, link: /getting-started }
    - { theme: alt, text: Which tool?, link: /which-tool }
    - { theme: alt, text: Guarantees, link: /guarantees }
---

${body.replace(tagline, '')}`
}

function examplePage(file) {
  const language = extname(file).slice(1)
  return `# ${file.slice('examples/'.length)}\n\n\`\`\`${language}\n${readFileSync(join(root, file), 'utf8')}\`\`\`\n`
}

function exampleList() {
  return filesIn('examples')
    .map((file) => `- [${file.slice('examples/'.length)}](./${targetOf(file).slice('examples/'.length)})`)
    .join('\n')
}

function filesIn(folder) {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      posix.join(
        folder,
        join(entry.parentPath, entry.name)
          .slice(join(root, folder).length + 1)
          .replaceAll(sep, '/'),
      ),
    )
    .sort()
}

function write(path, text) {
  mkdirSync(dirname(join(OUT, path)), { recursive: true })
  writeFileSync(join(OUT, path), text)
}
