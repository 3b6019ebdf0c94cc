import type { Random } from '../../src/util/random.js'
import type { ThreadTerms } from '../../src/watchdog/thread-client.js'

export const PERIOD_MS = 1_000

/** Random pauses come out in the middle. */
export const random: Random = { uuid: () => '', fraction: () => 0.5 }

/** The file of a thread with this source. */
export function fileOf(source: string): string {
  return `data:text/javascript,${encodeURIComponent(source)}`
}

/** What a client of the watchdog thread is opened with. */
export function termsWith(file: string): ThreadTerms {
  return {
    periodMs: PERIOD_MS,
    batchSize: 100,
    connection: 'redis://127.0.0.1',
    maxBlockMs: 60_000,
    commandTimeoutMs: 3_000,
    leaseTimeMs: 3 * PERIOD_MS,
    file,
  }
}
