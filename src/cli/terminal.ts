// Redraws or prints lines.
import { styleText } from 'node:util'
import { visible } from '../util/visible.js'

export type Style = Parameters<typeof styleText>[0]

/** Where output goes: a terminal that can redraw lines in colour, or a plain text file or pipe. */
export class Terminal {
  readonly columns: number
  /** How long a line may be; a file has no limit. */
  readonly width: number
  /** Whether lines can be redrawn, if they are no longer than `width`. */
  readonly isTerminal: boolean
  /** Whether it has room for what is drawn for at least 70 columns. */
  readonly isLive: boolean
  readonly #stream: NodeJS.WriteStream
  readonly #hasColors: boolean
  #liveLines = 0

  constructor(stream: NodeJS.WriteStream, { NO_COLOR, TERM }: NodeJS.ProcessEnv) {
    this.isTerminal = stream.isTTY === true && TERM !== 'dumb'
    const columns = stream.columns || 80
    this.#stream = stream
    this.#hasColors = this.isTerminal && !NO_COLOR
    this.isLive = this.isTerminal && columns >= 70
    // One column stays free: some terminals wrap once the last one is written.
    this.columns = Math.min(Math.max(columns - 1, 40), 130)
    this.width = this.isTerminal ? Math.max(columns - 1, 20) : Number.POSITIVE_INFINITY
  }

  /** How many lines can be redrawn at a time. */
  get liveRows(): number {
    return Math.max((this.#stream.rows || 24) - 4, 1)
  }

  paint(style: Style, text: string): string {
    return this.#hasColors ? styleText(style, text, { validateStream: false }) : text
  }

  print(...lines: string[]): void {
    this.#stream.write(lines.map((line) => `${line}\n`).join(''))
  }

  /** Prints a value as one line of JSON. What is infinite is null. */
  printJson(value: unknown): void {
    this.print(visible(JSON.stringify(value)))
  }

  /** Prints lines in place of those of the last call. They must fit the width. */
  redraw(lines: readonly string[]): void {
    const up = this.#liveLines > 0 ? `\x1b[${this.#liveLines}A` : ''
    this.#stream.write(`\x1b[?25l\r${up}${lines.map((line) => `\x1b[2K${line}\n`).join('')}`)
    this.#liveLines = lines.length
  }

  /** Keeps what was drawn, and shows the cursor again. */
  keep(): void {
    if (this.#liveLines > 0) this.#stream.write('\x1b[?25h')
    this.#liveLines = 0
  }
}

/** A colour for each process, as far as they last. Red is for failures. */
export function colorOf(processIndex: number): Style {
  const colors = ['cyan', 'magenta', 'yellow', 'green', 'blueBright', 'magentaBright', 'cyanBright', 'gray'] as const
  return colors[processIndex % colors.length] ?? 'cyan'
}
