import { isatty } from 'node:tty'
import type { Client } from '../../client.js'
import { LeaseLostError, LockError, messageOf } from '../../errors.js'
import type { Hold } from '../../locks/hold.js'
import { Command } from '../command.js'
import { connectTo } from '../connect.js'
import { EXIT, exitCodeOf, Failure } from '../exit-codes.js'
import { say } from '../stderr.js'
import { RUN_USAGE } from '../usage.js'
import { parseRunOptions, type RunOptions } from './options.js'

const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'] as const
const LONG_WAIT_MS = 1_000

/**
 * `holdfast run`: runs a command while holding a lock.
 * @param args  the command line after the word `run`
 * @returns the exit code
 * @throws {Failure} the command was not run
 */
export async function run(args: string[]): Promise<number> {
  const options = parseRunOptions(args, process.env)
  if (!options) {
    console.log(RUN_USAGE)
    return 0
  }
  const interruption = new AbortController()
  let interruptedBy: NodeJS.Signals | undefined
  let command: Command | undefined
  for (const name of SIGNALS) {
    process.on(name, () => {
      if (command) return passOn(name, command)
      interruptedBy ??= name
      interruption.abort(new Error(name))
    })
  }
  try {
    return await runLocked(options, interruption.signal, (started) => {
      command = started
    })
  } catch (error) {
    if (interruptedBy === undefined) throw error
    if (options.isVerbose) say(`stopped by ${interruptedBy} before the command was run`)
    return exitCodeOf(interruptedBy)
  }
}

/** @throws the reason of `signal`, when it aborts before the command is started */
async function runLocked(options: RunOptions, signal: AbortSignal, onStart: (command: Command) => void) {
  const client = await connectTo(options.target, signal)
  client.on('warning', (warning) => say(`warning: ${warning.message}`))
  try {
    const guard = guardOf(client, options)
    const hold = await acquire(guard, options, signal)
    if (!hold) return options.conflictExitCode
    // From this check to `onStart` nothing is awaited: a signal goes either to the wait or to the command.
    if (signal.aborted) {
      await release(hold, guard, options)
      throw signal.reason
    }
    const command = new Command(options.command, { HOLDFAST_LOCK: hold.lockName, HOLDFAST_HOLDER: hold.holder })
    onStart(command)
    const onLoss = (): void => reactToLoss(hold.signal.reason, command, options)
    if (hold.signal.aborted) onLoss()
    else hold.signal.addEventListener('abort', onLoss)
    const exitCode = await command.exitCode
    hold.signal.removeEventListener('abort', onLoss)

    if (options.isVerbose) say(`the command ended with exit code ${exitCode}`)
    await release(hold, guard, options)
    return hold.signal.aborted ? EXIT.lost : exitCode
  } finally {
    await client.close().catch((error: unknown) => say(`warning: ${messageOf(error)}`))
  }
}

/** What keeps others from running the program: a lock, or one of some permits. */
interface Guard {
  /** As people call it. */
  readonly title: string
  /** @returns null when the wait ended first */
  take(terms: Terms): Promise<Hold | null>
  /** Why there is a wait, as part of a sentence. */
  reason(): Promise<string>
}

interface Terms {
  readonly leaseTimeMs: number | undefined
  /** Undefined: no limit. */
  readonly waitTimeMs: number | undefined
  readonly signal: AbortSignal
}

function guardOf(client: Client, { lockName, permits }: RunOptions): Guard {
  if (permits === undefined) {
    const lock = client.getLock(lockName)
    return {
      title: `lock ${quote(lockName)}`,
      take: ({ waitTimeMs, ...terms }) =>
        waitTimeMs === undefined ? lock.lock(terms) : lock.tryLock({ ...terms, waitTimeMs }),
      async reason() {
        const holders = await lock.getHolders()
        return holders.length > 0
          ? `, held by ${holders.map(({ holder }) => holder.replace(/\s+/g, ' ')).join(', ')}`
          : ''
      },
    }
  }
  const semaphore = client.getPermitExpirableSemaphore(lockName)
  return {
    title: `one of ${permits} permits ${quote(lockName)}`,
    async take({ waitTimeMs, ...terms }) {
      await semaphore.setPermits(permits)
      return waitTimeMs === undefined ? semaphore.acquire(terms) : semaphore.tryAcquire({ ...terms, waitTimeMs })
    },
    reason: async () => `, ${await semaphore.acquiredPermits()} are held`,
  }
}

/** @returns null when the wait ended first */
async function acquire(guard: Guard, options: RunOptions, signal: AbortSignal): Promise<Hold | null> {
  const { waitTimeMs, leaseTimeMs, isVerbose } = options
  const isTalkative = isVerbose || isatty(2)
  const startedAt = performance.now()
  const stopReporting = isTalkative ? reportLongWait(guard) : undefined
  try {
    const hold = await guard.take({ leaseTimeMs, waitTimeMs, signal })
    if (hold && isVerbose) {
      const waitedMs = Math.round(performance.now() - startedAt)
      say(`holding ${guard.title} as ${hold.holder} after ${waitedMs} ms`)
    }
    if (!hold && isTalkative) say(`${guard.title} did not come free in time: someone else holds it`)
    return hold
  } catch (error) {
    signal.throwIfAborted()
    const about = error instanceof LockError ? '' : `${guard.title}: `
    throw new Failure(EXIT.unavailable, about + messageOf(error))
  } finally {
    stopReporting?.()
  }
}

function reportLongWait(guard: Guard): () => void {
  let isWaiting = true
  const timer = setTimeout(async () => {
    const reason = await guard.reason().catch(() => '')
    if (isWaiting) say(`waiting for ${guard.title}${reason}`)
  }, LONG_WAIT_MS)
  return () => {
    isWaiting = false
    clearTimeout(timer)
  }
}

/** A loss that is noticed only now is told here; a release that fails costs no more than the lease. */
async function release(hold: Hold, { title }: Guard, { isVerbose }: RunOptions): Promise<void> {
  const wasLost = hold.signal.aborted
  try {
    await hold.unlock()
    if (isVerbose) say(`released ${title}`)
  } catch (error) {
    if (!wasLost || !(error instanceof LeaseLostError)) say(`warning: ${messageOf(error)}`)
  }
}

function reactToLoss(error: unknown, command: Command, { onLost, graceMs }: RunOptions): void {
  const process = `process ${command.pid}`
  const reaction = {
    term: `sending SIGTERM to ${process}, and SIGKILL in ${graceMs} ms`,
    kill: `sending SIGKILL to ${process}`,
    warn: 'the command goes on',
  }
  say(`${messageOf(error)}\nholdfast: ${reaction[onLost]}`)
  if (onLost === 'term') command.terminate(graceMs)
  if (onLost === 'kill') command.signal('SIGKILL')
}

/**
 * A terminal sends its own signals (Ctrl-C, Ctrl-\) to the command, too: it is in the same process group. Passed on, they
 * would arrive twice, and a second Ctrl-C means "at once" to many programs.
 */
function passOn(name: (typeof SIGNALS)[number], command: Command): void {
  const isFromTerminal = (name === 'SIGINT' || name === 'SIGQUIT') && [0, 1, 2].some((fd) => isatty(fd))
  if (!isFromTerminal) command.signal(name)
}

function quote(lockName: string): string {
  return JSON.stringify(lockName)
}
