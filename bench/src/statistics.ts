/** @param share  0.5: the median */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) return Number.NaN
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] as number
}

/** For an even number of values, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN
  const sorted = values.toSorted((one, other) => one - other)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** Jain's index of fairness: 1 if all have the same, 1/n if one has all. */
export function jain(values: readonly number[]): number {
  const squares = sum(values.map((value) => value * value))
  return squares === 0 ? 0 : sum(values) ** 2 / (values.length * squares)
}
