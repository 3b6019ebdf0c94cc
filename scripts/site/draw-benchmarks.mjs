// npm run bench:charts: draws the rates in the tables of bench/results as docs/images/benchmark-*.svg.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../run.mjs'

const CHARTS = { w1: 'One task, lock and unlock', w3b: '50 tasks of one process', w4: '32 tasks of 8 processes' }
const ROW = 24
const TOP = 52
const BARS = { x: 190, width: 440 }
const WIDTH = 720

const results = readFileSync(join(root, 'bench/results/README.md'), 'utf8')
for (const [workload, title] of Object.entries(CHARTS)) {
  writeFileSync(join(root, `docs/images/benchmark-${workload}.svg`), chart(title, rowsOf(workload)))
}

/** The libraries with their defaults, and what each did per second. */
function rowsOf(workload) {
  const table = new RegExp(`^## ${workload}: [^#]*`, 'm').exec(results)[0]
  return [...table.matchAll(/^\| ([\w-]+) \| ([\d,.]+) \|/gm)]
    .map(([, name, shown]) => ({ name, shown, value: Number(shown.replaceAll(',', '')) }))
    .filter(({ name }) => !/-tuned$/.test(name))
}

function chart(title, rows) {
  const height = TOP + rows.length * ROW + 12
  const max = Math.max(...rows.map(({ value }) => value))
  const bars = rows.map(({ name, shown, value }, index) => {
    const y = TOP + index * ROW
    const width = Math.max(1, Math.round((value / max) * BARS.width))
    const style = /^(holdfast|floor)/.exec(name)?.[0] ?? 'other'
    return `  <text class="end" x="${BARS.x - 10}" y="${y + 13}">${name}</text>
  <rect class="${style}" x="${BARS.x}" y="${y + 1}" width="${width}" height="16" rx="2"/>
  <text class="soft" x="${BARS.x + width + 8}" y="${y + 13}">${shown}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img">
  <title>${title}: sections per second</title>
  <style>
    text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .strong { font-weight: 600 }
    .soft { fill: #59636e }
    .end { text-anchor: end }
    .paper { fill: #ffffff; stroke: #d1d9e0 }
    .holdfast { fill: #1a7f37 }
    .floor { fill: #d1d9e0 }
    .other { fill: #8c959f }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .soft { fill: #9198a1 }
      .paper { fill: #0d1117; stroke: #3d444d }
      .holdfast { fill: #3fb950 }
      .floor { fill: #3d444d }
      .other { fill: #6e7681 }
    }
  </style>
  <rect class="paper" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8"/>
  <text class="strong" x="20" y="30">${title}: sections per second</text>
${bars.join('\n')}
</svg>
`
}
