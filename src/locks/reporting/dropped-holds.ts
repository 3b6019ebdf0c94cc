import { clientWarning } from '../../errors.js'
import { durationOf } from '../../util/duration-text.js'
import { monotonicNow } from '../../util/real-time.js'
import type { Context } from '../context.js'
import type { Hold, HoldTerms } from '../hold.js'

/** A hold is watched if the last one was that long before, ms: it costs more than taking an uncontended lock may. */
const LEAST_GAP_MS = 20

let watchedAt = Number.NEGATIVE_INFINITY

interface Watched {
  readonly context: Context
  readonly hold: Hold
  readonly terms: HoldTerms
  /** Of the call that took it. */
  readonly stack: string
}

/** Calls back once the garbage collector has found the caller's object unreachable; what it is given refers to another one. */
const dropped = new FinalizationRegistry<Watched>((watched) => {
  const { context, hold } = watched
  if (!hold.isLive) return
  const warning = holdDropped(watched)
  if (!context.emit('warning', warning)) process.emitWarning(warning)
})

/** Watches whether the caller drops the hold without releasing it. @returns the object for the caller */
export function watchDropped<H extends Hold>(context: Context, hold: H, terms: HoldTerms): H {
  const now = monotonicNow()
  // One that was lost before the caller got it was reported to `lost` as the object that it is.
  if (now - watchedAt < LEAST_GAP_MS || !hold.isLive) return hold
  watchedAt = now
  // As a text: the frames themselves refer to objects of the program, perhaps to the one that has the hold.
  const { stack = '' } = new Error()
  const handle = hold.handle()
  dropped.register(handle, { context, hold, terms, stack })
  return handle
}

function holdDropped({ context, hold, terms, stack }: Watched): Error {
  const { lockName, label, acquiredAt, grantedAt } = hold
  const about = label === undefined ? '' : ` (label ${JSON.stringify(label)})`
  const frames = stack.split('\n').slice(1)
  const callers = frames.filter((line) => !/watchDropped|#inScope|processTicksAndRejections/.test(line)).join('\n')
  const message =
    `The hold of ${JSON.stringify(lockName)}${about} was dropped without unlock(): it was taken ` +
    `${Math.round((Date.now() - acquiredAt) / 1_000)} s ago and ${staysHeld()}. Use withLock(fn), or \`await using hold = ` +
    `await lock.lock()\`. It was taken at\n${callers}\nand the program has no reference to it any more`
  return clientWarning('HOLD_DROPPED', message)

  function staysHeld(): string {
    const { leaseTimeMs, maxHoldMs } = terms
    if (leaseTimeMs === undefined && maxHoldMs === undefined) return 'stays held, so nobody else gets it'
    const leftMs = leaseTimeMs === undefined ? grantedAt + (maxHoldMs ?? 0) - context.clock.now() : hold.remainingMs()
    const what = leaseTimeMs === undefined ? 'maxHoldMs' : 'its lease'
    return `nobody else gets it until ${what} ends, in ${durationOf(Math.max(0, leftMs))}`
  }
}
