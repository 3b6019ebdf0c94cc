/** Cells of the table of locks that the details show as well. */
import type { ComponentChildren } from 'preact'
import { mayHaveMoreWaiters, takenPermits, countersOf as textOf } from '../src/fleet/lock-info.js'
import { LeaseBar, Remaining } from './counters.js'
import { formatCount } from './format.js'
import type { Row } from './row.js'
import { waitingOf } from './selection.js'

export function Lease({ row }: { row: Row }) {
  if (row.lock.holders.length === 0) return null
  if (row.leaseEndsAt === undefined) return <span class="warning">no expiry</span>
  return (
    <span class="lease">
      <LeaseBar until={row.leaseEndsAt} fullMs={row.leaseFullMs} />
      <Remaining until={row.leaseEndsAt} />
    </span>
  )
}

export function Waiting({ lock }: { lock: Row['lock'] }) {
  const count = waitingOf(lock)
  if (count === 0) return <span class="muted none">–</span>
  // A listener is a process, in which any number may wait.
  const isExact = lock.otherListeners === 0 && !mayHaveMoreWaiters(lock)
  return <span class="num">{`${isExact ? '' : '≥ '}${formatCount(count)}`}</span>
}

/** The most permits that are drawn. */
const MAX_DRAWN = 12

/** What is left of a semaphore or latch, with a picture of permits: taken ones are filled. Undefined: it is a lock. */
export function countersOf(lock: Row['lock']): ComponentChildren | undefined {
  const { freePermits } = lock
  const [text, taken = 0] = [textOf(lock), takenPermits(lock)]
  if (freePermits === undefined || freePermits + taken > MAX_DRAWN) return text
  return (
    <>
      <span aria-hidden="true">
        {'■'.repeat(taken)}
        {'□'.repeat(freePermits)}
      </span>{' '}
      {text}
    </>
  )
}
