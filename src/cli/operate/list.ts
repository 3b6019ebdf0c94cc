// A table of locks, for `holdfast ls` and `holdfast top`.
import type { Doubt } from '../../fleet/doubts.js'
import { countersOf, countWaiters, type HolderStatus, isEndless, type LockInfo } from '../../fleet/lock-info.js'
import { counted } from '../../util/counted.js'
import { durationOf } from '../../util/duration-text.js'
import { word } from '../../util/visible.js'
import { clientIdOf } from '../../wire/holder.js'
import { cellsOf, fill } from '../cells.js'
import type { Terminal } from '../terminal.js'
import { ageOf, doubtLines, nameOf, STATUSES, waitingCount } from './describe.js'
import type { FleetOptions, Sort } from './options.js'
import { type Cell, type Column, tableOf } from './table.js'

const COLUMNS: Column[] = [
  { title: 'LOCK', isFlexible: true },
  { title: 'KIND', spare: 3 },
  { title: 'HELD', isRight: true },
  { title: 'BY', isFlexible: true },
  { title: 'IS' },
  { title: 'LEASE', isRight: true, spare: 1 },
  { title: 'WAITING', isRight: true },
  { title: 'FOR', isFlexible: true, spare: 2 },
]

/**
 * A table of locks.
 * @param seenSince  what to show of a lock whose age nobody says
 * @param width      that it has to fit; default that of a terminal
 */
export function tableOfLocks(
  locks: readonly LockInfo[],
  terminal: Terminal,
  seenSince: (lock: LockInfo) => string = () => '?',
  width = terminal.width,
): string[] {
  const rows = locks.map((lock): Cell[] => {
    const [oldest] = lock.holders
    const age = ageOf(lock)
    const status = oldest && STATUSES[oldest.status]
    return [
      word(lock.name),
      oldest?.mode ?? lock.kind,
      age === undefined ? (oldest ? seenSince(lock) : '') : durationOf(age),
      byOf(lock),
      status ? { text: status.sign, style: status.style } : '',
      oldest ? durationOf(lock.remainingLeaseMs) : '',
      waitingCount(lock),
      oldest?.label === undefined ? '' : word(oldest.label),
    ]
  })
  return tableOf(COLUMNS, rows, terminal, width)
}

/** Who holds it, and of a semaphore or latch what is left of it. */
function byOf(lock: LockInfo): string {
  const [oldest, ...others] = lock.holders
  const by = oldest && nameOf(oldest) + (others.length > 0 ? ` +${others.length}` : '')
  return [countersOf(lock), by].filter((text) => text !== undefined).join(', ') || 'free'
}

/** Locks of unknown age stay: the operator may be looking for one of them. */
export function isListed(lock: LockInfo, { contended, olderThanMs }: FleetOptions): boolean {
  const age = ageOf(lock)
  if (contended && countWaiters(lock) === 0) return false
  return age === undefined ? olderThanMs === 0 || lock.holders.length > 0 : age >= olderThanMs
}

export function sorted(locks: readonly LockInfo[], sort: Sort): LockInfo[] {
  const oldestFirst = (a: LockInfo, b: LockInfo): number => suspicion(b) - suspicion(a)
  const byName = (a: LockInfo, b: LockInfo): number => (a.name < b.name ? -1 : 1)
  const order = {
    name: byName,
    age: (a: LockInfo, b: LockInfo) => oldestFirst(a, b) || byName(a, b),
    waiters: (a: LockInfo, b: LockInfo) => countWaiters(b) - countWaiters(a) || oldestFirst(a, b) || byName(a, b),
  }
  return [...locks].sort(order[sort])
}

/** What nobody renews is held forever; of what has an unknown age nobody says that it is recent. */
function suspicion(lock: LockInfo): number {
  if (lock.holders.length === 0) return -1
  return isEndless(lock) ? Number.POSITIVE_INFINITY : (ageOf(lock) ?? Number.MAX_VALUE)
}

export interface Summary {
  locks: number
  /** What is hidden, unknown or left out. */
  doubts: readonly Doubt[]
  /** Clients that hold or wait, by status. */
  clients: Record<HolderStatus, number>
}

export function summaryOf(locks: readonly LockInfo[], doubts: readonly Doubt[]): Summary {
  const statuses = new Map<string, HolderStatus>()
  for (const { holders, waiters } of locks) {
    for (const { client, holder = '', status } of [...holders, ...waiters]) {
      statuses.set(client?.id ?? (clientIdOf(holder) || holder), status)
    }
  }
  const clients: Record<HolderStatus, number> = { responding: 0, silent: 0, disconnected: 0, unlisted: 0 }
  for (const status of statuses.values()) clients[status]++
  return { locks: locks.length, doubts, clients }
}

/**
 * `3 locks · clients: ● 2 responding  ○ 0 silent  ✗ 1 disconnected  ? 1 unlisted`, on as many lines as that needs, and a line
 * for each doubt.
 */
export function summaryLines({ locks, doubts, clients }: Summary, terminal: Terminal, time = ''): string[] {
  const counts = Object.entries(STATUSES).map(
    ([status, { sign }]) => `${sign} ${clients[status as HolderStatus]} ${status}`,
  )
  const [subject, first] = [`${time}${counted(locks, 'lock')}`, `clients: ${counts.shift()}`]
  const isShort = cellsOf(`${subject} · ${first}`) <= terminal.width
  const parts = [...(isShort ? [`${subject} · ${first}`] : [subject, first]), ...counts]
  const painted = (line: string, { sign, style }: (typeof STATUSES)[HolderStatus]): string =>
    line.replace(`${sign} `, `${terminal.paint(style, sign)} `)
  return [
    ...fill(parts, terminal.width).map((line) => Object.values(STATUSES).reduce(painted, line)),
    ...doubtLines(doubts, terminal),
  ]
}
