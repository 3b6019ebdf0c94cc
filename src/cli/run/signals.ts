// Passes SIGTERM and SIGINT on to the child process.
import { isatty } from 'node:tty'
import type { Command } from './command.js'

const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'] as const

/** Handles SIGTERM and the like: before the command runs they end the wait, then they are forwarded to it. */
export class Signals {
  /** The first signal that arrived before the command was started. */
  interruptedBy: NodeJS.Signals | undefined
  #command: Command | undefined
  readonly #abort = new AbortController()

  constructor() {
    for (const name of SIGNALS) process.on(name, () => this.#handle(name))
  }

  /** Aborts on a signal before the command is started. */
  get beforeStart(): AbortSignal {
    return this.#abort.signal
  }

  forwardTo(command: Command): void {
    this.#command = command
  }

  #handle(name: (typeof SIGNALS)[number]): void {
    if (this.#command) {
      forward(name, this.#command)
    } else {
      this.interruptedBy ??= name
      this.#abort.abort(new Error(name))
    }
  }
}

/**
 * A terminal also sends its own signals (Ctrl-C, Ctrl-\) to the command, which is in the same process group. Forwarded, they
 * would arrive twice, and many programs take a second Ctrl-C as an order to stop immediately.
 */
function forward(name: (typeof SIGNALS)[number], command: Command): void {
  const isFromTerminal = (name === 'SIGINT' || name === 'SIGQUIT') && [0, 1, 2].some((fd) => isatty(fd))
  if (!isFromTerminal) command.signal(name)
}
