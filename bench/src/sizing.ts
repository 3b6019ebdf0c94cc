import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Figures } from './bench.js'
import { heading, show } from './text.js'

/** What one lock, waiter or client costs, and with how many of them that was measured. */
const ROWS = {
  uncontended: { title: 'Tasks of one client with a lock each', counts: [1, 100] },
  held: { title: 'Locks held and renewed by one client, lease 30 s', counts: [10_000, 100_000, 1_000_000] },
  idle: { title: 'Idle clients', counts: [1_000] },
  waiting: { title: 'Clients that wait for one lock', counts: [2, 10, 100, 1_000, 4_000] },
  hot: { title: 'Locks that eight tasks of two clients want', counts: [1, 10, 100, 1_000] },
} as const

export type SizingRow = keyof typeof ROWS

/** The figures of each row by how many there were. */
export async function measureSizing(): Promise<Record<string, Record<number, Figures>>> {
  const measured: Record<string, Record<number, Figures>> = {}
  for (const [row, { counts }] of Object.entries(ROWS)) {
    const figures: Record<number, Figures> = {}
    measured[row] = figures
    for (const count of counts) {
      console.error(`sizing, ${row}: ${count}`)
      figures[count] = await measureAlone(row, count)
    }
  }
  return measured
}

async function measureAlone(row: string, count: number): Promise<Figures> {
  const program = fileURLToPath(new URL('sizing-row.js', import.meta.url))
  const args = ['--expose-gc', '--max-old-space-size=12000', '--no-warnings', program, row, String(count)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  return JSON.parse(await text(child.stdout))
}

/** For a terminal. */
export function sizingText(measured: Record<string, Record<number, Figures>>): string {
  const lines: string[] = []
  for (const [row, figures] of Object.entries(measured)) {
    lines.push(`\n${ROWS[row as SizingRow].title}`)
    for (const [count, values] of Object.entries(figures)) {
      const shown = Object.entries(values).map(([figure, value]) => `${heading(figure)} ${show(value)}`)
      lines.push(`${Number(count).toLocaleString('en').padStart(9)}  ${shown.join(', ')}`)
    }
  }
  return lines.join('\n')
}
