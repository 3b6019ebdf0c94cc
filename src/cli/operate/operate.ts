// Runs a command for operators: ls, who, top, watch, unlock, deadlocks, jobs.
import { createInterface } from 'node:readline/promises'
import { ConfigError, LockError, messageOf } from '../../errors.js'
import { connectTo } from '../connect.js'
import { EXIT, exitCodeOf, Failure, UsageError } from '../exit-codes.js'
import { reasonOf, say } from '../stderr.js'
import { Terminal } from '../terminal.js'
import { FLEET_USAGE } from '../usage.js'
import { deadlocks } from './deadlocks.js'
import { jobs } from './jobs.js'
import { ls } from './ls.js'
import { type FleetCommand, parseFleetOptions } from './options.js'
import { top } from './top.js'
import { unlock } from './unlock.js'
import type { Session } from './view.js'
import { watch } from './watch.js'
import { who } from './who.js'

const COMMANDS: Record<FleetCommand, (session: Session) => Promise<number>> = {
  ls,
  who,
  top,
  watch,
  unlock,
  deadlocks,
  jobs,
}

/**
 * The commands for operators: who holds which lock, and how to break one.
 * @param args  the command line after the command
 * @returns the exit code
 * @throws {Failure} Redis is unreachable, or refuses
 */
export async function runFleetCommand(name: FleetCommand, args: string[]): Promise<number> {
  const options = parseFleetOptions(name, args, process.env)
  if (!options) {
    console.log(FLEET_USAGE[name])
    return 0
  }
  const stop = new AbortController()
  const isRepeated = (name === 'top' && !options.once) || name === 'watch' || options.watch
  let interruptedBy: NodeJS.Signals | undefined
  for (const signal of isRepeated ? (['SIGINT', 'SIGTERM'] as const) : []) {
    // Once: if Redis does not reply, a second one ends the process.
    process.once(signal, () => {
      interruptedBy = signal
      stop.abort(new Error(signal))
    })
  }
  process.stdout.on('error', () => stop.abort(new Error('nobody reads the output')))
  const terminal = new Terminal(process.stdout, options.hasColors ? process.env : { ...process.env, NO_COLOR: '1' })
  const client = await connectTo(options.target, stop.signal, { inspection: false })
  client.on('warning', (warning) => say(`warning: ${warning.message}`))
  try {
    const session = {
      fleet: client.fleet,
      options,
      terminal,
      signal: stop.signal,
      ask: askOf(),
      trace: async (holders: readonly string[]) => {
        const { traceHolders } = await import('./trace.js')
        return await traceHolders(options, holders)
      },
      now: Date.now,
    }
    const exitCode = await COMMANDS[name](session)
    return interruptedBy ? exitCodeOf(interruptedBy) : exitCode
  } catch (error) {
    throw failureOf(error)
  } finally {
    await client.close().catch((error: unknown) => say(`warning: ${messageOf(error)}`))
  }
}

function failureOf(error: unknown): unknown {
  if (error instanceof Failure) return error
  const reason = reasonOf(error)
  if (/\bNOPERM\b/.test(reason)) return new Failure(EXIT.refused, `Redis refuses: ${reason}`)
  const isOfRedis = error instanceof LockError || (error instanceof Error && /ReplyError|Redis/.test(error.name))
  if (error instanceof ConfigError) return new UsageError(reason)
  return isOfRedis ? new Failure(EXIT.unavailable, reason) : error
}

function askOf(): Session['ask'] {
  if (!process.stdin.isTTY) return undefined
  return async (question) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr })
    try {
      return await lines.question(question)
    } finally {
      lines.close()
    }
  }
}
