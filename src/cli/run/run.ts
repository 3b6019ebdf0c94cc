// `holdfast run`: runs a command with a lock held.
import { isatty } from 'node:tty'
import type { Client } from '../../client.js'
import { LeaseLostError, LockError, messageOf } from '../../errors.js'
import type { Hold } from '../../locks/hold.js'
import { durationOf } from '../../util/duration-text.js'
import { forShell } from '../../util/quoting.js'
import { connectTo } from '../connect.js'
import { EXIT, exitCodeOf, Failure } from '../exit-codes.js'
import { timeOf } from '../local-time.js'
import { logAs, say } from '../stderr.js'
import { RUN_USAGE } from '../usage.js'
import { Command } from './command.js'
import { JobRecord } from './job-record.js'
import { parseRunOptions, type RunOptions } from './options.js'
import { Signals } from './signals.js'

const LONG_WAIT_MS = 1_000

/**
 * `holdfast run`: runs a program while holding a lock.
 * @param args  the command line after the word `run`
 * @returns the exit code
 * @throws {Failure} the program was not run
 */
export async function run(args: string[]): Promise<number> {
  const options = parseRunOptions(args, process.env)
  if (!options) {
    console.log(RUN_USAGE)
    return 0
  }
  const { log, isVerbose, lockName: lock } = options
  logAs(log === 'json' ? 'json' : isVerbose ? 'timed' : 'text', { lock })
  const signals = new Signals()
  try {
    return await runLocked(options, signals)
  } catch (error) {
    if (signals.interruptedBy === undefined) throw error
    if (isVerbose) say(`stopped by ${signals.interruptedBy} before the program was run`)
    return exitCodeOf(signals.interruptedBy)
  }
}

/** @throws the abort reason, if a signal arrives before the command is started */
async function runLocked(options: RunOptions, signals: Signals): Promise<number> {
  const signal = signals.beforeStart
  const client = await connectTo(options.target, signal)
  client.on('warning', (warning) => say(`warning: ${warning.message}`))
  try {
    const guard = guardOf(client, options)
    const hold = await acquire(guard, options, signal)
    const record = new JobRecord(client, options)
    if (!hold) {
      await record.skipped()
      record.warn()
      return options.conflictExitCode
    }
    // Nothing is awaited from this check to `forwardTo`: a signal either ends the wait or goes to the command.
    if (signal.aborted) {
      await release(hold)
      throw signal.reason
    }
    hold.keepAtLeast()
    client.fleet.describe()
    const command = new Command(options.command, { HOLDFAST_LOCK: hold.lockName, HOLDFAST_HOLDER: hold.holder })
    signals.forwardTo(command)
    record.started(hold)
    const onLoss = (): void => reactToLoss(hold.signal.reason, command, options)
    if (hold.signal.aborted) onLoss()
    else hold.signal.addEventListener('abort', onLoss)
    const exitCode = await command.exitCode
    hold.signal.removeEventListener('abort', onLoss)

    const ended = { exitCode, at: Date.now(), ranMs: record.ranMs }
    // The record first: a job that neither runs nor has ended looks killed.
    const recorded = record.ended(hold.signal.aborted ? EXIT.lost : exitCode)
    const isReleased = await release(hold)
    if (isLogging(options)) sayEnded(ended, hold, guard, options, isReleased)
    await recorded
    record.warn()
    return hold.signal.aborted ? EXIT.lost : exitCode
  } finally {
    await client.close().catch((error: unknown) => say(`warning: ${messageOf(error)}`))
  }
}

/** Whether notices are printed, and not only failures: cron sends what a job prints by mail. */
function isLogging({ isVerbose, log }: RunOptions): boolean {
  return isVerbose || log === 'json' || isatty(2)
}

function sayEnded(
  { exitCode, at, ranMs }: { exitCode: number; at: number; ranMs: number },
  { acquiredAt, signal }: Hold,
  { title }: Guard,
  { atLeastMs = 0 }: RunOptions,
  isReleased: boolean,
): void {
  const keptUntil = acquiredAt + atLeastMs
  const isKept = !signal.aborted && keptUntil > at
  const fate = isKept ? `, kept until ${timeOf(keptUntil, at)} by --at-least` : isReleased ? `, released ${title}` : ''
  say(`ended with ${exitCode} at ${timeOf(at, at)} after ${durationOf(ranMs)}${fate}`, {
    exitCode,
    ranMs: Math.round(ranMs),
    ...(isKept && { keptUntil: new Date(keptUntil).toISOString() }),
  })
}

/** A limit for the copies of the program: a lock, or a number of permits. */
interface Guard {
  /** For messages. */
  readonly title: string
  /** @returns null if the wait time ended first */
  acquire(terms: Terms): Promise<Hold | null>
  /** The present holders, as the end of a sentence. */
  holders(): Promise<string>
}

interface Terms {
  readonly leaseTimeMs: number | undefined
  /** Undefined: no limit. */
  readonly waitTimeMs: number | undefined
  readonly signal: AbortSignal
}

function guardOf(client: Client, { lockName, permits, atLeastMs, label }: RunOptions): Guard {
  if (permits === undefined) {
    const lock = client.getLock(lockName)
    return {
      title: `lock ${quote(lockName)}`,
      async acquire({ leaseTimeMs, ...terms }) {
        return (
          (await lock.acquire({ ...terms, terms: lock.terms({ leaseTimeMs, atLeastMs, label }), within: undefined })) ??
          null
        )
      },
      async holders() {
        const holders = await lock.getHolders()
        return holders.length > 0
          ? `, held by ${holders.map(({ holder }) => holder.replace(/\s+/g, ' ')).join(', ')}`
          : ''
      },
    }
  }
  const semaphore = client.getPermitExpirableSemaphore(lockName)
  return {
    title: `one of ${permits} permits of ${quote(lockName)}`,
    async acquire({ waitTimeMs, ...terms }) {
      await semaphore.setPermits(permits)
      const labelled = { ...terms, label }
      return waitTimeMs === undefined ? semaphore.acquire(labelled) : semaphore.tryAcquire({ ...labelled, waitTimeMs })
    },
    holders: async () => `, ${await semaphore.acquiredPermits()} in use`,
  }
}

/** @returns null if the wait time ended first */
async function acquire(guard: Guard, options: RunOptions, signal: AbortSignal): Promise<Hold | null> {
  const { waitTimeMs, leaseTimeMs, isVerbose } = options
  const startedAt = performance.now()
  const stopReporting = isLogging(options) ? reportLongWait(guard) : undefined
  try {
    const hold = await guard.acquire({ leaseTimeMs, waitTimeMs, signal })
    if (hold && (isVerbose || options.log === 'json')) {
      const waitedMs = Math.round(performance.now() - startedAt)
      const { holder } = hold
      say(`acquired ${guard.title} as ${holder} after ${waitedMs} ms`, { holder, waitedMs })
    }
    if (!hold && isLogging(options))
      say(
        `${guard.title} was not acquired in time: held by others${options.atLeastMs === undefined ? '' : ', or kept by --at-least'}`,
      )
    return hold
  } catch (error) {
    signal.throwIfAborted()
    const subject = error instanceof LockError ? '' : `${guard.title}: `
    const message = subject + messageOf(error)
    if (/\bNOPERM\b/.test(message)) throw new Failure(EXIT.refused, `${message}\n${aclAdvice(options)}`)
    throw new Failure(EXIT.unavailable, message)
  } finally {
    stopReporting?.()
  }
}

function aclAdvice({ lockName }: RunOptions): string {
  const prefix = /^[^\s:]+:/.exec(lockName)?.[0] ?? lockName
  return `the rights that its Redis user needs: holdfast doctor --acl --prefix ${forShell(prefix)}`
}

function reportLongWait(guard: Guard): () => void {
  let isWaiting = true
  const timer = setTimeout(async () => {
    const holders = await guard.holders().catch(() => '')
    if (isWaiting) say(`waiting for ${guard.title}${holders}`)
  }, LONG_WAIT_MS)
  return () => {
    isWaiting = false
    clearTimeout(timer)
  }
}

/** A failure is only a warning: the lock becomes free when its lease ends. @returns whether it was released */
async function release(hold: Hold): Promise<boolean> {
  const wasLost = hold.signal.aborted
  try {
    await hold.unlock()
    return true
  } catch (error) {
    if (!wasLost || !(error instanceof LeaseLostError)) say(`warning: ${messageOf(error)}`)
    return false
  }
}

function reactToLoss(error: unknown, command: Command, { onLost, graceMs }: RunOptions): void {
  const process = `process ${command.pid}`
  const reaction = {
    term: `sending SIGTERM to ${process}, and SIGKILL in ${graceMs} ms`,
    kill: `sending SIGKILL to ${process}`,
    warn: 'the program continues without it',
  }
  say(messageOf(error))
  say(reaction[onLost])
  if (onLost === 'term') command.terminate(graceMs)
  if (onLost === 'kill') command.signal('SIGKILL')
}

function quote(lockName: string): string {
  return JSON.stringify(lockName)
}
