// The quarantine after a forced release: a holder of this client has the lock, so that nobody else gets it.
import { sleep } from '../../util/sleep.js'
import type { Named } from '../../wire/names.js'
import { runScript } from '../inspection.js'
import { type LockKind, transferScript } from '../kinds/lock-kind.js'
import type { LeaseContext } from '../lease.js'
import { freeHolder } from './free.js'

/** How long this client's last command may take to arrive, ms. */
const MARGIN_MS = 500

/**
 * Takes the lock from its holder for a holder of this client, which nothing renews: should this process die, its lease ends
 * the lock.
 * @returns false: it no longer held the lock
 */
export async function beginQuarantine(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  from: string,
  holder: string,
  quarantineMs: number,
): Promise<boolean> {
  const adopt = transferScript(kind, 'quarantineMs', lock.name)
  const leaseTimeMs = quarantineMs + MARGIN_MS
  const call = adopt({ key: lock.key, holder, leaseTimeMs, waitTimeMs: 0 }, from)
  return await runScript(context, lock, 'forceUnlock', call, (reply) => 'isGranted' in kind.parseReply(reply, lock))
}

/** Frees the lock when the quarantine is over. */
export async function endQuarantine(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  holder: string,
  quarantineMs: number,
): Promise<void> {
  await sleep(quarantineMs, { clock: context.clock })
  await freeHolder(context, kind, lock, holder).catch(() => {}) // its lease ends then
}
