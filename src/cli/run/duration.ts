// Durations on the command line, such as 30s.
import { MAX_DURATION_MS } from '../../util/validate.js'
import { UsageError } from '../exit-codes.js'

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/**
 * `500ms`, `1.5s`, `5m`, `2h` in ms. A number without a unit is rejected, except 0: some users mean ms, others seconds.
 * @throws {UsageError} naming `option`
 */
export function parseDuration(option: string, text: string, least: number): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text) ?? []
  const ms = unit === undefined ? Number(amount) : Math.round(Number(amount) * UNIT_MS[unit as keyof typeof UNIT_MS])
  if (unit === undefined && ms > 0) {
    throw new UsageError(`${option}: ${text} has no unit; use ${text}s for seconds or ${text}ms for milliseconds`)
  }
  if (Number.isNaN(ms)) {
    throw new UsageError(`${option}: expected a duration like 500ms, 30s, 5m or 2h, not ${JSON.stringify(text)}`)
  }
  if (ms < least) throw new UsageError(`${option}: expected at least ${least}ms, not ${text}`)
  if (ms > MAX_DURATION_MS) throw new UsageError(`${option}: expected at most 100 years, not ${text}`)
  return ms
}
