#!/usr/bin/env node
// Dispatches subcommands.
import { messageOf } from '../errors.js'
import { didYouMean } from './command-line.js'
import { EXIT, Failure, UsageError } from './exit-codes.js'
import { run } from './run/run.js'
import { say, withoutUrls } from './stderr.js'
import { USAGE } from './usage.js'
import { version } from './version.js'

const COMMANDS = ['run', 'jobs', 'ls', 'who', 'top', 'watch', 'unlock', 'deadlocks', 'ui', 'doctor', 'demo']

async function main([name, ...args]: string[]): Promise<number> {
  switch (name) {
    case 'run':
      return await run(args)
    case 'demo': {
      const { demo } = await import('./demo/demo.js')
      return await demo(args)
    }
    case 'ui': {
      const { ui } = await import('./ui/ui.js')
      return await ui(args)
    }
    case 'doctor': {
      const { doctor } = await import('./doctor/doctor.js')
      return await doctor(args)
    }
    case 'jobs':
    case 'ls':
    case 'who':
    case 'top':
    case 'watch':
    case 'unlock':
    case 'deadlocks': {
      const { runFleetCommand } = await import('./operate/operate.js')
      return await runFleetCommand(name, args)
    }
    case 'help':
      return args[0] === undefined ? print(USAGE) : await main([args[0], '--help'])
    case '--help':
    case '-h':
      return print(USAGE)
    case '--version':
    case '-v':
    case 'version':
      return print(version())
    case undefined:
      console.error(USAGE)
      return EXIT.usage
    default:
      throw new UsageError(unknown(name))
  }
}

function unknown(name: string): string {
  const kind = name.startsWith('-') ? 'option' : 'command'
  return `unknown ${kind} ${JSON.stringify(name)}${didYouMean(name, COMMANDS)}`
}

function print(text: string): number {
  console.log(text)
  return 0
}

function report(error: unknown): number {
  if (error instanceof UsageError) {
    const command = COMMANDS.find((name) => name === process.argv[2])
    say(`${error.message}\nTry: holdfast ${command ? `${command} ` : ''}--help`, { level: 'error' })
    return error.exitCode
  }
  const isBug = !(error instanceof Failure)
  const isTraced = isBug && process.env['DEBUG'] && error instanceof Error
  say(isTraced ? (error.stack ?? error.message) : messageOf(error), { level: 'error' })
  return isBug ? EXIT.software : error.exitCode
}

// Other users of the machine can see the command line of a process.
const words = process.argv.slice(2)
const shown = words.map(withoutUrls)
if (shown.some((word, index) => word !== words[index])) process.title = ['holdfast', ...shown].join(' ')

process.exitCode = EXIT.software // if nothing is left to wait for
// No `await` here, which the program as one file cannot have.
void main(words)
  .catch(report)
  // Exit even if a connection or a child process is still open, once a pipe has taken all that was printed.
  .then((exitCode) => process.stdout.write('', () => process.exit(exitCode)))
