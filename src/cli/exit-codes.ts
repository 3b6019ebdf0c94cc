// Exit codes.
import { constants } from 'node:os'
import { withoutUrls } from './stderr.js'

/** Exit codes of holdfast itself. 64 to 75 are those of sysexits.h. */
export const EXIT = {
  /** Nothing was found, or not all: something could not be seen. */
  inDoubt: 2,
  usage: 64,
  unavailable: 69,
  software: 70,
  conflict: 75,
  lost: 76,
  refused: 77,
  notExecutable: 126,
  notFound: 127,
} as const

/** The exit code that shells report for a process ended by a signal. */
export function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

/** Ends the program: `message` is for the user, `exitCode` for the caller. */
export class Failure extends Error {
  readonly exitCode: number

  constructor(exitCode: number, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}

/** The command line is invalid. */
export class UsageError extends Failure {
  constructor(message: string) {
    // It may quote a command line that has a URL with a password in the wrong place.
    super(EXIT.usage, withoutUrls(message))
  }
}
