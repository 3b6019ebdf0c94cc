// Reports a wait that takes long.
import type { WaitDetails } from '../../holder-info.js'
import { emitWarning } from '../../platform.js'
import type { Context, LongWaitDetails } from '../context.js'
import type { ObservedRequest } from './observation.js'

/** After how long a wait is reported if nothing else is set, ms. */
const DEFAULT_MS = 60_000

let hasWarnedProcess = false

/**
 * Reports a wait that takes long: as `longWait`, with who holds the lock, and once per process as a process warning if nobody
 * listens to that.
 */
export class LongWait {
  readonly #context: Context
  readonly #lockName: string
  readonly #label: string | undefined
  readonly #isDefault: boolean
  readonly #whoHolds: (waitedMs: number) => Promise<WaitDetails>
  readonly #observed: ObservedRequest | undefined
  #cancel: (() => void) | undefined
  #isOver = false

  /**
   * @param warnAfterMs  from now; undefined: the default, from the first refusal
   * @param whoHolds  says who holds the lock, for a call that has waited so long
   * @param observed  the request, if it is watched
   */
  constructor(
    context: Context,
    lockName: string,
    { warnAfterMs, label }: { readonly warnAfterMs: number | undefined; readonly label: string | undefined },
    whoHolds: (waitedMs: number) => Promise<WaitDetails>,
    observed?: ObservedRequest,
  ) {
    this.#context = context
    this.#lockName = lockName
    this.#label = label
    this.#whoHolds = whoHolds
    this.#observed = observed
    this.#isDefault = warnAfterMs === undefined
    if (warnAfterMs !== undefined) this.#reportIn(warnAfterMs)
  }

  /** The caller has to wait. Without contention there is no timer. */
  refused(): void {
    if (this.#isDefault && !this.#cancel) this.#reportIn(DEFAULT_MS)
  }

  end(): void {
    this.#isOver = true
    this.#cancel?.()
  }

  #reportIn(ms: number): void {
    this.#cancel = this.#context.clock.after(ms, () => void this.#report(ms), false)
  }

  async #report(waitedMs: number): Promise<void> {
    const found = await this.#whoHolds(waitedMs)
    if (this.#isOver) return // it ended during the look-up, which may have found the caller itself
    this.#observed?.setHolders(found.holders)
    const details = { lockName: this.#lockName, label: this.#label, waitedMs, ...found }
    if (!this.#context.emit('longWait', details)) warnProcess(details)
  }
}

/** Such as `A call has waited 60 s for "order:1" (label "refund"), held by this client, taken 61 s ago`. */
export function describeLongWait({ lockName, label, waitedMs, heldBy }: LongWaitDetails): string {
  const about = label === undefined ? '' : ` (label ${JSON.stringify(label)})`
  const why = heldBy === undefined ? '' : `, ${heldBy}`
  return `A call has waited ${waitedMs / 1_000} s for ${JSON.stringify(lockName.slice(0, 120))}${about}${why}`
}

function warnProcess(wait: LongWaitDetails): void {
  if (hasWarnedProcess) return
  hasWarnedProcess = true
  emitWarning(
    `${describeLongWait(wait)}. Further long waits are reported only by the event 'longWait' of the client. waitTimeMs limits ` +
      'a wait, warnAfterMs sets when it is reported',
    { type: 'HoldfastWarning', code: 'HOLDFAST_LONG_WAIT' },
  )
}
