// Suggests what somebody may have meant.

/** The known name that differs from this one by case, hyphens, or up to two letters. */
export function similarTo(name: string, known: readonly string[]): string | undefined {
  return known.find((other) => bare(other) === bare(name) || distance(other, name) <= 2)
}

function bare(name: string): string {
  return name.replace(/[-_]/g, '').toLowerCase()
}

/** The Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[b.length] as number
}
