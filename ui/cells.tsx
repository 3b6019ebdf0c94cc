/** Cells of the table of locks that the details show as well. */
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
  if (count === 0) return <span class="muted">–</span>
  // A listener is a process, in which any number may wait.
  return <span class="num">{`${lock.otherListeners > 0 ? '≥ ' : ''}${formatCount(count)}`}</span>
}
