// When an acquiring command may be sent.
import type { Named } from '../wire/names.js'
import type { Replication } from './replica-acks.js'
import type { Scripts } from './scripts.js'

/** The part of a client that an acquiring command needs. */
interface AcquiringClient {
  readonly scripts: Scripts
  readonly replication: Replication
  assertOpen(name: string): void
}

/**
 * Before a command that takes something may be sent, there has to be room for the lease that it asks for, so that the lease
 * does not run out on the way; and it has to be known which server grants it, if the grant is to be confirmed there.
 * @param leaseTimeMs  absent: it asks for no lease
 * @returns undefined: it may be sent now. Else resolves when it may; by then the caller may have left, or its time be over
 * @throws {ClientClosedError} the client was closed meanwhile
 */
export function untilReady(client: AcquiringClient, lock: Named, leaseTimeMs?: number): Promise<void> | undefined {
  const { scripts, replication } = client
  const hasRoom = leaseTimeMs === undefined || scripts.admission.hasRoom(leaseTimeMs)
  if (hasRoom && (!replication.isWanted || replication.isLocated(lock.key))) return undefined
  return prepare(client, lock, hasRoom ? undefined : leaseTimeMs)
}

/** @param leaseTimeMs  of the lease to wait for room for, if any */
async function prepare(client: AcquiringClient, lock: Named, leaseTimeMs: number | undefined): Promise<void> {
  const { scripts, replication } = client
  if (leaseTimeMs !== undefined) await scripts.admission.room(leaseTimeMs)
  if (!replication.isLocated(lock.key)) await scripts.locate(lock.key)
  client.assertOpen(lock.name)
}
