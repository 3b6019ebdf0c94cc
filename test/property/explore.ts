import type { Model } from './model.js'
import type { Operation } from './operations.js'

/**
 * Every state that operations started in one turn may lead to with these results, in whatever order Redis and the clients
 * process them. Waiters may be served at any time; in the end no waiter waits for what is free.
 */
export function explore(
  model: Model,
  operations: readonly Operation[],
  fits: (operation: Operation, outcome: string) => boolean,
): readonly Model[] {
  const ends: Model[] = []
  const seen = new Set<string>()
  const visit = (state: Model, rest: readonly Operation[]): void => {
    const what = `${rest.map((operation) => operations.indexOf(operation)).join()} ${state.fingerprint}`
    if (seen.has(what)) return
    seen.add(what)
    const moves = state.moves()
    if (rest.length === 0 && moves.length === 0) ends.push(state)
    for (const moved of moves) visit(moved, rest)
    for (const [index, operation] of rest.entries()) {
      const isNew = isNewcomer(operation, operations, model)
      if (!isNew && rest.slice(0, index).some((earlier) => isBefore(earlier, operation, model))) continue
      if (operation.do !== 'abort' && rest.some((other) => other.do === 'abort')) continue
      for (const [after, outcome] of [...state.apply(operation), ...state.inPassing(operation, model)]) {
        if (fits(operation, outcome))
          visit(
            after,
            rest.filter((other) => other !== operation),
          )
      }
    }
  }
  visit(model, operations)
  return ends
}

/** Whether a call in a scope finds that its scope released the hold in the same turn: it re-enters nothing, and waits for no turn. */
function isNewcomer(operation: Operation, operations: readonly Operation[], model: Model): boolean {
  if (operation.do !== 'take' || operation.how === 'wait' || operation.within !== undefined) return false
  const earlier = operations.slice(0, operations.indexOf(operation))
  const isOfScope = (hold: string): boolean =>
    model.leases.has(model.holds.get(hold)?.lease ?? '') && model.isInScope(hold, operation.scope)
  return earlier.some((other) => other.do === 'unlock' && isOfScope(other.hold))
}

/** Whether two operations keep the order of their calls: those of one lease, and the waits of one client. */
function isBefore(first: Operation, second: Operation, model: Model): boolean {
  const isWait = (operation: Operation): boolean => operation.do === 'take' && operation.how === 'wait'
  if (first.do === 'take' && second.do === 'take' && isWait(first) && isWait(second))
    // A read inside a write first looks at what its owner has, so a later call of its client may be sent before it.
    return first.client === second.client && first.position.is !== 'beside'
  // It may be queued behind another one first.
  if (isWait(first)) return false
  const turn = turnOf(first, model)
  return turn !== undefined && turn === turnOf(second, model)
}

function turnOf(operation: Operation, model: Model): string | undefined {
  if (operation.do === 'unlock') return model.holds.get(operation.hold)?.lease
  return operation.do === 'take' && operation.position.is === 'inside' ? operation.position.lease : undefined
}
