import type { Clock } from './clock.js'
import { isWorthRetrying, type Script, type ScriptCall, type Scripts, toArray, toInteger } from './lua/run.js'
import type { Random } from './random.js'
import { backoffMs } from './waiting/backoff.js'

/** Something with a lease. */
export interface Renewable {
  /**
   * The call that renews it now, of one key. A renewal script takes the keys and arguments of many such calls, one after
   * the other, and answers for each: 1 renewed, 0 gone.
   */
  renewal(now: number): ScriptCall
  /** A renewal sent at `sentAt` was applied. */
  renewed(sentAt: number): void
  /** Redis said that the holder is gone. */
  gone(): void
}

export interface RenewalTerms {
  /** How long a failed renewal is tried again, ms. */
  readonly periodMs: number
  /** How many one script call renews. */
  readonly batchSize: number
}

/** Renews with few script calls: many at once, in a cluster of one slot. */
export class Renewer<T extends Renewable> {
  readonly #clock: Clock
  readonly #random: Random
  readonly #scripts: Scripts
  readonly #terms: RenewalTerms
  readonly #isWanted: (one: T) => boolean
  readonly #onRefused: (error: unknown) => void

  /**
   * @param isWanted  asked before each try, and before an answer is passed on
   * @param onRefused  told of each renewal that Redis answers with an error that will not pass
   */
  constructor(
    clock: Clock,
    random: Random,
    scripts: Scripts,
    terms: RenewalTerms,
    isWanted: (one: T) => boolean,
    onRefused: (error: unknown) => void,
  ) {
    this.#clock = clock
    this.#random = random
    this.#scripts = scripts
    this.#terms = terms
    this.#isWanted = isWanted
    this.#onRefused = onRefused
  }

  renew(all: Iterable<T>): void {
    for (const group of this.#groups(all)) {
      for (let start = 0; start < group.length; start += this.#terms.batchSize) {
        void this.#renewBatch(group.slice(start, start + this.#terms.batchSize))
      }
    }
  }

  /** What one script can renew. */
  #groups(all: Iterable<T>): Iterable<readonly T[]> {
    const now = this.#clock.now()
    const groups = new Map<Script, Map<number, T[]>>()
    for (const one of all) {
      const { script, keys } = one.renewal(now)
      const bySlot = groups.get(script) ?? new Map<number, T[]>()
      groups.set(script, bySlot)
      const slot = this.#scripts.slotOf(keys[0] as string)
      const group = bySlot.get(slot)
      if (group) group.push(one)
      else bySlot.set(slot, [one])
    }
    return [...groups.values()].flatMap((bySlot) => [...bySlot.values()])
  }

  /** One batch for itself: the failure of another never stops it. Repeated until answered, or until the next tick. */
  async #renewBatch(all: readonly T[]): Promise<void> {
    const { periodMs } = this.#terms
    const giveUpAt = this.#clock.now() + periodMs
    let batch = all
    for (let failures = 0; ; failures++) {
      batch = batch.filter(this.#isWanted)
      if (batch.length === 0) return
      const sentAt = this.#clock.now()
      try {
        const replies = toArray(await this.#scripts.run(together(batch.map((one) => one.renewal(sentAt)))))
        batch.forEach((one, index) => {
          if (!this.#isWanted(one)) return
          if (toInteger(replies[index]) === 1) one.renewed(sentAt)
          else one.gone()
        })
        return
      } catch (error) {
        if (!isWorthRetrying(error)) this.#onRefused(error)
        // Whatever it was (no answer, a busy script, a demoted master): it may pass, and the deadline ends what it must.
        const delayMs = backoffMs(failures, 50, Math.min(1_000, periodMs / 2), this.#random)
        if (this.#clock.now() + delayMs >= giveUpAt) return
        await new Promise<void>((resolve) => void this.#clock.after(delayMs, resolve, false))
      }
    }
  }
}

function together(calls: readonly ScriptCall[]): ScriptCall {
  return {
    script: (calls[0] as ScriptCall).script,
    keys: calls.flatMap(({ keys }) => keys),
    args: calls.flatMap(({ args }) => args),
  }
}
