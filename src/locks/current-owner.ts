// What calls about the current owner throw where there is none, or where it does not hold the lock.
import { NotHeldError } from '../errors.js'
import type { LeaseContext } from './lease.js'
import { hasCurrentOwner } from './ownership.js'
import { stillHeld } from './reporting/who-holds.js'

/** The calls, and what does the same without a current owner. */
const INSTEAD = { unlock: 'hold.unlock()', getHoldCount: 'hold.count', isHeldByCurrentOwner: 'hold.isHeld()' }

/** The lock that such a call is about. */
export interface Subject {
  readonly name: string
  /** In a message: `lock "a"`. */
  readonly described: string
  /** Itself, or what it is made of. */
  readonly locks: readonly { readonly context: LeaseContext; readonly key: string }[]
}

/** @throws {NotHeldError} the call is inside no hold and no scope of any client that the lock is of */
export function assertCurrentOwner(call: keyof typeof INSTEAD, { name, described, locks }: Subject): void {
  if (locks.some(({ context }) => hasCurrentOwner(context))) return
  const use = `use ${INSTEAD[call]} of the hold that lock() returned`
  const why = locks.some(({ context }) => context.implicitReentry)
    ? `this call is inside no hold and no scope: ${use}, or run the code with client.runInScope()`
    : `with implicitReentry: false there is none: ${use}`
  throw new NotHeldError(`${call}() on ${described} needs a current owner, and ${why}${whoHasIt(locks)}`, name)
}

export function notHeldByCurrentOwner({ name, described, locks }: Subject): NotHeldError {
  const sentence = `${described} is not held by the current owner${whoHasIt(locks)}`
  return new NotHeldError(sentence.charAt(0).toUpperCase() + sentence.slice(1), name)
}

function whoHasIt(locks: Subject['locks']): string {
  return locks.map(({ context, key }) => stillHeld(context, key)).find((sentence) => sentence !== '') ?? ''
}
