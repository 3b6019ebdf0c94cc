// steal: takes a lock from its holders, and tells their clients.
import type { LeaseLostError } from '../errors.js'
import { writeAudit } from '../locks/breaking/audit.js'
import { freeHolder } from '../locks/breaking/free.js'
import { type ForcedMark, parseMarked, setMark } from '../locks/breaking/mark.js'
import { NOTICE_MS, Notices } from '../locks/breaking/notices.js'
import { inspect, runScript } from '../locks/inspection.js'
import type { LeaseContext } from '../locks/lease.js'
import type { Lock } from '../locks/lock.js'
import { userAtHost } from '../platform.js'
import { sleep } from '../util/sleep.js'
import { clientIdOf } from '../wire/holder.js'

/** The reason in the mark of a stolen lock. */
const STOLEN = 'stolen by client.locks.request({ steal: true })'

/** The error of a request whose lock another one has stolen; undefined: it was lost in another way. */
export function stolenError({ forced }: LeaseLostError): DOMException | undefined {
  if (forced?.reason !== STOLEN) return undefined
  return new DOMException("The lock was stolen by another request with the 'steal' option", 'AbortError')
}

/**
 * Frees a lock from all who hold it now, but the thief. Each is marked before, so that its client can tell a theft from a loss.
 * @param sides  of the lock
 * @param thief  its holder, which may be granted meanwhile
 * @throws as `forceUnlock`
 */
export async function freeForThief(
  context: LeaseContext,
  { read, write }: { readonly read: Lock; readonly write: Lock },
  thief: string,
): Promise<void> {
  const { blockers } = await inspect(context, write.kind, write, { operation: 'steal', listsAll: true })
  const others = (blockers?.holders ?? []).filter(({ holder }) => holder !== thief)
  const taken = others.filter(({ holder }) => !isOffer(context, write.key, holder))
  await Promise.all(taken.map(({ holder, mode }) => free(context, mode === 'write' ? write : read, holder)))
}

/** Whether this client was offered the lock, and has not taken it yet. */
function isOffer(context: LeaseContext, key: string, holder: string): boolean {
  return clientIdOf(holder) === context.clientId && context.leases.find(key, holder) === undefined
}

async function free(context: LeaseContext, lock: Lock, holder: string): Promise<void> {
  const by = userAtHost()
  const mark: ForcedMark = { id: context.random.uuid(), holder, by, reason: STOLEN, graceMs: 0 }
  const { isHeld } = await runScript(context, lock, 'steal', setMark(lock.kind, lock.key, mark, 0), parseMarked)
  if (!isHeld) return
  // In this client the holds end with this, named as stolen. Another client reads the mark now, or when it finds the holder
  // gone.
  const notices = new Notices(context, lock, holder)
  await notices.send()
  void repeat(context, notices)
  const isFreed = await freeHolder(context, lock.kind, lock, holder)
  const outcome = isFreed ? 'freed' : 'released'
  await writeAudit(context, lock, { time: new Date().toISOString(), holder, by, reason: STOLEN, outcome })
}

/** The holder's client may be subscribing. */
async function repeat({ clock }: LeaseContext, notices: Notices): Promise<void> {
  while (!notices.isReceived && !notices.isUnreachable) {
    await sleep(NOTICE_MS, { clock, keepAlive: false })
    await notices.send()
  }
}
