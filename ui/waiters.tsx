/** The waiters of a lock, in the order of their turns as far as there is one. */
import type { LockRow, WaiterRow } from '../src/dashboard/api.js'
import { isToWrite } from '../src/fleet/lock-info.js'
import { Elapsed, Remaining } from './counters.js'
import { formatCount, plural, shownName, visible, whoIs } from './format.js'
import { Status } from './status.js'

const MAX_WAITERS = 50
const MAX_LABEL = 120

export function Waiters({ lock, readAt }: { lock: LockRow; readAt: number }) {
  const { waiters, otherListeners } = lock
  if (waiters.length === 0 && otherListeners === 0) return null
  return (
    <section>
      <h3>Waiting</h3>
      {waiters.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Turn</th>
              <th scope="col">Waiter</th>
              <th scope="col">Waits</th>
              <th scope="col">Gives up in</th>
            </tr>
          </thead>
          <tbody>
            {waiters.slice(0, MAX_WAITERS).map((waiter, index) => (
              <Waiter key={`${waiter.client?.id}:${waiter.holder}:${index}`} waiter={waiter} readAt={readAt} />
            ))}
          </tbody>
        </table>
      )}
      {waiters.length > MAX_WAITERS && <p class="muted">and {plural(waiters.length - MAX_WAITERS, 'waiter')} more</p>}
      {otherListeners > 0 && (
        <p class="muted">
          {otherListeners === 1 ? '1 other process listens' : `${formatCount(otherListeners)} other processes listen`}:
          Redisson, or an older Holdfast.
        </p>
      )}
    </section>
  )
}

function Waiter({ waiter, readAt }: { waiter: WaiterRow; readAt: number }) {
  const { position, priority, permits, client, holder, label, chain, waitedMs, givesUpInMs, status } = waiter
  return (
    <tr>
      <td class="num">{position ?? '–'}</td>
      <td>
        <div class="holder">
          <Status status={status} />
          <bdi>{whoIs(client, holder)}</bdi>
        </div>
        {isToWrite(waiter) && <div class="muted">to write</div>}
        {permits !== undefined && <div class="muted">for {plural(permits, 'permit')}</div>}
        {priority !== undefined && <div class="muted">priority {priority}</div>}
        {label !== undefined && <div class="muted">{visible(label, MAX_LABEL)}</div>}
        {chain.length > 0 && (
          <div class="muted">
            holds <code>{chain.map(({ lock }) => shownName(lock)).join(', ')}</code>
          </div>
        )}
      </td>
      <td>{waitedMs === undefined ? '–' : <Elapsed since={readAt - waitedMs} />}</td>
      <td>{givesUpInMs === undefined ? '–' : <Remaining until={readAt + givesUpInMs} />}</td>
    </tr>
  )
}
