import type { Caller, Operation } from './model.js'

/** An operation in words. @param targets  what can be acquired */
export function describe(operation: Operation, targets: readonly string[]): string {
  const on = (target: number): string => (targets.length > 1 ? ` ${targets[target]}` : '')
  const who = ({ client, scope }: Caller): string =>
    `c${client + 1}${scope === undefined ? '' : ` in scope ${scope + 1}`}`
  switch (operation.do) {
    case 'take': {
      const { id, how, target, lease, isRenewed, within } = operation
      const nesting = within === undefined ? '' : ` within ${within}`
      return `${id}: ${who(operation)} takes${on(target)}${nesting}, ${how}, ${isRenewed ? 'renewed' : `${lease} s`}`
    }
    case 'nest': {
      const { id, target, inner, lease } = operation
      return `${id}: ${who(operation)} does something with${on(target)} and inside it with${on(inner)}, ${lease} s`
    }
    case 'unlock':
      return `unlock ${operation.hold}`
    case 'unlock current':
    case 'ask count':
      return `${who(operation)}: ${operation.do}${on(operation.target)}`
    case 'abort':
      return `abort ${operation.waiter}`
    case 'force':
    case 'ask':
      return `c${operation.client + 1}: ${operation.do}${on(operation.target)}`
    case 'hand over':
    case 'ask hold':
      return `${operation.do} ${operation.hold}`
    case 'adopt':
      return `${operation.id}: c${operation.client + 1} adopts from ${operation.from}, ${operation.lease} s`
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
    : 'an answer'
}
