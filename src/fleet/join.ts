/** Joins what the keys of a lock say with what clients report: nobody becomes a holder by a message. */

import { defined } from '../util/defined.js'
import { clientIdOf } from '../wire/holder.js'
import type { ClientReports } from './client-reports.js'
import type { Doubt } from './doubts.js'
import type { Listeners } from './lock-channels.js'
import type { HolderInfo, LockInfo, WaiterInfo } from './lock-info.js'
import { clientsIn, type KeyHolder, KIND, type LockKeys } from './lock-keys.js'

type ReportedWait = ReturnType<ClientReports['waitsFor']>[number]

export interface Joined {
  readonly info: LockInfo
  /** Number of reported holds that the keys do not confirm. */
  readonly unconfirmed: number
}

/**
 * @param nameOf  returns what the program calls a lock, for its key
 * @param listeners  undefined: not known
 * @param listensAs  as how many of them a client of Holdfast counts
 */
export function joinLock(
  keys: LockKeys,
  reports: ClientReports,
  nameOf: (key: string) => string,
  listeners: Listeners | undefined,
  listensAs: number,
): Joined {
  const { key, remainingLeaseMs, number } = keys
  const isBare = keys.kind === KIND.unknown && number !== undefined
  const kind = isBare ? (listeners?.as ?? KIND.unknown) : keys.kind
  const holders = keys.holders.map((holder) => holderInfo(holder, keys, reports))
  const known = new Set(keys.holders.map(({ holder }) => holder))
  const reported = reports.holdsOf(key).filter(({ client }) => reports.hasReplied(client))
  const waits = reports.waitsFor(key)
  const listening = waits.filter(({ client, state }) => reports.hasReplied(client) && state.isListening)
  // A queued client that does not reply listens as well, and is no other process; so is one that has recorded its wait.
  const queued = [...keys.queue, ...keys.tickets].map(clientIdOf).filter((id) => reports.silent.has(id))
  const clients = new Set([...listening.map(({ client }) => client), ...queued])
  const left = Math.max(0, Math.ceil((listeners?.count ?? 0) - clients.size * listensAs))
  const recorded = new Set(waits.map(({ client }) => client).filter((id) => reports.silent.has(id) && !clients.has(id)))
  const believed = new Set([...recorded].slice(0, Math.floor(left / listensAs)))
  const otherListeners = left - believed.size * listensAs
  return {
    info: {
      name: nameOf(key),
      kind,
      ...(number !== undefined &&
        (kind === KIND.semaphore || kind === KIND.permits) && { freePermits: Math.max(0, number) }),
      ...(number !== undefined && kind === KIND.latch && { count: Math.max(0, number) }),
      remainingLeaseMs,
      holders: holders.sort((one, other) => (other.heldMs ?? -1) - (one.heldMs ?? -1)),
      waiters: waitersOf({ ...keys, kind }, waits, reports, nameOf, believed),
      otherListeners,
      doubts: doubtsOf({ ...keys, kind }, reports, listeners, otherListeners),
    },
    unconfirmed: reported.filter(({ state }) => !known.has(state.holder)).length,
  }
}

/** What is open of this lock. A client that does not reply may be one of the processes that listen. */
function doubtsOf(keys: LockKeys, reports: ClientReports, listeners: Listeners | undefined, others: number): Doubt[] {
  const involved = new Set([...clientsIn(keys), ...reports.clientsOf(keys.key)])
  const silent = [...reports.silent].filter((id) => others > 0 || involved.has(id))
  return [
    ...reports.doubtsOf('silent-clients', silent),
    ...(listeners === undefined ? [{ about: 'hidden-listeners', count: 1 } as const] : []),
    ...(keys.exists && keys.kind === KIND.unknown ? [{ about: 'unknown-kind', count: 1 } as const] : []),
    ...(keys.isCut ? [{ about: 'left-out', count: 1 } as const] : []),
  ]
}

function holderInfo(inKey: KeyHolder, { key, kind }: LockKeys, reports: ClientReports): HolderInfo {
  const { holder } = inKey
  // The holder of a permit is its id, which only its client knows.
  const report = reports
    .holdsOf(key)
    .find(({ client, state }) => state.holder === holder && (kind === KIND.permits || client === clientIdOf(holder)))
  const id = report?.client ?? clientIdOf(holder)
  const about = { ...inKey, status: reports.statusOf(id), ...defined({ client: reports.infoOf(id) }) }
  if (!report) return about
  const { heldMs, label, stack, trace, span } = report.state
  return {
    ...about,
    heldMs: heldMs + report.agoMs,
    ...defined({ label, stack, trace, span }),
  }
}

/**
 * First those in a queue in Redis, in its order, then the others that replied.
 * @param believed  clients that did not reply, and whose recorded waits count
 */
function waitersOf(
  { kind, queue, priorities, tickets }: LockKeys,
  waits: readonly ReportedWait[],
  reports: ClientReports,
  nameOf: (key: string) => string,
  believed: ReadonlySet<string>,
): WaiterInfo[] {
  const left = [...waits]
  const take = (client: string, most: number): ReportedWait[] => {
    const taken = left.filter((wait) => wait.client === client).slice(0, most)
    for (const wait of taken) left.splice(left.indexOf(wait), 1)
    return taken
  }
  const infoOf = (client: string, wait: ReportedWait | undefined): WaiterInfo =>
    waiterInfo(client, wait, reports, nameOf)
  const waiters: WaiterInfo[] = []
  for (const [at, holder] of queue.entries()) {
    const [wait] = take(clientIdOf(holder), 1)
    const priority = priorities.get(holder) || undefined
    const wanted = kind === KIND.semaphore || kind === KIND.permits ? { permits: permitsOf(holder) } : { holder }
    waiters.push({ ...infoOf(clientIdOf(holder), wait), ...wanted, position: at + 1, ...defined({ priority }) })
  }
  for (const [at, ticket] of tickets.entries()) {
    const client = clientIdOf(ticket)
    // A ticket stands for all callers of its client; one whose callers have left is no waiter.
    const taken: (ReportedWait | undefined)[] = take(client, Number.POSITIVE_INFINITY)
    if (taken.length === 0 && !reports.hasRepliedInFull(client)) taken.push(undefined)
    const status = reports.statusOfTicket(client)
    for (const wait of taken) waiters.push({ ...infoOf(client, wait), status, position: at + 1 })
  }
  for (const wait of left) {
    if (reports.hasReplied(wait.client) || believed.has(wait.client)) waiters.push(infoOf(wait.client, wait))
  }
  return waiters
}

/** How many permits a waiter wants: `<client id>:<number>:<permits>`. */
function permitsOf(waiter: string): number {
  return Number(waiter.slice(waiter.lastIndexOf(':') + 1)) || 1
}

function waiterInfo(
  client: string,
  wait: ReportedWait | undefined,
  reports: ClientReports,
  nameOf: (key: string) => string,
): WaiterInfo {
  const about = { status: reports.statusOf(client), ...defined({ client: reports.infoOf(client) }) }
  if (!wait) return { ...about, chain: [] }
  const { waitedMs, endsInMs, label, chain } = wait.state
  return {
    ...about,
    waitedMs: waitedMs + wait.agoMs,
    ...defined({
      // In a record, it may be the number of a wait of long ago.
      wait: reports.hasReplied(client) ? wait.state.wait : undefined,
      givesUpInMs: endsInMs === undefined ? undefined : Math.max(0, endsInMs - wait.agoMs),
      label,
    }),
    chain: chain.map(({ lock, holder }) => ({ lock: nameOf(lock), holder })),
  }
}
