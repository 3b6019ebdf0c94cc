import type { AnyLab } from './lab.js'
import { SCRIPT_NAMES } from './script-names.js'
import type { Match } from './tcp-proxy.js'
import { waitUntil } from './wait-until.js'

/** What operations with lost replies may leave, for 20 minutes. */
export const RECEIPTS = /^holdfast_receipts:/

/** Less than any poll: who is served by then was woken. */
export const WOKEN_MS = 3_000

/** Resolves when so many channels are listened on. */
export async function listening(lab: AnyLab, count = 1): Promise<void> {
  const message = `${count} channels are listened on`
  await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === count, { message })
}

/** Resolves when Redis was told to forget all operations that were answered. */
export async function receiptsForgotten(lab: AnyLab): Promise<void> {
  const message = 'the receipts of answered operations are forgotten'
  await waitUntil(async () => (await lab.server.admin.keys('holdfast_receipts:*')).length === 0, { message })
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
