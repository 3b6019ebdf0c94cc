/** How often each thing happened, by its name. */
export type Tally = Record<string, number>

export function countIn(tally: Tally, name: string, times = 1): void {
  tally[name] = (tally[name] ?? 0) + times
}

export function sumOf(tallies: readonly Readonly<Tally>[]): Tally {
  const sum: Tally = {}
  for (const tally of tallies) for (const [name, times] of Object.entries(tally)) countIn(sum, name, times)
  return sum
}

/** What an error is counted as: its code; of an error reply of Redis its first word. */
export function nameOf(error: unknown): string {
  const { code, message } = error as Error & { code?: unknown }
  return typeof code === 'string' ? code : (/^[A-Z]{3,}(?= )/.exec(message)?.[0] ?? message)
}
