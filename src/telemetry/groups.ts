/** Sorts locks into groups by their names, such as `order` for `order:1001`. */
export type GroupOf = (lockName: string) => string

/** Each group is a series of its own in every metric. */
const MAX_GROUPS = 100
const OTHER = 'other'

/** The groups of lock names, limited in number. */
export class Groups {
  readonly #groupOf: GroupOf
  readonly #known = new Set<string>()
  #hasFailed = false

  constructor(groupOf: GroupOf) {
    this.#groupOf = groupOf
  }

  /** @returns `other` beyond 100 groups, or if the function throws */
  of(lockName: string): string {
    try {
      const group = String(this.#groupOf(lockName))
      if (!this.#known.has(group) && this.#known.size >= MAX_GROUPS) return OTHER
      this.#known.add(group)
      return group
    } catch (error) {
      // Rethrowing would end the process: a channel subscriber has no caller.
      if (!this.#hasFailed) process.emitWarning(error instanceof Error ? error : String(error))
      this.#hasFailed = true
      return OTHER
    }
  }
}
