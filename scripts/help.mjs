// What the programs of this repository print for --help, and how they read their options.
import { parseArgs } from 'node:util'

/** Prints the help of this program and ends it, if that is what was asked for. */
export function showHelp(help) {
  if (!process.argv.slice(2).some((arg) => arg === '--help' || arg === '-h')) return
  console.log(help.trim())
  process.exit()
}

/** The values of `parseArgs`. Ends the program after --help, and with exit code 2 if an option is wrong. */
export function readOptions(help, options) {
  showHelp(help)
  try {
    return parseArgs({ options }).values
  } catch (error) {
    return wrongOption(error.message)
  }
}

/** Ends the program with exit code 2. */
export function wrongOption(message) {
  console.error(`${message}\n--help lists the options`)
  process.exit(2)
}

/** For a program that passes or fails. */
export const EXIT_CODES = `Exit codes
  0  passed
  1  failed, or could not be run
  2  an option is wrong`

/** For a program that measures, besides, how late its own timers are. */
export const TOO_SLOW = `
  3  the machine was too slow to judge: only bounds of time were missed, while timers were late as well; run it again
     while less else runs`
