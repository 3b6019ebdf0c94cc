import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { overlapsOf, recoveryOf } from './report.js'
import type { Result } from './summary.js'

const PAGE = join(process.cwd(), 'docs', 'deploying.md')
const BEGIN = '<!-- failover: results -->'
const END = '<!-- failover: end of results -->'
const TITLES: Readonly<Record<string, string>> = { managed: 'one address', sentinel: 'Sentinel', cluster: 'cluster' }

/** Replaces the tables in docs/deploying.md. */
export function writeIntoPage(results: readonly Result[]): void {
  const page = readFileSync(PAGE, 'utf8')
  const [before, rest] = page.split(BEGIN)
  const after = rest?.split(END)[1]
  if (before === undefined || after === undefined) throw new Error(`${PAGE} has no ${BEGIN} … ${END}`)
  writeFileSync(PAGE, `${before}${BEGIN}\n\n${markdownOf(results)}\n\n${END}${after}`)
}

function markdownOf(results: readonly Result[]): string {
  const tables = Object.keys(TITLES).map((topology) =>
    tableOf(results.filter((result) => result.topology === topology)),
  )
  const rounds = Math.max(...results.map((result) => result.rounds))
  const intro = `${rounds} rounds of each, on ${availableParallelism()} cores; median/slowest in seconds. A count without a
column (overlaps, tokens granted twice, connections left) is 0 in every row.`
  return [intro, ...tables.filter((table) => table !== '')].join('\n\n')
}

function tableOf(results: readonly Result[]): string {
  const [first] = results
  if (!first) return ''
  const ways = [...new Set(results.flatMap(({ recovery }) => Object.keys(recovery)))]
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const notes = results.flatMap(({ title, note }) => (note === undefined ? [] : [`- ${title}: ${note}`]))
  const counts = [
    ['grants', ({ grants }: Result) => grants.toLocaleString('en')],
    ['overlaps', overlapsOf],
    ['tokens granted twice', ({ staleTokens }: Result) => String(staleTokens)],
    ['connections left', ({ leftover }: Result) => String(leftover)],
  ] as const
  const shown = counts.filter(([, countOf]) => results.some((result) => countOf(result) !== '0'))
  const header = [TITLES[first.topology] ?? '', ...ways, ...shown.map(([name]) => name)]
  const table = [
    row(header),
    `|---${'|---:'.repeat(header.length - 1)}|`,
    ...results.map((result) =>
      row([
        result.title,
        ...ways.map((way) => recoveryOf(result.recovery[way])),
        ...shown.map(([, countOf]) => countOf(result)),
      ]),
    ),
  ].join('\n')
  return [table, ...(notes.length > 0 ? [notes.join('\n')] : [])].join('\n\n')
}
