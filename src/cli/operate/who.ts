// `holdfast who`.
import {
  countersOf,
  type HolderInfo,
  isToWrite,
  type LockInfo,
  mayHaveMoreWaiters,
  type WaiterInfo,
} from '../../fleet/lock-info.js'
import { counted, grouped } from '../../util/counted.js'
import { durationOf } from '../../util/duration-text.js'
import { word } from '../../util/visible.js'
import { EXIT } from '../exit-codes.js'
import { timeOf } from '../local-time.js'
import type { Terminal } from '../terminal.js'
import { clientOf, doubtLines, mayBeYoung, nameOf, STATUSES, unlockCommand, waitingCount } from './describe.js'
import type { Session } from './view.js'

const MAX_WAITERS = 50

/** `holdfast who`: everything that is known of a lock. @returns the exit code: 0 taken, 1 free, 2 not known */
export async function who(session: Session): Promise<number> {
  const { fleet, options, terminal, now } = session
  const inspect = (): Promise<LockInfo> => fleet.inspect(options.subject, { timeoutMs: options.timeoutMs })
  const addresses = options.trace ? await traced(session, await inspect()) : undefined
  const lock = await inspect()
  if (options.json) terminal.printJson(addresses ? withAddresses(lock, addresses) : lock)
  else terminal.print(...linesOf(lock, { terminal, now: now(), stack: options.stack, addresses }))
  if (isTaken(lock)) return 0
  return lock.doubts.some(({ about }) => about === 'unknown-kind') ? EXIT.inDoubt : 1
}

/** Whether somebody holds it, no permit is free, or the latch is closed. */
function isTaken({ holders, freePermits, count = 0 }: LockInfo): boolean {
  return holders.length > 0 || freePermits === 0 || count > 0
}

type Addresses = ReadonlyMap<string, string>

async function traced({ trace }: Session, { holders }: LockInfo): Promise<Addresses> {
  return holders.length === 0 ? new Map() : await trace(holders.map(({ holder }) => holder))
}

function withAddresses(lock: LockInfo, addresses: Addresses): object {
  return { ...lock, holders: lock.holders.map((holder) => ({ ...holder, address: addresses.get(holder.holder) })) }
}

interface Shown {
  terminal: Terminal
  now: number
  stack: boolean
  /** From which holders are renewed; undefined: not traced. */
  addresses: Addresses | undefined
}

function linesOf(lock: LockInfo, shown: Shown): string[] {
  return [
    shown.terminal.paint('bold', titleOf(lock)),
    ...lock.holders.flatMap((holder) => holderLines(lock, holder, shown)),
    ...(lock.kind === 'semaphore' ? ['  Redis does not record who has its permits.'] : []),
    ...waiterLines(lock, shown.terminal),
    ...doubtLines(lock.doubts, shown.terminal, '  '),
  ]
}

function titleOf(lock: LockInfo): string {
  const { name, kind, holders, remainingLeaseMs, doubts } = lock
  const counters = countersOf(lock)
  if (counters !== undefined) return `${word(name)}: ${kind}, ${counters}`
  if (doubts.some(({ about }) => about === 'unknown-kind')) return `${word(name)} exists, and is not held as a lock`
  if (holders.length === 0) return `${word(name)} is free`
  return `${word(name)}: ${kind}, ${countOf(holders)}lease ${leaseOf(remainingLeaseMs)}`
}

function leaseOf(ms: number): string {
  return ms === Number.POSITIVE_INFINITY ? 'never expires' : `${durationOf(ms)} left`
}

function countOf(holders: readonly HolderInfo[]): string {
  return holders.length > 1 ? `${counted(holders.length, 'holder')}, ` : ''
}

function holderLines(lock: LockInfo, holder: HolderInfo, { terminal, now, stack, addresses }: Shown): string[] {
  const { sign, style, meaning } = STATUSES[holder.status]
  const { heldMs, label, trace, remainingLeaseMs } = holder
  const isPermit = lock.freePermits !== undefined
  const mode = { read: ' for reading', write: ' for writing' }
  const since = heldMs === undefined ? 'not known' : `${timeOf(now - heldMs, now)} (${durationOf(heldMs)})`
  const purpose = [label === undefined ? [] : word(label), trace === undefined ? [] : `trace ${word(trace)}`].flat()
  return [
    isPermit
      ? `  permit ${word(holder.holder)}, lease ${leaseOf(remainingLeaseMs ?? Number.POSITIVE_INFINITY)}`
      : `  held${holder.mode ? mode[holder.mode] : ''}, count ${holder.holdCount}, by ${word(holder.holder)}`,
    `    who     ${clientOf(holder) ?? nameOf(holder)}`,
    `            ${terminal.paint(style, `${sign} ${mayBeYoung(holder) ? `${holder.status}, or has only just taken the lock: look again` : meaning}`)}`,
    ...(addresses ? [`    from    ${addresses.get(holder.holder) ?? 'not seen: it was not renewed meanwhile'}`] : []),
    `    since   ${since}`,
    ...(purpose.length > 0 ? [`    for     ${purpose.join('  ')}`] : []),
    ...(stack && holder.stack ? holder.stack.split('\n').map((line) => `            ${word(line.trim())}`) : []),
    ...(isPermit ? [] : [`    break   ${unlockCommand(lock.name, holder)}`]),
  ]
}

function waiterLines(lock: LockInfo, terminal: Terminal): string[] {
  const { waiters, otherListeners } = lock
  if (waiters.length === 0 && otherListeners === 0) {
    return [mayHaveMoreWaiters(lock) ? '  no waiters among what can be seen' : '  no waiters']
  }
  const others = counted(otherListeners, 'other process', 'other processes')
  return [
    `  waiting: ${waitingCount(lock)}`,
    ...waiters.slice(0, MAX_WAITERS).map((waiter, index) => waiterLine(waiter, index, terminal)),
    ...(waiters.length > MAX_WAITERS ? [`    and ${grouped(waiters.length - MAX_WAITERS)} more: --json has all`] : []),
    ...(otherListeners > 0 ? [`    ${others} (Redisson, or an older Holdfast)`] : []),
  ]
}

function waiterLine(waiter: WaiterInfo, index: number, terminal: Terminal): string {
  const { position, priority, permits, status, label, waitedMs, givesUpInMs, chain } = waiter
  const { sign, style } = STATUSES[status]
  const facts = [
    waitedMs === undefined ? [] : durationOf(waitedMs),
    isToWrite(waiter) ? 'to write' : [],
    permits === undefined ? [] : `for ${counted(permits, 'permit')}`,
    priority === undefined ? [] : `priority ${priority}`,
    givesUpInMs === undefined ? [] : `gives up in ${durationOf(givesUpInMs)}`,
    label === undefined ? [] : `for ${word(label)}`,
    chain.length === 0 ? [] : `holds ${chain.map((link) => word(link.lock)).join(', ')}`,
  ].flat()
  return `    ${position ?? index + 1}. ${nameOf(waiter)} ${terminal.paint(style, sign)}  ${facts.join(', ')}`.trimEnd()
}
