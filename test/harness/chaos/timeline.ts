import type { Outcome } from './run.js'
import { type Finding, processOf, type Section } from './verdict.js'

/** How much is drawn, ms: around the first violation, otherwise the end of the storm. */
const WINDOW_MS = 20_000
const BEFORE_MS = 8_000
/** Keeps the file well below 2 MB. */
const MOST_SECTIONS = 8_000
const PX_PER_S = 120
const ROW = 14
const GAP = 6
const TOP = 34
const COLOURS = 8

type Drawn = Pick<Outcome, 'sections' | 'faults' | 'findings'>

interface Bar {
  readonly from: number
  readonly to: number
  readonly title: string
  readonly style: string
}

interface Lane {
  readonly name: string
  readonly rows: readonly (readonly Bar[])[]
}

/** A page that shows who believed to hold what when, and which faults happened meanwhile. */
export function timelineOf(outcome: Drawn, title: string): string {
  const [from, to] = windowOf(outcome)
  const isVisible = (one: { readonly from?: number; readonly to?: number }): boolean =>
    (one.from ?? Number.POSITIVE_INFINITY) < to && (one.to ?? Number.POSITIVE_INFINITY) > from
  const sections = outcome.sections.filter(isVisible).slice(-MOST_SECTIONS)
  const workers = [...new Set(sections.map(({ worker }) => worker))]
  const lanes = [...lanesOf(outcome.faults.filter(isVisible).map(faultBar)), ...lanesOf(locksOf(sections, workers))]
  const violations = outcome.findings.filter((finding) => isVisible(finding) && finding.lock !== undefined)
  const heights = lanes.map(({ rows }) => rows.length * ROW + GAP)
  const tops = heights.map((_, at) => TOP + heights.slice(0, at).reduce((sum, height) => sum + height, 0))
  const height = TOP + heights.reduce((sum, one) => sum + one, 0)
  const width = ((to - from) / 1_000) * PX_PER_S
  const x = (at: number): string => (((Math.min(Math.max(at, from), to) - from) / 1_000) * PX_PER_S).toFixed(1)
  const wide = (bar: { readonly from: number; readonly to: number }): string =>
    Math.max(Number(x(bar.to)) - Number(x(bar.from)), 1).toFixed(1)
  const parts = outcome.faults
    .filter((fault) => fault.isOfServers && isVisible(fault))
    .map((fault) => `<rect class="band" x="${x(fault.from)}" y="${TOP}" width="${wide(fault)}" height="${height}"/>`)
  for (let second = 0; second <= (to - from) / 1_000; second++) {
    const at = second * PX_PER_S
    parts.push(
      `<path class="grid" d="M${at} ${TOP - 6}V${height}"/><text x="${at + 3}" y="${TOP - 20}">${second} s</text>`,
    )
  }
  for (const [at, { rows }] of lanes.entries()) {
    parts.push(`<path class="grid" d="M0 ${(tops[at] ?? 0) - GAP / 2}H${width}"/>`)
    for (const [row, bars] of rows.entries()) {
      const y = (tops[at] ?? 0) + row * ROW
      for (const bar of bars) {
        const { style, title: text } = bar
        parts.push(
          `<rect class="${style}" x="${x(bar.from)}" y="${y}" width="${wide(bar)}" height="${ROW - 3}"><title>${escaped(text)}</title></rect>`,
        )
      }
    }
  }
  for (const { lock, from: since = from, to: until = to, what } of violations) {
    const at = lanes.findIndex(({ name }) => name === lock)
    if (at < 0) continue
    parts.push(
      `<rect class="wrong" x="${x(since)}" y="${(tops[at] ?? 0) - 3}" width="${wide({ from: since, to: until })}" height="${(heights[at] ?? 0) - 1}"><title>${escaped(what)}</title></rect>`,
    )
  }
  const labels = lanes.map(({ name }, at) => `<text x="0" y="${(tops[at] ?? 0) + ROW - 4}">${escaped(name)}</text>`)
  return page({ title, height, width, parts, labels, workers, findings: outcome.findings, from })
}

function windowOf({ sections, faults, findings }: Drawn): [from: number, to: number] {
  const violation =
    findings.find((one) => !one.isDeclared && one.from !== undefined) ?? findings.find((one) => one.from)
  if (violation?.from !== undefined) return [violation.from - BEFORE_MS, violation.from - BEFORE_MS + WINDOW_MS]
  // What follows the last fault shows little: every kind is asked for once.
  const last = Math.max(0, ...faults.map((fault) => fault.from)) || Math.max(0, ...sections.map((one) => one.from))
  return [last + 2_000 - WINDOW_MS, last + 2_000]
}

function faultBar({ name, from, to, forgets }: Outcome['faults'][number]): Bar & { lane: string } {
  return { lane: `⚡ ${name}`, from, to, title: `${name}${forgets ? `: may lose ${forgets}` : ''}`, style: 'fault' }
}

function locksOf(sections: readonly Section[], workers: readonly number[]): (Bar & { lane: string })[] {
  return sections.map(({ lock, kind, worker, from, to, token, isShared }) => {
    const text = `${kind}${isShared ? ' (shared)' : ''}, ${processOf(worker)}${token ? `, token ${token}` : ''}: ${(to - from).toFixed(1)} ms`
    return { lane: lock, from, to, title: text, style: `w${workers.indexOf(worker) % COLOURS}` }
  })
}

/** One lane for each name; bars that overlap are drawn below each other. */
function lanesOf(bars: readonly (Bar & { readonly lane: string })[]): Lane[] {
  const lanes = new Map<string, Bar[][]>()
  for (const bar of [...bars].sort((one, other) => one.from - other.from)) {
    // Each latch has a name of its own.
    const name = bar.lane.startsWith('chaos:latch') ? 'chaos:latch:…' : bar.lane
    const rows = lanes.get(name) ?? []
    lanes.set(name, rows)
    const row = rows.find((others) => (others.at(-1)?.to ?? 0) <= bar.from)
    if (row) row.push(bar)
    else rows.push([bar])
  }
  return [...lanes].map(([name, rows]) => ({ name, rows })).sort((one, other) => one.name.localeCompare(other.name))
}

interface Page {
  readonly title: string
  readonly height: number
  readonly width: number
  readonly parts: readonly string[]
  readonly labels: readonly string[]
  readonly workers: readonly number[]
  readonly findings: readonly Finding[]
  readonly from: number
}

function page({ title, height, width, parts, labels, workers, findings, from }: Page): string {
  const legend = workers.map((pid, at) => `<span class="w${at % COLOURS}">■</span> ${processOf(pid)}`).join(' &nbsp; ')
  const list = findings.slice(0, 50).map(({ what, isDeclared, from: at }) => {
    const when = at === undefined ? '' : `at ${((at - from) / 1_000).toFixed(2)} s: `
    return `<li>${isDeclared ? 'declared: ' : ''}${when}${escaped(what)}</li>`
  })
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width"><title>Chaos: ${escaped(title)}</title>
<style>${STYLE}</style></head><body>
<h1>Chaos: ${escaped(title)}</h1>
<p>Who believed to hold what, and when. Each bar is a section, from the grant until its end or the end of its lease;
hover over it for details. Bars of one lock below each other overlap: only sections that share it may. In grey behind them: faults of servers.</p>
<p>${legend} &nbsp; <span class="fault">■</span> fault &nbsp; <span class="wrong">▯</span> finding</p>
${list.length === 0 ? '<p class="fine">No findings.</p>' : `<ol>${list.join('\n')}</ol>`}
<div class="frame"><svg class="labels" width="190" height="${height}">${labels.join('\n')}</svg>
<div class="scroll"><svg width="${width}" height="${height}" role="img" aria-label="timeline">
${parts.join('\n')}
</svg></div></div></body></html>
`
}

const HUES = ['#2f6fde', '#d9822b', '#1f9d55', '#b044c9', '#0fa3b1', '#c2a500', '#8a6d5a', '#e0559a']
const STYLE = `
:root { --text: #1d2330; --paper: #fff; --line: #e3e6ec; --wrong: #d21f1f; --fault: #8b919e }
@media (prefers-color-scheme: dark) { :root { --text: #dfe3ec; --paper: #14171d; --line: #2b303a; --wrong: #ff6b6b; --fault: #79808f } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper); margin: 24px }
h1 { font-size: 20px } li { color: var(--wrong) } .fine { color: #1f9d55 }
svg text { font: 11px system-ui, sans-serif; fill: var(--text) }
.frame { display: flex } .labels { flex: none } .scroll { overflow-x: auto }
.grid { stroke: var(--line); fill: none }
rect.band { fill: var(--fault); opacity: .18 }
.fault { fill: var(--fault); color: var(--fault) }
rect.wrong { fill: none; stroke: var(--wrong); stroke-width: 2; pointer-events: none } span.wrong { color: var(--wrong) }
${HUES.map((hue, at) => `.w${at} { fill: ${hue}; color: ${hue} }`).join('\n')}`

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
