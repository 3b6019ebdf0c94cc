// Which locks were forced, by whom and why.
import { Buffer } from 'node:buffer'
import { isLasting, toWords } from '../../delivery/replies.js'
import { forcedRecord } from '../../lua/generated.js'
import { auditFailed } from '../../warnings.js'
import { AUDIT_KEY } from '../../wire/keys.js'
import { type Named, unmappedName } from '../../wire/names.js'
import type { Context } from '../context.js'

/** How many entries Redis keeps. */
const MAX_ENTRIES = 1_000
/** Maximum size of an entry, in bytes: names, holders and reasons can be of any length, and a reader of the audit reads all entries. */
const MAX_ENTRY_BYTES = 2_048

/**
 * The outcome of a forced release.
 * - `released`: the holder released the lock, because it was interrupted or because it was done; or its lease ended
 * - `freed`: it did not react, and `anyway` freed the lock
 * - `silent`: it did not react, and nothing has changed
 * - `unreachable`: nobody listens on its inbox, so that it cannot be notified, and nothing has changed
 * - `not-held`: that holder did not hold the lock, and nothing has changed
 */
export type ForceOutcome = 'released' | 'freed' | 'silent' | 'unreachable' | 'not-held'

/** One call of `forceUnlock({ holder })`, by any client. */
export interface AuditEntry {
  /** When the hold ended, by the clock of the operator's machine, ISO 8601. */
  readonly time: string
  readonly lock: string
  readonly holder: string
  readonly by: string
  readonly reason?: string | undefined
  /** `unknown`: Redis did not reply, or the client was closed: the holder may have been interrupted, or the lock freed. */
  readonly outcome: ForceOutcome | 'unknown'
  /** If it was `freed` with a quarantine: for how long nobody else got it from then on, ms. */
  readonly quarantineMs?: number | undefined
}

/**
 * Adds an entry. Resolves after the first try; without a reply it is repeated in the background. If that fails, what it
 * reports has happened all the same, and the client emits a warning.
 */
export async function writeAudit(context: Context, lock: Named, about: Omit<AuditEntry, 'lock'>): Promise<void> {
  const { time, ...rest } = about
  const entry = { time, lock: lock.key, ...rest }
  const { scripts, backgroundRetries } = context
  const call = forcedRecord(AUDIT_KEY, textOf(entry), MAX_ENTRIES - 2)
  let failure: unknown
  const write = async (timeoutMs?: number): Promise<unknown> => {
    try {
      const reply = await scripts.run(call, timeoutMs)
      failure = undefined
      return reply
    } catch (error) {
      failure = error
      throw error
    }
  }
  const warn = (): void => {
    if (failure === undefined) return
    context.emit('warning', auditFailed(lock.name, entry.outcome, AUDIT_KEY, failure))
  }
  await write().catch((error: unknown) => {
    if (isLasting(error)) return warn()
    void backgroundRetries.retryInBackground(write, Number.POSITIVE_INFINITY).then(warn)
  })
}

/** As JSON; of an entry that is too long, every text is cut to the same length. */
function textOf(entry: AuditEntry): string {
  let text = JSON.stringify(entry)
  for (let most = MAX_ENTRY_BYTES / 4; Buffer.byteLength(text) > MAX_ENTRY_BYTES; most /= 2) {
    text = JSON.stringify(entry, (_, value: unknown) =>
      typeof value === 'string' && value.length > most ? `${value.slice(0, most)}…` : value,
    )
  }
  return text
}

/**
 * The newest 1,000 entries, the latest first.
 * @throws as `Scripts.command`
 */
export async function readAudit({ scripts, nameMapper }: Context): Promise<AuditEntry[]> {
  const lines = toWords(await scripts.command(['LRANGE', AUDIT_KEY, '0', String(MAX_ENTRIES - 1)], AUDIT_KEY))
  return lines.flatMap(parse).map((entry) => ({ ...entry, lock: unmappedName(nameMapper, entry.lock) }))
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
