// Prints the result of the demo.
import type { LockInfo } from '../../fleet/lock-info.js'
import { counted, grouped } from '../../util/counted.js'
import { tableOfLocks } from '../operate/list.js'
import type { Style, Terminal } from '../terminal.js'
import type { SaleResult } from './flash-sale-result.js'
import type { DemoOptions } from './options.js'

/** Buyers that each process serves at a time. */
export const BUYERS = 4

export function introduction(
  terminal: Terminal,
  { processes, stock, isEmbedded }: DemoOptions,
  redis: string,
): string[] {
  const where = isEmbedded ? ', in memory: this is not a real Redis' : ''
  return [
    '',
    `  ${terminal.paint('bold', `Holdfast demo: a flash sale${where}`)}`,
    '',
    `  ${counted(stock, 'unit')} in stock, ${counted(processes, 'process', 'processes')} with ${BUYERS} buyers each. Every buyer does what`,
    '  a simple shop does: read the stock, charge the card (1 ms), write the stock',
    '  minus one, record the order.',
    '',
    `  Redis: ${redis}`,
  ]
}

/** The lines printed when a sale is over. */
export function verdict(terminal: Terminal, { stock, sold, oversold }: SaleResult): string[] {
  const orders = `${counted(sold, 'order')} for ${counted(stock, 'unit')}`
  if (oversold === 0) return ['', `     ${terminal.paint(['bold', 'green'], `✔ ${orders}: none oversold`)}`]
  return ['', `     ${terminal.paint(['bold', 'red'], `✘ ${orders}: ${grouped(oversold)} oversold`)}`]
}

export function table(terminal: Terminal, unlocked: SaleResult, locked: SaleResult): string[] {
  const heads = ['', 'in stock', 'sold', 'oversold', 'at once', 'per second', 'p50 wait', 'p99 wait']
  const widths = [10, 9, 8, 10, 9, 11, 10, 10]
  const line = (cells: string[], styles: (Style | undefined)[] = []): string =>
    `  ${cells
      .map((cell, column) => {
        const width = widths[column] ?? 0
        const padded = column === 0 ? cell.padEnd(width) : cell.padStart(width)
        const style = styles[column]
        return style === undefined ? padded : terminal.paint(style, padded)
      })
      .join('')}`
  const row = (name: string, sale: SaleResult, waits: string[]): string =>
    line(
      [name, ...[sale.stock, sale.sold, sale.oversold, sale.atOnce, sale.perSecond].map(grouped), ...waits],
      [undefined, undefined, undefined, sale.oversold > 0 ? ['bold', 'red'] : ['bold', 'green']],
    )
  return [
    terminal.paint('dim', line(heads)),
    row('no lock', unlocked, ['–', '–']),
    row('withLock', locked, [milliseconds(locked.waitP50Ms), milliseconds(locked.waitP99Ms)]),
    '',
    terminal.paint('dim', '  at once: the most buyers between reading the stock and ordering at one moment'),
  ]
}

/** The lock at one moment of the sale with Holdfast. @param lock  undefined: it was not sampled in time */
export function moment(terminal: Terminal, lock: LockInfo | undefined): string[] {
  if (!lock) return []
  return [
    `  ${terminal.paint('bold', 'One moment of that sale')}, as operators see it:`,
    '',
    ...tableOfLocks([lock], terminal, undefined, terminal.columns - 2).map((line) => `  ${line}`),
    '',
    `  Live, for your own Redis:  ${terminal.paint('cyan', 'npx holdfast top --redis redis://…')}`,
    '',
  ]
}

export function explanation(terminal: Terminal): string[] {
  return [
    `  Both sales ran the same code, the second one as ${terminal.paint('bold', 'await lock.withLock(buy)')}.`,
    '  Without the lock, buyers read the stock while others are about to change it.',
    '',
    `  Next: guard a command    ${terminal.paint('cyan', 'holdfast run lock:nightly-report -- node report.js')}`,
    `        guard your code    ${terminal.paint('cyan', "import { connect } from 'holdfast'")}`,
  ]
}

/** The line of `--json`. */
export function summary(processes: number, unlocked: SaleResult, locked: SaleResult): string {
  const { stock, sold, oversold, atOnce, perSecond, waitP50Ms, waitP99Ms } = locked
  return JSON.stringify({
    processes,
    buyersPerProcess: BUYERS,
    stock,
    unlocked: {
      sold: unlocked.sold,
      oversold: unlocked.oversold,
      atOnce: unlocked.atOnce,
      perSecond: unlocked.perSecond,
    },
    locked: { sold, oversold, atOnce, perSecond, waitP50Ms, waitP99Ms },
  })
}

function milliseconds(ms: number): string {
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
}
