// forceUnlock({ holder }): marks a holder, notifies it, and waits until it has released the lock.
import { toInteger } from '../../delivery/replies.js'
import { ClientClosedError, ConfigError, OutcomeUnknownError } from '../../errors.js'
import { userAtHost } from '../../platform.js'
import { sleep } from '../../util/sleep.js'
import { checkCount, checkOptionalBoolean, ownOptions } from '../../util/validate.js'
import { formatHolder } from '../../wire/holder.js'
import type { Named } from '../../wire/names.js'
import { inspect, inspectHolder, runScript } from '../inspection.js'
import { type Holder, type LockKind, transferScript } from '../kinds/lock-kind.js'
import type { LeaseContext } from '../lease.js'
import { type AuditEntry, type ForceOutcome, writeAudit } from './audit.js'
import { freeHolder } from './free.js'
import { deleteMark, type ForcedMark, MAX_GRACE_MS, parseMarked, REACTION_MS, setMark } from './mark.js'
import { Notices } from './notices.js'
import { beginQuarantine, endQuarantine } from './quarantine.js'

export interface ForceUnlockOptions {
  /** The holder to interrupt, as `getHolders()` returns it. If another one holds the lock already, nothing happens. */
  readonly holder: string
  /**
   * How long the holder's work may take to stop once its `signal` has aborted, ms; default 2,000, at most 60,000. Until it has
   * stopped, or this is over, nobody else gets the lock.
   */
  readonly graceMs?: number | undefined
  /** Why, for the holder's `LeaseLostError` and for the audit. */
  readonly reason?: string | undefined
  /** The operator, for the same; default `user@host` of this process. */
  readonly by?: string | undefined
  /** Whether to free the lock also if the holder does not react: it may be dead, or still at work. Default false. */
  readonly anyway?: boolean | undefined
  /**
   * With `anyway`: for how long nobody else gets the lock either once it is taken from a holder that did not react, ms; default
   * 0, at most 60,000. A holder that is alive notices its loss meanwhile: when it wakes up, or at its next renewal, which is
   * due after a third of its `lockWatchdogTimeoutMs`. Not for read and write locks, whose holds cannot be handed over.
   */
  readonly quarantineMs?: number | undefined
}

/** The request of an operator. */
interface ForceRequest {
  readonly mark: ForcedMark
  readonly anyway: boolean
  readonly quarantineMs: number
  /** This client's holder that keeps the lock during the quarantine; undefined without one. */
  readonly quarantineHolder: string | undefined
}

export interface ForceUnlockResult {
  readonly outcome: ForceOutcome
  /** The holder at the end: the same one if it was silent; another one, or undefined, if it was not held. */
  readonly holder?: Holder
}

const DEFAULT_GRACE_MS = 2_000
const MAX_QUARANTINE_MS = 60_000
/** How long the last command of the holder may take to arrive, ms. */
const MARGIN_MS = 500
/** Time between two inspections of the lock, ms. */
const MIN_PAUSE_MS = 2
const MAX_PAUSE_MS = 100
/** As in Redisson, also that of a write lock. */
const HOLDER = /^[\w-]{1,64}:[1-9]\d{0,18}(:write)?$/
const MAX_TEXT = 1_024

const KNOWN = { holder: 1, graceMs: 1, reason: 1, by: 1, anyway: 1, quarantineMs: 1 }

/** How long a holder that does not react is waited for, ms: until it can no longer find the mark, and its grace is over. */
export function reactionTimeout(graceMs: number): number {
  return REACTION_MS + graceMs + MARGIN_MS
}

/** Makes one holder give up a lock: marks it, notifies it, and waits until it has released the lock. */
export async function interruptHolder(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  options: ForceUnlockOptions,
): Promise<ForceUnlockResult> {
  const request = checked(context, kind, lock, options)
  const { mark, quarantineMs, quarantineHolder } = request
  const record = async (outcome: AuditEntry['outcome']): Promise<void> => {
    const { holder, by, reason } = mark
    const quarantine = outcome === 'freed' && quarantineHolder !== undefined ? { quarantineMs } : {}
    const time = new Date().toISOString()
    await writeAudit(context, lock, { time, holder, by, reason, outcome, ...quarantine })
  }
  let isMarked = false
  let outcome: ForceOutcome = 'not-held'
  try {
    const marked = await runScript(context, lock, 'forceUnlock', setMark(kind, lock.key, mark), parseMarked)
    isMarked = marked.isHeld
    if (isMarked) outcome = await endHolder(context, kind, lock, request, marked.earlier)
  } catch (error) {
    // The mark may have interrupted the holder, or the lock may be free.
    if (isMarked || error instanceof OutcomeUnknownError) void record('unknown')
    throw error
  }
  await record(outcome)
  if (outcome === 'freed' && quarantineHolder !== undefined) {
    await endQuarantine(context, kind, lock, quarantineHolder, quarantineMs)
  }
  const found = outcome !== 'released' && outcome !== 'freed' ? await holderOf(context, kind, lock) : undefined
  return found ? { outcome, holder: found } : { outcome }
}

async function endHolder(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  { mark, anyway, quarantineMs, quarantineHolder }: ForceRequest,
  earlier: ReturnType<typeof parseMarked>['earlier'],
): Promise<ForceOutcome> {
  const now = context.clock.now()
  // Its work keeps the grace that another operator has given it.
  const earlierEndsAt = earlier ? now - earlier.ageMs + reactionTimeout(earlier.mark.graceMs) : now
  const endsAt = Math.max(now + reactionTimeout(mark.graceMs), earlierEndsAt)
  const notices = new Notices(context, lock, mark.holder)
  const end = await endOf(context, kind, lock, mark.holder, endsAt, notices, anyway)
  if (end === 'released' || !anyway) {
    await unmark(context, lock, mark)
    return end
  }
  // The mark stays, also in place of an earlier one: it tells a holder that wakes up why it lost the lock.
  if (earlier) await runScript(context, lock, 'forceUnlock', setMark(kind, lock.key, mark, 0), parseMarked)
  const isEnded =
    quarantineHolder === undefined
      ? await freeHolder(context, kind, lock, mark.holder)
      : await beginQuarantine(context, kind, lock, mark.holder, quarantineHolder, quarantineMs)
  return isEnded ? 'freed' : 'released'
}

/**
 * Waits until a holder no longer holds the lock, until `endsAt` at the latest.
 * @param waitsForUnreachable  until then, as for one that listens
 */
async function endOf(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  holder: string,
  endsAt: number,
  notices: Notices,
  waitsForUnreachable: boolean,
): Promise<'released' | 'silent' | 'unreachable'> {
  const { clock } = context
  for (let pauseMs = MIN_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    await notices.send()
    if (!(await mayHold(context, kind, lock, holder))) return 'released'
    if (!waitsForUnreachable && notices.isUnreachable) return 'unreachable'
    if (clock.now() >= endsAt) return 'silent'
    await sleep(pauseMs, { clock })
  }
}

/** Whether it holds the lock, or Redis did not say so. @throws {ClientClosedError} this client is closed */
async function mayHold(context: LeaseContext, kind: LockKind, lock: Named, holder: string): Promise<boolean> {
  try {
    return (await inspectHolder(context, kind, lock, holder)) !== undefined
  } catch (error) {
    if (error instanceof ClientClosedError) throw error
    return true
  }
}

async function unmark(context: LeaseContext, lock: Named, mark: ForcedMark): Promise<void> {
  await runScript(context, lock, 'forceUnlock', deleteMark(lock.key, mark), toInteger)
}

async function holderOf(context: LeaseContext, kind: LockKind, lock: Named): Promise<Holder | undefined> {
  const found = await inspect(context, kind, lock).catch(() => undefined)
  return found?.holders[0]
}

function checked(
  context: LeaseContext,
  kind: LockKind,
  { name: lockName }: Named,
  options: ForceUnlockOptions,
): ForceRequest {
  if (kind.isDivisible) {
    const allowed = `a lock with one name, which a ${kind.title} is not; without options it frees the lock regardless of its holder`
    throw new ConfigError('forceUnlock', undefined, allowed, { lockName })
  }
  const own = ownOptions(options, KNOWN, lockName)
  const { holder, graceMs = DEFAULT_GRACE_MS, reason, by } = own
  const anyway = checkOptionalBoolean('anyway', own.anyway, lockName) ?? false
  const quarantineMs = checkCount('quarantineMs', own.quarantineMs ?? 0, 0, lockName, MAX_QUARANTINE_MS)
  if (quarantineMs > 0) {
    if (!anyway) throw new ConfigError('quarantineMs', undefined, 'anyway: true beside it', { lockName })
    transferScript(kind, 'quarantineMs', lockName)
  }
  return {
    mark: {
      id: context.random.uuid(),
      holder: checkForced(kind, holder, lockName),
      by: checkText('by', by, lockName) ?? userAtHost(),
      reason: checkText('reason', reason, lockName),
      graceMs: checkCount('graceMs', graceMs, 0, lockName, MAX_GRACE_MS),
    },
    anyway,
    quarantineMs,
    quarantineHolder:
      quarantineMs > 0 ? kind.holder(formatHolder(context.clientId, context.owners.next().id)) : undefined,
  }
}

/** Other libraries write any text as the holder of a string lock. */
function checkForced(kind: LockKind, holder: unknown, lockName: string): string {
  const isAnyText = kind.id === 'string'
  if (typeof holder === 'string' && (isAnyText ? holder !== '' : HOLDER.test(holder))) return holder
  const allowed = isAnyText ? 'the value of the key' : 'a holder as getHolders() returns it, "<client id>:<owner id>"'
  throw new ConfigError('holder', holder, allowed, { lockName })
}

function checkText(path: string, text: unknown, lockName: string): string | undefined {
  if (text === undefined || (typeof text === 'string' && text.length <= MAX_TEXT)) return text
  throw new ConfigError(path, text, `a text of at most ${MAX_TEXT} characters`, { lockName })
}
