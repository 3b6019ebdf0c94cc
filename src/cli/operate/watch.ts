// `holdfast watch`.
import type { HolderInfo, LockInfo, WaiterInfo } from '../../fleet/lock-info.js'
import { onAbort } from '../../util/abort.js'
import { durationOf } from '../../util/duration-text.js'
import { sleep } from '../../util/sleep.js'
import { word } from '../../util/visible.js'
import { clockTime } from '../local-time.js'
import { nameOf, STATUSES, waitingCount } from './describe.js'
import type { Session } from './view.js'

/** Minimum time between two refreshes, ms: at most 20 a second. */
const MIN_PAUSE_MS = 50
/** Time between two refreshes for changes without a message, such as the end of a lease, ms. */
const INTERVAL_MS = 1_000
/** The same while Redis sends no messages, ms. */
const DEAF_INTERVAL_MS = 250

/** A change of a lock between two refreshes. */
interface Change {
  event: 'held' | 'ended' | 'waiting' | 'wait-ended'
  of: HolderInfo | WaiterInfo
}

/** `holdfast watch`: a line for each change at a lock, from now on. @returns the exit code */
export async function watch(session: Session): Promise<number> {
  const { fleet, options, terminal, now } = session
  let before: Pick<LockInfo, 'holders' | 'waiters'> = { holders: [], waiters: [] }
  let isFirst = true
  await refreshOnMessage(session, async () => {
    const lock = await fleet.inspect(options.subject, { timeoutMs: options.timeoutMs })
    const changes = changesBetween(before, lock)
    for (const { event, of } of changes) {
      if (options.json) terminal.printJson({ at: new Date(now()).toISOString(), lock: lock.name, event, of })
      else terminal.print(`${clockTime(now())}  ${sentenceOf(event, of, terminal.paint.bind(terminal))}`)
    }
    const isFree = lock.holders.length === 0 && (isFirst || changes.some(({ event }) => event === 'ended'))
    if (isFree && !options.json) terminal.print(`${clockTime(now())}  free, ${waitingCount(lock)} waiting`)
    before = lock
    isFirst = false
  })
  return 0
}

/**
 * Refreshes at once after each message of the lock, and then ever less often, because the grant that follows a release has no
 * message. Messages that arrive during a refresh cause one more.
 */
async function refreshOnMessage({ fleet, options, signal }: Session, refresh: () => Promise<void>): Promise<void> {
  let woken = new AbortController()
  const listening = fleet.subscribeToLock(options.subject, () => woken.abort())
  const stopListening = onAbort(signal, () => woken.abort())
  try {
    let pauseMs = Number.POSITIVE_INFINITY
    while (!signal.aborted) {
      const startedAt = performance.now()
      woken = new AbortController()
      await refresh()
      const restOf = (ms: number): number => Math.max(0, startedAt + ms - performance.now())
      await sleep(restOf(MIN_PAUSE_MS), { signal })
      const maxMs = options.intervalMs ?? (listening.isLive ? INTERVAL_MS : DEAF_INTERVAL_MS)
      await sleep(restOf(Math.min(pauseMs, maxMs)), { signal: woken.signal })
      pauseMs = woken.signal.aborted ? MIN_PAUSE_MS : 2 * pauseMs
    }
  } finally {
    stopListening()
    listening.leave()
  }
}

/** By how much two durations may seem to be out of order, ms. */
const ROUNDING_MS = 2

type Part = 'holders' | 'waiters'

function changesBetween(before: Pick<LockInfo, Part>, lock: Pick<LockInfo, Part>): Change[] {
  const handedOff = new Set(before.holders.filter((hold) => isHandedOff(hold, lock.holders)).map(keyOf))
  const missingIn = <T extends HolderInfo | WaiterInfo>(others: readonly T[], ones: readonly T[]): T[] => {
    const known = new Set(others.map(keyOf))
    return ones.filter((one) => !known.has(keyOf(one)) || handedOff.has(keyOf(one)))
  }
  const change =
    (event: Change['event']) =>
    (of: Change['of']): Change => ({ event, of })
  return [
    ...missingIn(lock.holders, before.holders).map(change('ended')),
    ...missingIn(lock.waiters, before.waiters).map(change('wait-ended')),
    ...missingIn(before.holders, lock.holders).map(change('held')),
    ...missingIn(before.waiters, lock.waiters).map(change('waiting')),
  ]
}

/** Whether its client has passed the lock on to another of its calls: in Redis the holder stays the same. */
function isHandedOff({ holder, status, heldMs = 0 }: HolderInfo, now: readonly HolderInfo[]): boolean {
  const same = now.find((other) => other.holder === holder)
  if (status !== 'responding' || same?.status !== 'responding' || same.heldMs === undefined) return false
  return same.heldMs + ROUNDING_MS < heldMs
}

function keyOf({ client, holder, ...other }: HolderInfo | WaiterInfo): string {
  return 'wait' in other ? `${client?.id} ${other.wait}` : `${holder}`
}

function sentenceOf(event: Change['event'], of: Change['of'], paint: Session['terminal']['paint']): string {
  const { sign, style } = STATUSES[of.status]
  const who = `${nameOf(of)} ${paint(style, sign)}`
  const purpose = of.label === undefined ? '' : `, for ${word(of.label)}`
  if (event === 'waiting') return `${who} is waiting${purpose}`
  if (event === 'wait-ended') return `${who} is no longer waiting`
  if (event === 'held') return `held by ${who}${purpose}`
  const heldMs = 'heldMs' in of ? of.heldMs : undefined
  return `no longer held by ${who}${heldMs === undefined ? '' : `, after about ${durationOf(heldMs)}`}`
}
