import { toWords } from '../delivery/replies.js'
import { clientWarning, messageOf } from '../errors.js'
import { forcedRecord } from '../lua/generated.js'
import { AUDIT_KEY } from '../wire/keys.js'
import type { Context } from './context.js'

/** How many entries Redis keeps. */
const MAX_ENTRIES = 1_000

/**
 * What became of a forced release.
 * - `released`: the holder released the lock, because it was interrupted or because it was done; or its lease ended
 * - `freed`: it did not react, and `anyway` freed the lock
 * - `silent`: it did not react, and nothing has changed
 * - `not-held`: that holder did not hold the lock, and nothing has changed
 */
export type ForceOutcome = 'released' | 'freed' | 'silent' | 'not-held'

/** One call of `forceUnlock({ holder })`, by any client. */
export interface AuditEntry {
  /** When the hold ended, by the clock of the operator's machine, ISO 8601. */
  readonly time: string
  readonly lock: string
  readonly holder: string
  readonly by: string
  readonly reason?: string | undefined
  readonly outcome: ForceOutcome
  /** If it was `freed` with a quarantine: for how long nobody else got it from then on, ms. */
  readonly quarantineMs?: number | undefined
}

/** Adds an entry. If that fails, what it reports has happened all the same, and the client emits a warning. */
export async function writeAudit(context: Context, entry: AuditEntry): Promise<void> {
  const { scripts } = context
  try {
    await scripts.run(forcedRecord(AUDIT_KEY, JSON.stringify(entry), MAX_ENTRIES - 2))
  } catch (error) {
    const message =
      `The forced release of ${JSON.stringify(entry.lock)} (${entry.outcome}) could not be recorded in ${AUDIT_KEY}: ` +
      messageOf(error)
    context.emit('warning', clientWarning('AUDIT_FAILED', message, { cause: error }))
  }
}

/**
 * The newest 1,000 entries, the latest first.
 * @throws as `Scripts.ask`
 */
export async function readAudit({ scripts }: Context): Promise<AuditEntry[]> {
  return toWords(await scripts.ask(['LRANGE', AUDIT_KEY, '0', String(MAX_ENTRIES - 1)], AUDIT_KEY)).flatMap(parse)
}

function parse(line: string): AuditEntry[] {
  try {
    const { time, lock, holder, by, reason, outcome, quarantineMs } = JSON.parse(line) as Record<string, unknown>
    const entry = { time, lock, holder, by, outcome }
    if (!Object.values(entry).every((text) => typeof text === 'string')) return []
    const quarantine = typeof quarantineMs === 'number' ? { quarantineMs } : {}
    return [{ ...(entry as AuditEntry), ...(typeof reason === 'string' ? { reason } : {}), ...quarantine }]
  } catch {
    return []
  }
}
