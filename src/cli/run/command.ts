// The child process of holdfast run.
import { type ChildProcess, spawn } from 'node:child_process'
import { messageOf } from '../../errors.js'
import { EXIT, exitCodeOf } from '../exit-codes.js'
import { say } from '../stderr.js'

/** The running program, with our own stdin, stdout and stderr. */
export class Command {
  /** Resolves when it has exited, even if its children have not, with the exit code that a shell would report. */
  readonly exitCode: Promise<number>
  readonly #child: ChildProcess | undefined
  #killTimer: NodeJS.Timeout | undefined

  /** @param env  added to our own environment */
  constructor([program, ...args]: readonly [string, ...string[]], env: Record<string, string>) {
    let child: ChildProcess
    try {
      child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...env } })
    } catch (error) {
      this.exitCode = Promise.resolve(couldNotStart(program, error)) // Node throws some errors and emits others
      return
    }
    this.#child = child
    this.exitCode = new Promise((resolve) => {
      child.on('error', (error) => {
        // If it runs, signalling it failed: it may have changed its user.
        if (child.pid === undefined) resolve(couldNotStart(program, error))
        else say(`warning: could not signal process ${child.pid}: ${messageOf(error)}`)
      })
      child.on('exit', (code, signal) => {
        clearTimeout(this.#killTimer)
        resolve(signal === null ? (code ?? 0) : exitCodeOf(signal))
      })
    })
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** SIGTERM now, and SIGKILL if it has not ended after `graceMs`. */
  terminate(graceMs: number): void {
    this.signal('SIGTERM')
    this.#killTimer ??= setTimeout(() => {
      say(`the program did not end on SIGTERM: sending SIGKILL to process ${this.pid}`)
      this.signal('SIGKILL')
    }, graceMs)
  }
}

function couldNotStart(program: string, error: unknown): number {
  const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
  say(`${program}: ${isMissing ? 'command not found' : `cannot be executed: ${messageOf(error)}`}`)
  return isMissing ? EXIT.notFound : EXIT.notExecutable
}
