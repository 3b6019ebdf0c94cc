// The error.type of an error.
import type { HoldfastChannels } from '../locks/reporting/observation.js'

/** OpenTelemetry's name for an error that has no type of its own. */
const OTHER = '_OTHER'

/** The `error.type` of a request that was missed. */
export function missTypeOf({ reason, error }: HoldfastChannels['holdfast:request:miss']): string {
  if (reason === 'timeout') return 'LOCK_WAIT_TIMEOUT'
  return reason === 'aborted' ? reason : errorTypeOf(error)
}

/** Its code, or the first word of an error reply of Redis, such as `NOPERM`: never a text of unlimited variety. */
export function errorTypeOf(error: unknown): string {
  if (!(error instanceof Error)) return OTHER
  const { code } = error as { code?: unknown }
  if (typeof code === 'string' && /^\w{1,60}$/.test(code)) return code
  return /^[A-Z]{2,20}(?= |$)/.exec(error.message)?.[0] ?? OTHER
}
