import { BarChart, LineChart } from 'echarts/charts'
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components'
import { init, use } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'
import { type Curves, GROWTHS, type Growth } from './growth.js'
import type { Report } from './report.js'
import type { Summary } from './summary.js'
import { heading, show, tableOf } from './text.js'
import type { Workload } from './workload.js'

use([BarChart, LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer])

const WIDTH = 860
const OURS = '#0b7285'
const PEER = '#adb5bd'
const REFERENCE = '#e8590c'

const STYLE = `
  body { font: 15px/1.5 system-ui, sans-serif; max-width: ${WIDTH}px; margin: 2rem auto; padding: 0 1rem; color: #212529 }
  h2 { margin-top: 3rem } table { border-collapse: collapse; font-size: 13px }
  th, td { padding: 2px 10px; border-bottom: 1px solid #dee2e6; text-align: right } th:first-child, td:first-child { text-align: left }
  .met { color: #2b8a3e } .unmet { color: #c92a2a } svg { max-width: 100%; height: auto }`

/** The whole report as one self-contained file. */
export function htmlOf(report: Report, workloads: readonly Workload[]): string {
  const { machine, versions, rounds } = report
  const about = [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.system}`,
    Object.entries(versions)
      .map((pair) => pair.join(' '))
      .join(', '),
    `Medians of ${rounds} interleaved rounds, ${report.at}. The line “floor” is what the least pair of scripts costs.`,
  ]
  const sections = workloads.map((workload) => sectionOf(workload, report.workloads[workload.id]))
  const growths = GROWTHS.map((growth) => growthOf(growth, report.growth?.[growth.id]))
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Holdfast: benchmarks</title><style>${STYLE}</style></head>
<body><h1>Holdfast compared with other locks</h1>
${about.map((line) => `<p>${escaped(line)}</p>`).join('\n')}
${[...sections, ...growths].join('\n')}
</body></html>
`
}

function sectionOf(workload: Workload, summary: Summary | undefined): string {
  if (summary === undefined) return ''
  const [headings = [], ...lines] = tableOf(workload, summary)
  const cells = (tag: string, line: readonly string[]) =>
    line.map((text) => `<${tag}>${escaped(text)}</${tag}>`).join('')
  const goals = summary.goals.map(
    ({ what, goal, value, met }) =>
      `<li class="${met ? 'met' : 'unmet'}">${summary.doubt !== undefined ? 'not judged' : met ? 'met' : 'not met'}: ${escaped(`${what} ${goal}: ${show(value)}`)}</li>`,
  )
  return `<h2>${escaped(workload.title)}</h2>
${bars(workload, summary)}
<table><tr>${cells('th', headings)}</tr>${lines.map((line) => `<tr>${cells('td', line)}</tr>`).join('')}</table>
<ul>${goals.join('')}</ul>`
}

function bars({ by, unit, isLessBetter = false }: Workload, summary: Summary): string {
  const rows = Object.entries(summary.cells)
    .flatMap(([name, figures]) => (figures[by] === undefined ? [] : [{ name, value: figures[by] }]))
    .sort((one, other) => (isLessBetter ? other.value - one.value : one.value - other.value))
  if (rows.length === 0) return ''
  return svg(60 + rows.length * 24, {
    grid: { left: 190, right: 80, top: 10, bottom: 40 },
    xAxis: {
      type: 'value',
      name: isLessBetter ? `${unit}, less is better` : unit,
      nameLocation: 'middle',
      nameGap: 25,
    },
    yAxis: { type: 'category', data: rows.map(({ name }) => name) },
    series: {
      type: 'bar',
      label: { show: true, position: 'right', formatter: ({ value }: { value: number }) => show(value) },
      data: rows.map(({ name, value }) => ({ value, itemStyle: { color: colorOf(name) } })),
    },
  })
}

function colorOf(name: string): string {
  if (name.startsWith('holdfast')) return OURS
  return ['floor', 'redisson-java', 'zookeeper', 'etcd'].includes(name) ? REFERENCE : PEER
}

function growthOf(growth: Growth, curves: Curves | undefined): string {
  if (curves === undefined) return ''
  const charts = growth.shows.map((figure) =>
    svg(300, {
      title: { text: heading(figure), left: 0, textStyle: { fontSize: 14 } },
      legend: { right: 0, top: 0 },
      grid: { left: 70, right: 20, top: 50, bottom: 45 },
      xAxis: { type: 'log', name: growth.axis, nameLocation: 'middle', nameGap: 25 },
      yAxis: { type: 'log' },
      series: Object.entries(curves).map(([name, points]) => ({
        name,
        type: 'line',
        // 0 has no logarithm.
        data: points.flatMap((point) => ((point[figure] ?? 0) > 0 ? [[point.x, point[figure]]] : [])),
        ...(name === 'holdfast' && { lineStyle: { color: OURS, width: 4 }, itemStyle: { color: OURS } }),
      })),
    }),
  )
  return `<h2>Growth: ${escaped(growth.title)}</h2>\n${charts.join('\n')}`
}

function svg(height: number, option: object): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  chart.setOption({ animation: false, ...option })
  const text = chart.renderToSVGString()
  chart.dispose()
  return text
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
