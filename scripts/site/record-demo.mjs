// npm run demo:record: runs the demo and draws what it printed, when it printed it, as docs/images/demo.svg.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ensureDist } from '../build/fresh.mjs'
import { fail, root } from '../run.mjs'

const CHAR = 8
const LINE = 19
const LEFT = 24
const TOP = 62
const COLUMNS = 84
/** From the first line shown to the last one, however long the demo took. */
const SHOWN_FOR_S = 4

ensureDist()
const lines = shown(await record())
writeFileSync(join(root, 'docs/images/demo.svg'), picture(lines))
console.log(
  `docs/images/demo.svg: ${lines
    .map(({ text }) => text)
    .find((text) => text.includes('oversold'))
    ?.trim()}`,
)

/** The lines of the demo with the time of each, in ms. */
async function record() {
  const demo = spawn(process.execPath, ['dist/cli/main.js', 'demo'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => demo.once('close', resolve))
  const printed = []
  for await (const text of createInterface({ input: demo.stdout })) printed.push({ text, at: performance.now() })
  if ((await ended) !== 0) fail('The demo failed')
  return printed
}

/** The parts that fit into a picture: both sales, and who held the lock. */
function shown(printed) {
  const from = (pattern) => {
    const index = printed.findIndex(({ text }) => pattern.test(text))
    return index >= 0 ? index : fail(`The demo printed nothing like ${pattern}`)
  }
  const sales = printed.slice(from(/Without a lock/), from(/in stock +sold/))
  const timeline = printed.slice(from(/Who held the lock/), from(/one column/) + 1)
  const command = { text: '$ npm run demo', at: printed[0].at }
  // An empty line only before a title.
  const parts = [command, ...sales, ...timeline].flatMap((line) => {
    if (line.text.trim() === '') return []
    return /^ {2}\d |Who held/.test(line.text) ? [{ ...line, text: '' }, line] : [line]
  })
  const start = parts[0].at
  const duration = parts[parts.length - 1].at - start
  return parts.map(({ text, at }) => ({ text, delay: ((at - start) / duration) * SHOWN_FOR_S }))
}

function picture(shownLines) {
  const width = LEFT * 2 + COLUMNS * CHAR
  const height = TOP + shownLines.length * LINE + 4
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
  <title>npm run demo: what it printed</title>
  <style>
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
    .bad { fill: #c21c2c; font-weight: 700 }
    .good { fill: #1a7f37; font-weight: 700 }
    .soft { fill: #59636e }
    .window { fill: #ffffff; stroke: #d1d9e0 }
    .bar { fill: #f6f8fa; stroke: #d1d9e0 }
    .dot { fill: #d1d9e0 }
    .held { fill: #1a7f37 }
    .waits { fill: #d1d9e0 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .bad { fill: #ff7b72 }
      .good { fill: #56d364 }
      .soft { fill: #9198a1 }
      .window { fill: #0d1117; stroke: #3d444d }
      .bar { fill: #151b23; stroke: #3d444d }
      .dot { fill: #3d444d }
      .held { fill: #3fb950 }
      .waits { fill: #3d444d }
    }
    @media (prefers-reduced-motion: no-preference) {
      g { animation: shown 0.2s backwards }
      @keyframes shown { from { opacity: 0.2 } }
    }
  </style>
  <rect class="window" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
  <path class="bar" d="M0.5 32.5V8.5a8 8 0 0 1 8-8H${width - 8.5}a8 8 0 0 1 8 8V32.5z"/>
${[18, 36, 54].map((x) => `  <circle class="dot" cx="${x}" cy="16.5" r="5"/>`).join('\n')}
${shownLines.map(line).filter(Boolean).join('\n')}
</svg>
`
}

function line({ text, delay }, index) {
  if (text.trim() === '') return ''
  const y = TOP + index * LINE
  const style = text.includes('✘') ? 'bad' : text.includes('✔') ? 'good' : /^\$|one column/.test(text) ? 'soft' : ''
  const parts = [...text.matchAll(/\S+(?: \S+)*/g)].flatMap(({ 0: part, index }) => runAt(part, index, y, style))
  return `  <g style="animation-delay: ${delay.toFixed(2)}s">${parts.join('')}</g>`
}

/** A run of text, as wide as it is in a terminal whatever the font; the bars of the timeline are drawn. */
function runAt(run, column, y, style) {
  const x = LEFT + column * CHAR
  if (/^[█─]/.test(run)) {
    return [...run.matchAll(/█+|─+|[^█─ ].*/g)].flatMap(({ 0: part, index }) =>
      /[█─]/.test(part) ? bar(part, x + index * CHAR, y) : runAt(part, column + index, y, style),
    )
  }
  const attributes = `x="${x}" y="${y}" textLength="${run.length * CHAR}" lengthAdjust="spacingAndGlyphs"`
  return [`<text${style ? ` class="${style}"` : ''} ${attributes}>${escaped(run)}</text>`]
}

function bar(part, x, y) {
  const isHeld = part.startsWith('█')
  const [name, top, height] = isHeld ? ['held', y - 12, 14] : ['waits', y - 6, 2]
  return `<rect class="${name}" x="${x}" y="${top}" width="${part.length * CHAR}" height="${height}"/>`
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
