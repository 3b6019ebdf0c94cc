// The holds that a client has lost in the last hour.
const PERIOD_MS = 3_600_000
/** Maximum number of losses to remember. */
const MAX_LOSSES = 1_000

/** When this client has lost holds, for those who ask it. */
export class RecentLosses {
  #times: number[] = []

  /** @param at  on the clock */
  add(at: number): void {
    this.#times.push(at)
    if (this.#times.length > MAX_LOSSES) this.#times.shift()
  }

  /** How many in the hour before `now`, at most 1,000. */
  count(now: number): number {
    this.#times = this.#times.filter((at) => at > now - PERIOD_MS)
    return this.#times.length
  }
}
