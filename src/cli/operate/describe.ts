/** How locks, holders and waiters are put into words. All text that comes from Redis passes through here. */
import { type Doubt, doubtText } from '../../fleet/doubts.js'
import {
  countWaiters,
  type HolderInfo,
  type HolderStatus,
  type LockInfo,
  mayHaveMoreWaiters,
  type WaiterInfo,
} from '../../fleet/lock-info.js'
import { processName } from '../../holder-info.js'
import { forShell } from '../../util/quoting.js'
import { word } from '../../util/visible.js'
import { isMarked } from '../../wire/client-id.js'
import { clientIdOf } from '../../wire/holder.js'
import { cutTo, fill } from '../cells.js'
import type { Style, Terminal } from '../terminal.js'

export const STATUSES = {
  responding: { sign: '●', style: 'green', meaning: 'responding' },
  silent: {
    sign: '○',
    style: 'yellow',
    meaning: 'silent: connected, but its event loop is blocked, its process is stopped, or it is cut off',
  },
  disconnected: {
    sign: '✗',
    style: 'red',
    meaning: 'disconnected: nobody listens on its inbox, so its process is gone or cut off',
  },
  unlisted: {
    sign: '?',
    style: 'gray',
    meaning: 'unlisted: it does not describe itself, and cannot be notified',
  },
} as const satisfies Record<HolderStatus, { sign: string; style: Style; meaning: string }>

/** `reports@rep-5d8 pid 1`, or `Redisson 10488e73:41`: short enough for a table, and for the waiters of a lock. */
export function nameOf({ client, holder = '' }: Pick<WaiterInfo | HolderInfo, 'client' | 'holder'>): string {
  if (client) return word(processName(client))
  const [, uuid = '', owner = ''] = /^([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}):(.*)$/s.exec(holder) ?? []
  if (!uuid) return holder === '' ? 'unknown' : word(holder)
  return `${isMarked(uuid) ? 'Holdfast' : 'Redisson'} ${uuid.slice(0, 8)}:${word(owner)}`
}

/** `orders-api 2.3.1, pid 1 on orders-7f9c`; undefined: it does not describe itself. */
export function clientOf({ client }: HolderInfo): string | undefined {
  if (!client) return undefined
  const { name, version, pid, host } = client
  return `${word(name)}${version ? ` ${word(version)}` : ''}, pid ${pid}${host ? ` on ${word(host)}` : ''}`
}

/** How many wait; `≥` if there may be more than that. */
export function waitingCount(lock: LockInfo): string {
  const isExact = lock.otherListeners === 0 && !mayHaveMoreWaiters(lock)
  return `${isExact ? '' : '≥'}${countWaiters(lock)}`
}

/** What a command could not see: below what it could. */
export function doubtLines(doubts: readonly Doubt[], terminal: Terminal, indent = ''): string[] {
  const width = terminal.width - indent.length - MARK.length
  return doubts.flatMap((doubt) => {
    const words = doubtText(doubt, (name) => cutTo(MAX_NAME, word(name))).split(' ')
    const [first = '', ...others] = fill(words, width, ' ').map((line) => cutTo(width, line))
    return [`${indent}${terminal.paint('yellow', MARK)}${first}`, ...others.map((line) => `${indent}  ${line}`)]
  })
}

const MARK = '! '
/** By then a client of Holdfast describes itself, ms. */
const YOUNG_MS = 1_000
/** The longest name in a doubt, in cells. */
const MAX_NAME = 60

/** How long its oldest hold has lasted; undefined: not known. */
export function ageOf({ holders }: LockInfo): number | undefined {
  const ages = holders.flatMap(({ heldMs }) => (heldMs === undefined ? [] : [heldMs]))
  return ages.length === 0 ? undefined : Math.max(...ages)
}

/** Whether its client may be about to describe itself, or to subscribe to its inbox: a second later it can be notified. */
export function mayBeYoung({ holder, status, heldMs }: HolderInfo): boolean {
  if (status === 'responding') return false
  return heldMs === undefined ? status === 'unlisted' && isMarked(clientIdOf(holder)) : heldMs < YOUNG_MS
}

/** A command that breaks the lock, to paste into a shell. */
export function unlockCommand(lock: string, holder: HolderInfo): string {
  const anyway = holder.status === 'responding' || mayBeYoung(holder) ? '' : ' --anyway'
  return `holdfast unlock ${forShell(lock)}${anyway} --holder ${forShell(holder.holder)}`
}
