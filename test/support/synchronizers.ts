import type { AnyLab } from './lab.js'
import { SCRIPT_NAMES } from './script-names.js'
import type { Match } from './tcp-proxy.js'
import { waitUntil } from './wait-until.js'

/** The stored replies of operations, which a lost reply may leave for 20 minutes. */
export const STORED_REPLIES = /^holdfast_idempotency:/

/** Less than any poll: who is served by then was woken. */
export const WOKEN_MS = 3_000

/** Resolves when so many channels are listened on. */
export async function listening(lab: AnyLab, count = 1): Promise<void> {
  const message = `${count} channels are listened on`
  await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === count, { message })
}

/** Resolves when the stored replies of all operations are deleted. */
export async function repliesForgotten(lab: AnyLab): Promise<void> {
  const message = 'the stored replies of operations are deleted'
  await waitUntil(async () => (await lab.server.admin.keys('holdfast_idempotency:*')).length === 0, { message })
}

/** Lets a random part of a round trip pass. */
export async function moment(): Promise<void> {
  const until = performance.now() + Math.random() * 1.5
  while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
}

/** The requests that run this script (`semaphore/acquire`), for the faults of a proxy. Redis must know it by then. */
export function requestOf(script: string): Match {
  return (request) => SCRIPT_NAMES.get(/^EVALSHA (\S+) /.exec(request)?.[1] ?? '') === script
}
