// The site of the documentation. scripts/site.mjs writes its pages first and checks its links afterwards.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'

const PAGES = new URL('../../build/site/pages/', import.meta.url)

/** What is not listed here is appended to its folder, so that no page is lost. */
const SECTIONS = [
  {
    text: 'Guide',
    pages: [
      'getting-started',
      'which-tool',
      'ownership',
      'configuration',
      'nestjs',
      'metrics',
      'cli',
      'examples/index',
    ],
  },
  { text: 'Recipes', folder: 'recipes', collapsed: false },
  { text: 'Locks', folder: 'locks', collapsed: true },
  { text: 'Semaphores and latches', folder: 'synchronizers', collapsed: true },
  {
    text: 'Operating',
    pages: ['guarantees', 'proof', 'deploying', 'testing', 'errors', 'compatibility', 'versioning'],
  },
  { text: 'Migration', pages: ['coming-from-redisson', 'coming-from-node-libraries'] },
  { text: 'Background', pages: ['architecture', 'benchmarks', 'changelog', 'contributing'], rest: true },
]

function titleOf(page) {
  return /^# (.*)$/m.exec(readFileSync(new URL(`${page}.md`, PAGES), 'utf8'))?.[1]?.replaceAll('`', '') ?? page
}

function pagesIn(folder) {
  return readdirSync(new URL(folder, PAGES))
    .filter((file) => file.endsWith('.md'))
    .map((file) => `${folder}${file.slice(0, -3)}`)
}

function sidebar() {
  const listed = new Set([...SECTIONS.flatMap(({ pages }) => pages ?? []), 'index', 'zh-CN'])
  return SECTIONS.map(({ text, pages = [], folder, collapsed, rest }) => {
    const inFolder = folder ? pagesIn(`${folder}/`).sort((a, b) => isIndex(b) - isIndex(a) || compareTitles(a, b)) : []
    const unlisted = rest ? pagesIn('').filter((page) => !listed.has(page)) : []
    const existing = pages.filter((page) => existsSync(new URL(`${page}.md`, PAGES)))
    const items = [...existing, ...inFolder, ...unlisted].map((page) => ({ text: titleOf(page), link: linkTo(page) }))
    return { text, collapsed, items }
  })
}

function isIndex(page) {
  return Number(page.endsWith('/index'))
}

function compareTitles(a, b) {
  return titleOf(a).localeCompare(titleOf(b), 'en')
}

function linkTo(page) {
  return `/${page.replace(/index$/, '')}`
}

/** As GitHub does, whose anchors the pages use. */
function slugify(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-')
}

export default defineConfig({
  title: 'Holdfast',
  description: 'Distributed locks on Redis for Node.js',
  base: process.env.SITE_BASE ?? '/',
  srcDir: '../build/site/pages',
  srcExclude: ['public/**'],
  outDir: '../build/site/dist',
  cacheDir: '../build/site/cache',
  cleanUrls: true,
  head: [['link', { rel: 'icon', href: `${process.env.SITE_BASE ?? '/'}icon.svg` }]],
  markdown: {
    anchor: { slugify },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark' },
    config: (md) => {
      // Braces in code are text, not expressions of Vue.
      md.renderer.rules.code_inline = (tokens, index) =>
        `<code v-pre>${md.utils.escapeHtml(tokens[index].content)}</code>`
    },
  },
  vite: { build: { chunkSizeWarningLimit: 2_000, assetsInlineLimit: 0 }, logLevel: 'warn' },
  themeConfig: {
    logo: '/icon.svg',
    nav: [
      { text: 'Guide', link: '/getting-started', activeMatch: '^/getting-started' },
      { text: 'Recipes', link: '/recipes/', activeMatch: '^/recipes/' },
      { text: 'Locks', link: '/locks/', activeMatch: '^/(locks|synchronizers)/' },
      { text: 'Which tool?', link: '/which-tool' },
      { text: 'Guarantees', link: '/guarantees' },
      { text: '中文', link: '/zh-CN' },
    ],
    sidebar: sidebar(),
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    docFooter: { prev: 'Previous', next: 'Next' },
  },
})
