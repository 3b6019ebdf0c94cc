// Numbers of things, for people.

/** 1,234 */
export function grouped(count: number): string {
  return count.toLocaleString('en-US')
}

/** "1 order", "2 orders" */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : plural}`
}
