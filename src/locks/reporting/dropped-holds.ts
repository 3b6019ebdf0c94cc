// Notices holds that the program dropped without unlock().
import { emitWarning } from '../../platform.js'
import { monotonicNow } from '../../util/real-time.js'
import { holdDropped } from '../../warnings.js'
import type { Context } from '../context.js'
import type { Hold, HoldTerms } from '../hold.js'

/** Minimum time between two watched holds, ms: registering one costs too much for every uncontended lock. */
const MIN_GAP_MS = 100

let watchedAt = Number.NEGATIVE_INFINITY

interface Watched {
  readonly context: Context
  readonly hold: Hold
  readonly terms: HoldTerms
  /** The stack of the call that took it. */
  readonly stack: string
}

/** Runs when a caller's hold was collected. The held value refers to the hold itself, so it does not keep that object alive. */
const dropped = new FinalizationRegistry<Watched>((watched) => {
  const { context, hold } = watched
  if (!hold.isLive) return
  const warning = warningOf(watched)
  if (!context.emit('warning', warning)) emitWarning(warning)
})

/** Watches whether the caller drops the hold without releasing it. @returns the object for the caller */
export function watchDropped<H extends Hold>(context: Context, hold: H, terms: HoldTerms): H {
  const now = monotonicNow()
  // One that was lost before the caller got it was reported to `lost` as the object that it is.
  if (now - watchedAt < MIN_GAP_MS || !hold.isLive) return hold
  watchedAt = now
  // As a text: the frames themselves refer to objects of the program, perhaps to the one that has the hold.
  const { stack = '' } = new Error()
  const callerHold = hold.newCallerHold()
  dropped.register(callerHold, { context, hold, terms, stack })
  return callerHold
}

function warningOf({ context, hold, terms, stack }: Watched): Error {
  const { leaseTimeMs, maxHoldMs } = terms
  const { clock } = context
  let ends: { what: string; inMs: number } | undefined
  if (leaseTimeMs !== undefined) ends = { what: 'its lease', inMs: hold.remainingMs() }
  else if (maxHoldMs !== undefined) ends = { what: 'maxHoldMs', inMs: hold.grantedAt + maxHoldMs - clock.now() }
  const frames = stack.split('\n').slice(1)
  const callers = frames.filter((line) => !/watchDropped|#inScope|processTicksAndRejections/.test(line)).join('\n')
  return holdDropped(hold, Date.now() - hold.acquiredAt, ends, callers)
}
