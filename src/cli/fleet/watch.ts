import type { HolderInfo, LockInfo, WaiterInfo } from '../../fleet/lock-info.js'
import { durationOf } from '../../util/duration-text.js'
import { clockTime, nameOf, STATUSES, waitingCount, word } from './describe.js'
import { repeat } from './repeat.js'
import type { Session } from './view.js'

/** Something that changed at a lock between two looks. */
interface Change {
  event: 'held' | 'ended' | 'waiting' | 'wait-ended'
  of: HolderInfo | WaiterInfo
}

/** `holdfast watch`: a line for each change at a lock, from now on. @returns the exit code */
export async function watch(session: Session): Promise<number> {
  const { fleet, options, terminal, now } = session
  let before: Pick<LockInfo, 'holders' | 'waiters'> = { holders: [], waiters: [] }
  let isFirst = true
  await repeat(session, async () => {
    const lock = await fleet.inspect(options.subject, { timeoutMs: options.timeoutMs })
    const changes = changesBetween(before, lock)
    for (const { event, of } of changes) {
      if (options.json) terminal.printJson({ at: new Date(now()).toISOString(), lock: lock.name, event, of })
      else terminal.print(`${clockTime(now())}  ${sentenceOf(event, of, terminal.paint.bind(terminal))}`)
    }
    const isFree = lock.holders.length === 0 && (isFirst || changes.some(({ event }) => event === 'ended'))
    if (isFree && !options.json) terminal.print(`${clockTime(now())}  free, ${waitingCount(lock)} waiting`)
    before = lock
    isFirst = false
  })
  return 0
}

type Part = 'holders' | 'waiters'

function changesBetween(before: Pick<LockInfo, Part>, lock: Pick<LockInfo, Part>): Change[] {
  const missingIn = <T extends HolderInfo | WaiterInfo>(others: readonly T[], ones: readonly T[]): T[] => {
    const known = new Set(others.map(keyOf))
    return ones.filter((one) => !known.has(keyOf(one)))
  }
  const change =
    (event: Change['event']) =>
    (of: Change['of']): Change => ({ event, of })
  return [
    ...missingIn(lock.holders, before.holders).map(change('ended')),
    ...missingIn(lock.waiters, before.waiters).map(change('wait-ended')),
    ...missingIn(before.holders, lock.holders).map(change('held')),
    ...missingIn(before.waiters, lock.waiters).map(change('waiting')),
  ]
}

function keyOf({ client, holder, ...other }: HolderInfo | WaiterInfo): string {
  return 'wait' in other ? `${client?.id} ${other.wait}` : `${holder}`
}

function sentenceOf(event: Change['event'], of: Change['of'], paint: Session['terminal']['paint']): string {
  const { sign, style } = STATUSES[of.status]
  const who = `${nameOf(of)} ${paint(style, sign)}`
  const purpose = of.label === undefined ? '' : `, for ${word(of.label)}`
  if (event === 'waiting') return `${who} is waiting${purpose}`
  if (event === 'wait-ended') return `${who} is no longer waiting`
  if (event === 'held') return `held by ${who}${purpose}`
  const heldMs = 'heldMs' in of ? of.heldMs : undefined
  return `no longer held by ${who}${heldMs === undefined ? '' : `, after about ${durationOf(heldMs)}`}`
}
