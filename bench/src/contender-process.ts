import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Library } from './library.js'
import type { Assignment, Results, Work } from './work.js'

const CONTENDER = fileURLToPath(new URL('contender.js', import.meta.url))
const PATIENCE_MS = 90_000

/** A contender process, as seen by the measuring process. */
export class Contender<W extends Work['do']> {
  readonly #process: ChildProcess
  readonly #lines: AsyncIterator<string>
  #stderr = ''

  constructor(library: Library, assignment: Assignment & { work: { do: W } }) {
    const [command, ...args] = library.program ?? [process.execPath, CONTENDER]
    this.#process = spawn(command, [...args, JSON.stringify(assignment)], { stdio: 'pipe' })
    const { stdin, stdout, stderr } = this.#process
    if (!stdin || !stdout || !stderr) throw new Error('no pipes')
    stdin.on('error', () => {}) // its exit is noticed by its output
    stderr.on('data', (text) => {
      this.#stderr = `${this.#stderr}${text}`.slice(-2_000)
    })
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
    process.on('exit', this.#kill)
  }

  async opened(): Promise<void> {
    await this.#receive('open')
  }

  async start(): Promise<void> {
    this.#process.stdin?.write('start\n')
    await this.#receive('started')
  }

  async measure(ms: number): Promise<Results[W]> {
    this.#process.stdin?.write(`measure ${ms}\n`)
    return (await this.#receive('measured')) as Results[W]
  }

  end(): void {
    process.off('exit', this.#kill)
    this.#kill()
  }

  readonly #kill = () => {
    this.#process.kill('SIGKILL')
  }

  async #receive(what: string): Promise<unknown> {
    const silence = setTimeout(this.#kill, PATIENCE_MS)
    try {
      for (;;) {
        const { value, done } = await this.#lines.next()
        if (done) {
          const error = /^\w*(?:Error|Exception)\b.*$/m.exec(this.#stderr)?.[0].replace(/^Error: /, '')
          throw new Error(error ?? `ended, or timed out, before it was ${what}: ${this.#stderr}`)
        }
        // A library may print something itself.
        if (value.startsWith('{"is":')) return JSON.parse(value)
      }
    } finally {
      clearTimeout(silence)
    }
  }
}
