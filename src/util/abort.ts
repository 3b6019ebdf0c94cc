/**
 * One listener per signal, however many waits share it: Node warns of a leak from the eleventh listener on, and a
 * server that shuts down may pass one signal to ten thousand waits.
 */
const actions = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `action` when the signal aborts. @returns a function that cancels this */
export function onAbort(signal: AbortSignal, action: () => void): () => void {
  const waiting = actions.get(signal) ?? open(signal)
  waiting.add(action)
  return () => {
    waiting.delete(action)
    if (waiting.size > 0 || actions.get(signal) !== waiting) return
    actions.delete(signal)
    signal.removeEventListener('abort', onSignal)
  }
}

function open(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>()
  actions.set(signal, waiting)
  signal.addEventListener('abort', onSignal)
  return waiting
}

function onSignal(this: AbortSignal): void {
  for (const action of [...(actions.get(this) ?? [])]) action()
}
