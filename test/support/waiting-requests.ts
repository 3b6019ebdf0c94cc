import { subscribe } from 'node:diagnostics_channel'
import type { HoldfastChannels } from '../../src/locks/reporting/observation.js'

type Request = HoldfastChannels['holdfast:request:wait']

const waiting = new Set<Request>()
let isWatching = false

/** From now on `isWaiting` knows who waits for locks in this process. */
export function watchRequests(): void {
  if (isWatching) return
  isWatching = true
  subscribe('holdfast:request:wait', (request) => waiting.add(request as Request))
  for (const end of ['grant', 'miss']) {
    subscribe(`holdfast:request:${end}`, (request) => waiting.delete(request as Request))
  }
}

/** Whether a request of one of these clients has been refused, and waits. */
export function isWaiting(clientIds: ReadonlySet<string>): boolean {
  return [...waiting].some(({ clientId }) => clientIds.has(clientId))
}
