// Records a run, for `holdfast jobs`.
import type { Client } from '../../client.js'
import { messageOf } from '../../errors.js'
import type { Hold } from '../../locks/hold.js'
import { EXIT } from '../exit-codes.js'
import { say } from '../stderr.js'
import type { RunOptions } from './options.js'

/** How long to wait for the last reply if the lock was lost, ms: maybe with Redis. Otherwise the release waits as long. */
const LAST_MS = 1_000

/** What `holdfast jobs` shows of this run. No failure to record it changes the run: it is a warning, once. */
export class JobRecord {
  readonly #client: Client
  readonly #options: RunOptions
  #holder: string | undefined
  #startedAt = 0
  #failure: unknown

  constructor(client: Client, options: RunOptions) {
    this.#client = client
    this.#options = options
  }

  /** The program has been started. */
  started({ holder }: Hold): void {
    this.#holder = holder
    this.#startedAt = performance.now()
    void this.#write()
  }

  /** For how long it has run, ms. */
  get ranMs(): number {
    return performance.now() - this.#startedAt
  }

  /** The program has ended. Resolves when that is recorded, or cannot be. */
  async ended(exitCode: number): Promise<void> {
    await this.#write(exitCode, exitCode === EXIT.lost ? LAST_MS : undefined)
  }

  /** The lock was taken, so the program has not been started. A job that is expected is known from then on. */
  async skipped(): Promise<void> {
    if (this.#options.everyMs !== undefined) await this.#write()
  }

  /** Says why the run is not recorded, if it is not. */
  warn(): void {
    if (this.#failure === undefined) return
    say(`warning: holdfast jobs may not show this run: ${messageOf(this.#failure)} (--no-record turns this off)`)
  }

  async #write(exitCode?: number, timeoutMs?: number): Promise<void> {
    const { lockName: name, label, everyMs, isRecorded } = this.#options
    if (!isRecorded) return
    const holder = this.#holder
    const ranMs = holder === undefined ? 0 : this.ranMs
    try {
      await this.#client.fleet.recordJob({ name, holder, label, everyMs, ranMs, exitCode }, timeoutMs)
      this.#failure = undefined // the last report has all that the first had
    } catch (error) {
      this.#failure ??= error
    }
  }
}
