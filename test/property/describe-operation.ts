import type { Caller, Operation } from './operations.js'

/** An operation in words. @param targets  what can be acquired */
export function describe(operation: Operation, targets: readonly string[]): string {
  const on = (target: number): string => (targets.length > 1 ? ` ${targets[target]}` : '')
  const who = ({ client, scope }: Caller): string =>
    `c${client + 1}${scope === undefined ? '' : ` in scope ${scope + 1}`}`
  switch (operation.do) {
    case 'take': {
      const { id, how, target, leaseS, isRenewed, within } = operation
      const nesting = within === undefined ? '' : ` within ${within}`
      return `${id}: ${who(operation)} takes${on(target)}${nesting}, ${how}, ${isRenewed ? 'renewed' : `${leaseS} s`}`
    }
    case 'nest': {
      const { id, target, inner, leaseS } = operation
      return `${id}: ${who(operation)} does something with${on(target)} and inside it with${on(inner)}, ${leaseS} s`
    }
    case 'unlock':
      return `unlock ${operation.hold}`
    case 'unlock current':
    case 'inspect count':
      return `${who(operation)}: ${operation.do}${on(operation.target)}`
    case 'abort':
      return `abort ${operation.waiter}`
    case 'force':
    case 'inspect':
      return `c${operation.client + 1}: ${operation.do}${on(operation.target)}`
    case 'hand over':
    case 'inspect hold':
      return `${operation.do} ${operation.hold}`
    case 'adopt':
      return `${operation.id}: c${operation.client + 1} adopts from ${operation.from}, ${operation.leaseS} s`
    case 'renew':
      return `the watchdog of c${operation.client + 1} renews`
    case 'expire':
      return `${operation.what} expires`
    case 'intrude':
      return `a stranger takes${on(operation.target)}`
  }
}

export function kindOf(operation: Operation): string {
  return operation.do === 'take' ? `take ${operation.how}${operation.within ? ' within' : ''}` : operation.do
}

export function kindOfOutcome(outcome: string): string {
  return /^(granted|refused|lost|deadlock|not held|ok|true|false|aborted|started)$/.test(outcome)
    ? outcome
    : 'another result'
}
