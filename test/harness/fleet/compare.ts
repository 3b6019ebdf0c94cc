/** Compares a lock as operators see it with what the processes say of themselves. */
import type { HolderInfo, LockInfo, WaiterInfo } from '../../../src/index.js'
import { kindOf, type Of, of, type Said, type SaidHold, type SaidWait } from './messages.js'

/** How far a duration may be off, ms, besides the time that the look took. */
const TOLERANCE_MS = 50

/** A lock, and from when to when somebody looked, on the clock of the machine, ms. */
export interface Look {
  readonly info: LockInfo
  readonly from: number
  readonly to: number
}

export interface Compared {
  readonly differences: readonly string[]
  /** How far durations are off, ms: 0 if the look took long enough to explain it. */
  readonly offMs: readonly number[]
}

export function compare({ info, from, to }: Look, said: readonly Said[]): Compared {
  const differences: string[] = []
  const offMs: number[] = []
  const isSame = (what: string, seen: unknown, known: unknown): void => {
    if (JSON.stringify(seen) !== JSON.stringify(known)) {
      differences.push(`${info.name}: ${what} is ${JSON.stringify(seen)}, not ${JSON.stringify(known)}`)
    }
  }
  /** @param slackMs  how exactly the process knows it */
  const isSince = (what: string, ms: number | undefined, since: number, slackMs = 0): void => {
    if (ms === undefined) isSame(what, ms, 'known')
    else {
      const off = Math.max(0, from - since - ms, ms - (to - since))
      offMs.push(Math.max(0, off - slackMs))
      if (off - slackMs > TOLERANCE_MS) isSame(what, Math.round(ms), [from - since, to - since].map(Math.round))
    }
  }
  const isHeldAs = (seen: HolderInfo, { by, count, label, mode, askedAt, grantedAt }: Of<SaidHold>): void => {
    isSame('hold count', seen.holdCount, count)
    isSame('mode', seen.mode, mode)
    isSame('process', seen.client?.pid, by.pid)
    isSame('status', seen.status, by.pid === undefined ? 'unlisted' : 'responding')
    if (by.pid === undefined) return
    isSame('client', [seen.client?.id, seen.client?.name, seen.client?.host], [by.clientId, by.name, by.host])
    isSame('label', seen.label, label)
    isSince('heldMs', seen.heldMs, grantedAt, grantedAt - askedAt)
  }
  const isWaitedForAs = (seen: WaiterInfo, { by, askedAt, refusedAt, waitTimeMs, chain }: Of<SaidWait>): void => {
    isSame('process of a waiter', seen.client?.pid, by.pid)
    if (by.pid === undefined) return
    isSame('status of a waiter', seen.status, 'responding')
    isSame('what a waiter holds', seen.chain, chain)
    isSince('waitedMs', seen.waitedMs, refusedAt, refusedAt - askedAt)
    const givesUpAt = seen.givesUpInMs === undefined ? undefined : waitTimeMs - seen.givesUpInMs
    isSince('givesUpInMs', givesUpAt, refusedAt, refusedAt - askedAt)
  }

  const { holds: held, waits } = of(said, info.name)
  if (held.length > 0) isSame('kind', info.kind, kindOf(said, info.name))
  isSame(
    'the list of holders',
    info.holders.map(({ holder }) => holder).sort(),
    held.map(({ holder }) => holder).sort(),
  )
  for (const hold of held) {
    const seen = info.holders.find(({ holder }) => holder === hold.holder)
    if (seen) isHeldAs(seen, hold)
  }

  const visible = waits.filter(({ by, holder }) => by.pid !== undefined || holder !== undefined)
  const listeners = waits.length - visible.length
  const keyOf = ({ by, holder, label }: Of<SaidWait>): string => (by.pid === undefined ? `${holder}` : label)
  isSame(
    'the list of waiters',
    info.waiters.map(({ client, holder, label }) => (client ? label : holder)).sort(),
    visible.map(keyOf).sort(),
  )
  for (const wait of visible) {
    const seen = info.waiters.find(({ client, holder, label }) => (client ? label : holder) === keyOf(wait))
    if (seen) isWaitedForAs(seen, wait)
  }
  if (listeners > 0 !== info.otherListeners > 0) isSame('other listeners', info.otherListeners, listeners)
  isSame('doubts', info.doubts.length, 0)
  return { differences, offMs }
}
