// `holdfast ls`.
import type { LockInfo } from '../../fleet/lock-info.js'
import { isListed, sorted, summaryLines, summaryOf, tableOfLocks } from './list.js'
import type { Session } from './view.js'

/** `holdfast ls`: the locks that are held or waited for. @returns the exit code */
export async function ls({ fleet, options, terminal }: Session): Promise<number> {
  const { subject, contended, timeoutMs, json, sort } = options
  const locks: LockInfo[] = []
  for await (const lock of fleet.locks({ match: subject || undefined, contended, timeoutMs })) {
    if (isListed(lock, options)) locks.push(lock)
  }
  const inOrder = sorted(locks, sort)
  const summary = summaryOf(locks)
  if (json) {
    for (const lock of inOrder) terminal.printJson(lock)
    terminal.printJson({ summary })
  } else {
    if (locks.length > 0) terminal.print(...tableOfLocks(inOrder, terminal))
    terminal.print(...summaryLines(summary, terminal))
  }
  return 0
}
