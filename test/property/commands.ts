import fc from 'fast-check'
import type { Model } from './model.js'
import { type Caller, LEASE_TIMES_S, type Operation, type Spell } from './operations.js'

/** What to do, in numbers: which caller, hold or target they select depends on the state at that time. */
interface Draft {
  readonly verb: Verb
  readonly who: number
  readonly what: number
  readonly leaseS: number
}

/** What is started in one turn. */
export type Command = readonly Draft[]

/** How often each is chosen. */
const VERBS = {
  'take now': 6,
  'take soon': 1,
  wait: 5,
  abandon: 1,
  'take again': 4,
  'take again too late': 1,
  nest: 1,
  unlock: 8,
  'unlock again': 1,
  'unlock current': 1,
  abort: 3,
  force: 1,
  'hand over': 1,
  adopt: 2,
  inspect: 2,
  'inspect hold': 2,
  'inspect count': 1,
  renew: 1,
  expire: 2,
  intrude: 1,
} as const

type Verb = keyof typeof VERBS

const draft: fc.Arbitrary<Draft> = fc.record({
  verb: fc.oneof(...Object.entries(VERBS).map(([verb, weight]) => ({ arbitrary: fc.constant(verb as Verb), weight }))),
  who: fc.nat(11),
  what: fc.nat(11),
  leaseS: fc.nat(LEASE_TIMES_S.length - 1),
})

const command: fc.Arbitrary<Command> = fc.oneof(
  { arbitrary: fc.tuple(draft), weight: 3 },
  { arbitrary: fc.array(draft, { minLength: 2, maxLength: 3 }), weight: 1 },
)

/** @param maxLength  of a sequence */
export function sequences(maxLength: number): fc.Arbitrary<readonly Command[]> {
  return fc.array(command, { minLength: 1, maxLength, size: 'max' })
}

/** The callers. */
export interface Cast {
  readonly callers: readonly Caller[]
  readonly isAdoptable: boolean
}

const MOST_WAITERS = 4

/** The operations that a command stands for in this state; none if it makes no sense there. */
export function operationsOf(command: Command, firstId: number, model: Model, cast: Cast, spell: Spell): Operation[] {
  const operations: Operation[] = []
  for (const [index, draft] of command.entries()) {
    const operation = operationOf(draft, String(firstId + index), model, cast, spell)
    if (!operation || !isClear(operation, model)) continue
    if (operations.some((other) => !mayMeet(other, operation, model))) continue
    if (operation.do !== 'unlock') operations.push(operation)
    else {
      const isRepeated = operations.some((other) => other.do === 'unlock' && other.hold === operation.hold)
      operations.push({ ...operation, isRepeated })
    }
  }
  return operations
}

function operationOf(
  { verb, who, what, leaseS: choice }: Draft,
  id: string,
  model: Model,
  cast: Cast,
  spell: Spell,
): Operation | undefined {
  const leaseS = LEASE_TIMES_S[choice] as number
  const isRenewed = choice === 0
  const caller = pick(cast.callers, who) as Caller
  const target = what % model.targets.length
  const { client, scope } = caller
  // A scope is one thread, which does one thing at a time.
  const isBusy = scope !== undefined && model.waiters.some(({ take }) => take.scope === scope)
  const ended = model.known.filter((hold) => model.stateOf(hold) !== 'live')
  switch (verb) {
    case 'take now':
    case 'take soon':
    case 'wait':
    case 'abandon': {
      if (isBusy || (verb === 'wait' && model.waiters.length === MOST_WAITERS)) return undefined
      if (verb === 'abandon' && model.isJoint(target)) return undefined
      const how = verb === 'take now' ? 'now' : verb === 'take soon' ? 'soon' : verb
      return { do: 'take', id, how, ...caller, target, leaseS, isRenewed, position: model.positionOf(caller, target) }
    }
    case 'take again':
    case 'take again too late': {
      const hold = pick(verb === 'take again' ? model.live : ended, what)
      if (hold === undefined || model.isJointHold(hold)) return undefined
      const lease = model.leaseOf(hold)
      // Mostly the same lock; one with another name is rejected as a mistake.
      const wanted = who % 3 > 0 || hasJoints(model) ? lease.target : what % model.targets.length
      const position = model.positionOf({ client: lease.client }, wanted, hold)
      const terms = { how: who % 2 ? 'now' : 'wait', target: wanted, leaseS, isRenewed } as const
      return { do: 'take', id, client: lease.client, within: hold, position, ...terms }
    }
    case 'nest': {
      const inner = who % model.targets.length
      // A red lock is granted by a majority; whether one is inside the rest shows later.
      if (isBusy || model.isPolled(target)) return undefined
      return { do: 'nest', id, ...caller, target, inner, leaseS, position: model.positionOf(caller, target) }
    }
    case 'unlock':
    case 'unlock again': {
      const hold = pick(verb === 'unlock' ? model.live : ended, what)
      return hold === undefined ? undefined : { do: 'unlock', hold, isRepeated: false }
    }
    case 'inspect hold': {
      const hold = pick(model.known, what)
      return hold === undefined ? undefined : { do: 'inspect hold', hold }
    }
    case 'unlock current':
    case 'inspect count':
      if (scope === undefined || isBusy || model.isJoint(target)) return undefined
      return { do: verb, client, scope, target }
    case 'abort': {
      const waiter = pick(model.waiters, what)?.take.id
      return waiter === undefined ? undefined : { do: 'abort', waiter }
    }
    case 'force':
      if (model.isJoint(target)) return undefined
      return { do: 'force', client, target, forced: model.forcedBy(client, target) }
    case 'inspect':
      return model.isJoint(target) ? undefined : { do: 'inspect', client, target }
    case 'hand over': {
      const hold = pick(model.live, what)
      if (hold === undefined || !cast.isAdoptable) return undefined
      return { do: 'hand over', hold }
    }
    case 'adopt': {
      // The holder is unknown if it was never seen: it was aborted, or nested and released.
      const seen = [...model.leases.values()].filter(({ id }) => spell(id) !== `#${id}`)
      const from = pick(seen, -1 - what)
      if (!from || !cast.isAdoptable) return undefined
      const present = model.holderAt(from.target)
      const isThere = present !== undefined && spell(present) === spell(from.id)
      return { do: 'adopt', id, client, target: from.target, from: from.id, isThere, leaseS }
    }
    case 'renew':
      return { do: 'renew', client }
    case 'expire': {
      const key = pick(model.expirable, what)
      return key === undefined ? undefined : { do: 'expire', what: key }
    }
    case 'intrude':
      return model.isJoint(target) || !cast.isAdoptable ? undefined : { do: 'intrude', target }
  }
}

/** The element at an index modulo the length, from the end if it is below 0. */
function pick<T>(choices: readonly T[], index: number): T | undefined {
  return choices.at(index % choices.length)
}

/** Whether an operation has a defined result in spite of the waiters. */
function isClear(operation: Operation, model: Model): boolean {
  // A request that waits for what a sibling in the same write will have is not refused before the command time-out.
  if ('position' in operation && operation.position.is === 'beside') {
    const { lease } = operation.position
    if (model.waiters.some(({ take }) => take.position.is === 'beside' && take.position.lease === lease)) return false
  }
  const joint = model.waiters.find(({ take }) => model.isJoint(take.target))
  if (!joint) return true
  if (operation.do === 'force' || operation.do === 'expire' || operation.do === 'nest') return false
  // They acquire what is free and release it, again and again.
  if (model.isPolled(joint.take.target)) return operation.do === 'unlock' || operation.do === 'abort'
  return true
}

/** Whether the outcomes of two operations are distinguishable if they start in one turn. */
function mayMeet(first: Operation, second: Operation, model: Model): boolean {
  const both = [first, second]
  const has = (...kinds: Operation['do'][]): boolean => both.some((operation) => kinds.includes(operation.do))
  if (has('nest', 'unlock current', 'hand over', 'adopt', 'inspect', 'inspect count', 'renew', 'intrude')) return false
  const takes = both.filter((operation) => operation.do === 'take')
  if (takes.some(({ how }) => how === 'abandon')) return false
  // The late grant of an aborted wait is released, and may be in the way until then.
  if (takes.length > 0 && has('abort')) return false
  if (first.do === 'abort' && second.do === 'abort') return first.waiter !== second.waiter
  const [one, two] = takes
  if (one && two && one.scope !== undefined && one.scope === two.scope) return false
  // Even what both could hold at once is refused to one that is behind the other for too long.
  if (one && two && one.client === two.client && takes.some(({ how }) => how === 'soon')) return false
  const joint = takes.find(({ target }) => model.isJoint(target))
  if (joint) {
    const other = first === joint ? second : first
    return other.do === 'inspect hold' || (other.do === 'unlock' && !model.isInScope(other.hold, joint.scope))
  }
  return !(has('force', 'expire') && hasJoints(model))
}

/** Whether a target is several locks with different names. */
function hasJoints(model: Model): boolean {
  return model.targets.some((_, target) => model.isJoint(target))
}
