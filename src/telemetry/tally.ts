// Counts and sums by attributes.
export type Attributes = Readonly<Record<string, string>>

export interface Sample {
  /** The same object each time. */
  readonly attributes: Attributes
  readonly value: number
}

interface Counted extends Sample {
  value: number
}

class Branch extends Map<string | undefined, Branch> {
  counted: Counted | undefined
}

/** One number for each combination of attributes. A known combination is found without building anything. */
export class Tally {
  readonly samples: Counted[] = []
  readonly #names: readonly string[]
  readonly #root = new Branch()

  constructor(...names: readonly string[]) {
    this.#names = names
  }

  /** @param values  of the attributes, in their order; undefined: without this attribute */
  of(...values: readonly (string | undefined)[]): Counted {
    let branch = this.#root
    for (const value of values) branch = branch.get(value) ?? grown(branch, value)
    branch.counted ??= this.#add(values)
    return branch.counted
  }

  #add(values: readonly (string | undefined)[]): Counted {
    const named = values.map((value, index) => [this.#names[index], value] as const)
    const attributes = Object.fromEntries(named.filter(([, value]) => value !== undefined)) as Attributes
    const counted = { attributes, value: 0 }
    this.samples.push(counted)
    return counted
  }
}

function grown(branch: Branch, value: string | undefined): Branch {
  const next = new Branch()
  branch.set(value, next)
  return next
}
