// Many renewals in one script.
import { inBatches } from '../delivery/batch.js'
import { isCrossSlot, isOutage, toArray, toInteger } from '../delivery/replies.js'
import type { Scripts } from '../delivery/scripts.js'
import type { Argument, Script, ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { retry } from '../util/retry.js'
import { sleep } from '../util/sleep.js'
import type { Renewable } from './renewable.js'

export interface RenewalTerms {
  /** For how long a failed renewal is retried, ms. */
  readonly periodMs: number
  /** How many leases one script call renews. */
  readonly batchSize: number
}

/** A lease to renew, with the call that does it. */
interface Due<T> {
  readonly lease: T
  readonly call: ScriptCall
}

/** How many leases are renewed in one turn of the event loop. */
const PER_TURN = 500

/** Renews with few script calls: each one renews many leases, in a cluster those of one slot. */
export class Renewer<T extends Renewable> {
  readonly #clock: Clock
  readonly #random: Random
  readonly #scripts: Scripts
  readonly #terms: RenewalTerms
  readonly #isWanted: (lease: T) => boolean
  readonly #onRefused: (error: unknown) => void
  readonly #onRenewed: (key: string) => void
  readonly #onResult: (lease: T, result: 'renewed' | 'gone' | 'failed') => void

  /**
   * @param isWanted  called before each attempt, and before its result is applied
   * @param onRefused  called for each renewal that Redis rejects, unless it cannot serve now
   * @param onRenewed  called for each script call that renewed something, with one of its keys
   * @param onResult  called for each lease, before it is notified
   */
  constructor(
    clock: Clock,
    random: Random,
    scripts: Scripts,
    terms: RenewalTerms,
    isWanted: (lease: T) => boolean,
    onRefused: (error: unknown) => void,
    onRenewed: (key: string) => void = () => {},
    onResult: (lease: T, result: 'renewed' | 'gone' | 'failed') => void = () => {},
  ) {
    this.#clock = clock
    this.#random = random
    this.#scripts = scripts
    this.#terms = terms
    this.#isWanted = isWanted
    this.#onRefused = onRefused
    this.#onRenewed = onRenewed
    this.#onResult = onResult
  }

  async renew(all: readonly T[]): Promise<void> {
    const resume = this.#scripts.admission.holdBack()
    try {
      for (let start = 0; start < all.length; start += PER_TURN) {
        if (start > 0) await sleep(0, { clock: this.#clock, keepAlive: false })
        const part = all.slice(start, start + PER_TURN)
        if (part.length > 1) await this.#scripts.learn(this.#keysOf(part))
        for (const group of this.#groups(part)) {
          for (const batch of inBatches(group, this.#terms.batchSize)) void this.#renewBatch(batch)
        }
      }
    } finally {
      resume()
    }
  }

  #keysOf(leases: readonly T[]): string[] {
    const now = this.#clock.now()
    return leases.filter(this.#isWanted).map((lease) => lease.renewal(now).keys[0] as string)
  }

  /** Groups of leases that one script call can renew. */
  #groups(all: readonly T[]): Iterable<readonly Due<T>[]> {
    const now = this.#clock.now()
    const groups = new Map<Script, Map<number | string, Due<T>[]>>()
    for (const lease of all) {
      if (!this.#isWanted(lease)) continue
      const call = lease.renewal(now)
      const byGroup = groups.get(call.script) ?? new Map<number | string, Due<T>[]>()
      groups.set(call.script, byGroup)
      const id = this.#scripts.groupOf(call.keys[0] as string)
      const group = byGroup.get(id)
      if (group) group.push({ lease, call })
      else byGroup.set(id, [{ lease, call }])
    }
    return [...groups.values()].flatMap((byGroup) => [...byGroup.values()])
  }

  /** Renews one batch, independently of the others. Repeated until Redis replies, or until the next period. */
  async #renewBatch(all: readonly Due<T>[]): Promise<void> {
    const { periodMs } = this.#terms
    let batch: readonly Due<T>[] | undefined
    const attempt = async (): Promise<void> => {
      batch = batch ? this.#stillDue(batch) : all
      const [first] = batch
      if (!first) return
      this.#scripts.assertTogether(batch.map(({ call }) => call.keys[0] as string))
      const sentAt = this.#clock.now()
      const replies = toArray(await this.#scripts.run(together(batch)))
      batch.forEach(({ lease }, index) => {
        if (!this.#isWanted(lease)) return
        const leftMs = toInteger(replies[index]) ?? 0
        this.#onResult(lease, leftMs > 0 ? 'renewed' : 'gone')
        if (leftMs > 0) lease.renewed(sentAt, leftMs)
        else lease.markLost()
      })
      this.#onRenewed(first.call.keys[0] as string)
    }
    const mustSplit = (error: unknown): boolean => isCrossSlot(error) && this.#hasSeveralGroups(all)
    try {
      await retry(attempt, {
        clock: this.#clock,
        keepAlive: false,
        delayMs: (failures) => backoffMs(failures, 50, Math.min(1_000, periodMs / 2), this.#random),
        until: this.#clock.now() + periodMs,
        // Whatever the error (no reply, a busy script, a demoted master): it may pass, and the deadline limits the retries.
        isRetryable: (error) => {
          if (mustSplit(error)) return false
          if (!isOutage(error)) this.#onRefused(error)
          return true
        },
      })
    } catch (error) {
      if (mustSplit(error)) return await this.renew(all.map(({ lease }) => lease))
      for (const { lease } of all) if (this.#isWanted(lease)) this.#onResult(lease, 'failed')
    }
  }

  /** The rest of a batch, with calls as of now. */
  #stillDue(batch: readonly Due<T>[]): readonly Due<T>[] {
    const now = this.#clock.now()
    return batch.flatMap(({ lease }) => (this.#isWanted(lease) ? [{ lease, call: lease.renewal(now) }] : []))
  }

  /** Whether its keys turn out to be in several slots, or on several servers. */
  #hasSeveralGroups(batch: readonly Due<T>[]): boolean {
    return new Set(batch.map(({ call }) => this.#scripts.groupOf(call.keys[0] as string))).size > 1
  }
}

function together(batch: readonly Due<unknown>[]): ScriptCall {
  const { script } = (batch[0] as Due<unknown>).call
  const keys: string[] = []
  const args: Argument[] = []
  // This runs for ten thousand leases every few seconds; flatMap would cost four times as much.
  for (const { call } of batch) {
    for (const key of call.keys) keys.push(key)
    for (const arg of call.args) args.push(arg)
  }
  return { script, keys, args }
}
