import type { Context } from './context.js'

/**
 * Whether a command that takes something may be sent at once: there is room for the lease that it asks for, so that it does
 * not run out on the way; and it is known which server grants it, if that has to be confirmed there.
 * @param leaseTimeMs  absent: it asks for no lease
 */
export function isReady({ scripts, replication }: Context, name: string, leaseTimeMs?: number): boolean {
  return (leaseTimeMs === undefined || scripts.admission.hasRoom(leaseTimeMs)) && replication.isLocated(name)
}

/**
 * Resolves when it may be sent. By then the caller may be gone, or its time over.
 * @throws {ClientClosedError} the client was closed meanwhile
 */
export async function untilReady(context: Context, name: string, leaseTimeMs?: number): Promise<void> {
  const { scripts, replication } = context
  if (leaseTimeMs !== undefined && !scripts.admission.hasRoom(leaseTimeMs)) await scripts.admission.room(leaseTimeMs)
  if (!replication.isLocated(name)) await scripts.locate(name)
  context.assertOpen(name)
}
