// `holdfast unlock`: asks, then breaks a lock.
import type { HolderInfo, LockInfo } from '../../fleet/lock-info.js'
import { reactionTimeout } from '../../locks/breaking/interrupt.js'
import { userAtHost } from '../../platform.js'
import { counted } from '../../util/counted.js'
import { durationOf } from '../../util/duration-text.js'
import { word } from '../../util/visible.js'
import { EXIT, Failure } from '../exit-codes.js'
import { clockTime } from '../local-time.js'
import { say } from '../stderr.js'
import { mayBeYoung, nameOf, STATUSES } from './describe.js'
import type { FleetOptions } from './options.js'
import type { Session } from './view.js'

/** `holdfast unlock`: ends the hold of exactly one holder. @returns the exit code */
export async function unlock(session: Session): Promise<number> {
  const { fleet, options, terminal, now } = session
  const { subject: name, holder, anyway, quarantineMs, graceMs, reason, json } = options
  const print = (text: string): void => (json ? say(text) : terminal.print(text))
  const lock = await fleet.inspect(name, { timeoutMs: options.timeoutMs })
  const found = lock.holders.find((one) => one.holder === holder)
  if (!found) {
    print(`${word(name)} is not held by ${word(holder)}: ${whoHolds(lock)}`)
    return 1
  }
  if (!options.yes) await confirm(session, found, lock.holders.length - 1, print)
  const by = userAtHost()
  const startedAt = now()
  const { outcome } = await fleet.forceUnlock(name, { holder, graceMs, by, reason, anyway, quarantineMs })
  const isQuarantined = outcome === 'freed' && quarantineMs > 0
  const took = durationOf(now() - startedAt - (isQuarantined ? quarantineMs : 0))
  if (json) {
    const time = new Date(now()).toISOString()
    terminal.printJson({ time, lock: name, holder, by, reason, outcome, ...(isQuarantined && { quarantineMs }) })
  } else {
    const sentences = {
      released: `released by its holder within ${took}`,
      freed: `freed: its holder did not react within ${took}`,
      silent: `nothing has changed: its holder did not react within ${took}. --anyway would free the lock`,
      unreachable: `nothing has changed: nobody listens on the inbox of its holder. --anyway would free the lock`,
      'not-held': 'nothing has changed: that holder no longer held it',
    }
    const after = isQuarantined ? `, and nobody had the lock for ${durationOf(quarantineMs)} after that` : ''
    terminal.print(`${clockTime(now())}  ${sentences[outcome]}${after}`)
  }
  return { released: 0, freed: 0, silent: EXIT.conflict, unreachable: EXIT.conflict, 'not-held': 1 }[outcome]
}

function whoHolds({ holders }: LockInfo): string {
  if (holders.length === 0) return 'it is free'
  return `it is held by ${holders.map(({ holder }) => word(holder)).join(', ')}`
}

/** @throws {Failure} nobody is there to confirm it, or something else was typed than the lock's name */
async function confirm(
  { options, ask }: Session,
  holder: HolderInfo,
  others: number,
  print: (text: string) => void,
): Promise<void> {
  const { subject: name } = options
  if (!ask) throw new Failure(EXIT.refused, 'not confirmed: without a terminal it needs --yes')
  print(`${word(name)} is held by ${nameOf(holder)} ${STATUSES[holder.status].sign}${forHowLong(holder)}`)
  print(consequence(holder, others, options))
  const typed = (await ask(`Type the lock's name to break it: `)).trim()
  if (typed !== name.trim() && typed !== word(name).trim()) {
    throw new Failure(EXIT.refused, 'not confirmed, nothing has changed')
  }
}

function forHowLong({ heldMs, label }: HolderInfo): string {
  return `${heldMs === undefined ? '' : `, for ${durationOf(heldMs)}`}${label === undefined ? '' : ` (${word(label)})`}`
}

/** @param others  who hold it as well: they keep it */
function consequence(holder: HolderInfo, others: number, { graceMs, anyway, quarantineMs }: FleetOptions): string {
  const { status } = holder
  const keep = counted(others, 'other holder keeps', 'other holders keep')
  if (status === 'responding') {
    const then = others > 0 ? `It loses the lock, which ${keep},` : 'The next waiter gets the lock'
    return `It is responding, and will be interrupted. ${then} once its work has stopped, after ${durationOf(graceMs)} at the latest.`
  }
  const problem = status === 'silent' ? 'It is not responding' : 'It cannot be notified'
  const timeout = durationOf(reactionTimeout(graceMs))
  const freed = others > 0 ? `taken from it, and ${keep} it` : 'freed for the next waiter'
  if (!anyway && mayBeYoung(holder)) {
    return `It cannot be notified, or has only just taken the lock. Unless it reacts within ${timeout}, nothing changes.`
  }
  if (!anyway) {
    const effect = others > 0 ? 'take the lock from it' : 'free the lock'
    return `${problem}. Unless it reacts within ${timeout}, nothing changes; --anyway would ${effect}.`
  }
  const ending =
    quarantineMs > 0
      ? `taken from it, and ${durationOf(quarantineMs)} later ${others > 0 ? 'released' : 'freed for the next waiter'}, even if this holder has not noticed.`
      : `${freed}, even if this holder is still working.`
  return (
    `${problem}: after ${timeout} the lock is ${ending}\n` +
    'Only data that is guarded by a fencing token rejects its later writes.'
  )
}
