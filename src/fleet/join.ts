/** Joins what the keys of a lock say with what clients report: nobody becomes a holder by a message. */

import { defined } from '../util/defined.js'
import { clientIdOf } from '../wire/holder.js'
import type { ClientReports } from './client-reports.js'
import type { HolderInfo, LockInfo, WaiterInfo } from './lock-info.js'
import { type KeyHolder, KIND, type LockKeys } from './lock-keys.js'

type ReportedWait = ReturnType<ClientReports['waitsFor']>[number]

export interface Joined {
  readonly info: LockInfo
  /** Number of reported holds that the keys do not confirm. */
  readonly unconfirmed: number
}

/**
 * @param nameOf  returns what the program calls a lock, for its key
 * @param listeners  how many connections listen on channels of the lock; undefined: not known
 * @param listensAs  as how many of them a client of Holdfast counts
 */
export function joinLock(
  keys: LockKeys,
  reports: ClientReports,
  nameOf: (key: string) => string,
  listeners: number | undefined,
  listensAs: number,
): Joined {
  const { key, kind, remainingLeaseMs } = keys
  const holders = keys.holders.map((holder) => holderInfo(holder, keys, reports))
  const known = new Set(keys.holders.map(({ holder }) => holder))
  const reported = reports.holdsOf(key).filter(({ client }) => reports.hasReplied(client))
  const waits = reports.waitsFor(key)
  const listening = waits.filter(({ client, state }) => reports.hasReplied(client) && state.isListening)
  const clients = new Set(listening.map(({ client }) => client))
  return {
    info: {
      name: nameOf(key),
      kind,
      remainingLeaseMs,
      holders: holders.sort((one, other) => (other.heldMs ?? -1) - (one.heldMs ?? -1)),
      waiters: waitersOf(keys, waits, reports, nameOf),
      otherListeners: Math.max(0, Math.ceil((listeners ?? 0) - clients.size * listensAs)),
      isComplete: listeners !== undefined && !keys.isCut && reports.isComplete,
    },
    unconfirmed: reported.filter(({ state }) => !known.has(state.holder)).length,
  }
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

/** First those in a queue in Redis, in its order, then the others that replied. */
function waitersOf(
  { queue, tickets }: LockKeys,
  waits: readonly ReportedWait[],
  reports: ClientReports,
  nameOf: (key: string) => string,
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
    waiters.push({ ...infoOf(clientIdOf(holder), wait), holder, position: at + 1 })
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
    if (reports.hasReplied(wait.client)) waiters.push(infoOf(wait.client, wait))
  }
  return waiters
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
