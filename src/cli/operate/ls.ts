// `holdfast ls`.
import type { LockInfo } from '../../fleet/lock-info.js'
import { EXIT } from '../exit-codes.js'
import { isListed, sorted, summaryLines, summaryOf, tableOfLocks } from './list.js'
import type { Session } from './view.js'

/** `holdfast ls`: the locks that are held or waited for. @returns the exit code: 0, or 2 if something could not be seen */
export async function ls({ fleet, options, terminal }: Session): Promise<number> {
  const { subject, contended, timeoutMs, json, sort } = options
  const locks: LockInfo[] = []
  const found = fleet.locks({ match: subject || undefined, contended, timeoutMs })
  for await (const lock of found) if (isListed(lock, options)) locks.push(lock)
  const inOrder = sorted(locks, sort)
  const summary = summaryOf(locks, found.doubts)
  if (json) {
    for (const lock of inOrder) terminal.printJson(lock)
    terminal.printJson({ summary })
  } else {
    if (locks.length > 0) terminal.print(...tableOfLocks(inOrder, terminal))
    terminal.print(...summaryLines(summary, terminal))
  }
  return summary.doubts.length > 0 ? EXIT.inDoubt : 0
}
