/** `681ms`, `24.1s`, `11m 2s`, `2h 14m`, `3d 4h`, as exact as is useful. */
export function durationOf(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return 'no end'
  const seconds = Math.floor(ms / 1_000)
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (seconds < 60) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`
  const hours = Math.floor(seconds / 3_600)
  if (hours < 48) return `${hours}h ${Math.floor(seconds / 60) % 60}m`
  return `${Math.floor(hours / 24)}d ${hours % 24}h`
}
