// Shows the progress of a sale.
import { counted, grouped } from '../../util/counted.js'
import { colorOf, type Terminal } from '../terminal.js'
import type { Progress } from './flash-sale-worker.js'

const PLAIN_LINE_EVERY_MS = 2_000
const NAME = 13
const NUMBERS = 38

/** Shows the progress of a sale: a redrawn line for each process, or a plain line now and then. */
export class SaleProgress {
  readonly #terminal: Terminal
  readonly #stock: number
  #processes: readonly Progress[] = []
  #plainLineAt = performance.now() + PLAIN_LINE_EVERY_MS

  constructor(terminal: Terminal, stock: number) {
    this.#terminal = terminal
    this.#stock = stock
  }

  update(processes: readonly Progress[]): void {
    this.#processes = processes
    if (this.#terminal.isLive) {
      this.#draw()
    } else if (performance.now() >= this.#plainLineAt) {
      this.#plainLineAt += PLAIN_LINE_EVERY_MS
      this.#terminal.print(`     ${this.#total()} …`)
    }
  }

  /** Keeps the last state on the screen. */
  end(): void {
    if (this.#terminal.isLive) this.#draw()
    else for (const [index, { orders }] of this.#processes.entries()) this.#terminal.print(plainLine(index, orders))
    this.#terminal.keep()
  }

  #draw(): void {
    const rows = this.#terminal.liveRows
    const shown = this.#processes.slice(0, this.#processes.length > rows ? rows - 1 : rows)
    const lines = shown.map((progress, index) => this.#line(progress, index))
    const hidden = this.#processes.slice(shown.length)
    if (hidden.length > 0) {
      const orders = sum(hidden.map((progress) => progress.orders))
      lines.push(`     and ${counted(hidden.length, 'more process', 'more processes')}: ${counted(orders, 'order')}`)
    }
    this.#terminal.redraw(lines)
  }

  /** The bar is full when the process has sold the whole stock by itself. */
  #line({ orders, inside, waiting }: Progress, index: number): string {
    const width = Math.min(this.#terminal.columns - 5 - NAME - NUMBERS, 40)
    const filled = Math.min(Math.round((orders / this.#stock) * width), width)
    const bar = this.#terminal.paint(colorOf(index), '█'.repeat(filled))
    const rest = this.#terminal.paint('dim', '░'.repeat(width - filled))
    const doing = `${inside} buying, ${waiting} waiting`
    const numbers = `${grouped(orders).padStart(7)} ${orders === 1 ? 'order ' : 'orders'}`
    const isOver = inside + waiting === 0
    return `     ${processName(index).padEnd(NAME)}${bar}${rest}${numbers}${isOver ? '' : this.#terminal.paint('dim', `  ${doing}`)}`
  }

  #total(): string {
    const orders = sum(this.#processes.map((progress) => progress.orders))
    const waiting = sum(this.#processes.map((progress) => progress.waiting))
    return `${counted(orders, 'order')} so far, ${counted(waiting, 'buyer')} waiting`
  }
}

export function processName(index: number): string {
  return `process ${index + 1}`
}

function plainLine(index: number, orders: number): string {
  return `     ${processName(index).padEnd(NAME)}${grouped(orders).padStart(7)} ${orders === 1 ? 'order' : 'orders'}`
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
