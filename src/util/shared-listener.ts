// One listener on an emitter of the user's for all clients.
import type { EventEmitter } from 'node:events'
import { shared } from './shared.js'

// biome-ignore lint/suspicious/noExplicitAny: each event has listeners of its own
type Listener = (...args: any[]) => void

interface Emitter {
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
}

interface SharedListener {
  readonly callbacks: Set<Listener>
  readonly listener: Listener
}

/**
 * Listens to an event of an emitter that is not ours, such as the user's Redis client, by one listener for all clients of
 * this process: from the eleventh on, Node warns of a memory leak.
 * @returns how to stop listening; the listener leaves with the last callback
 */
export function listenTogether(emitter: Emitter, event: string, callback: Listener): () => void {
  const emitters = shared('listeners.1', () => new WeakMap<Emitter, Map<string, SharedListener>>())
  const events = emitters.get(emitter) ?? new Map<string, SharedListener>()
  emitters.set(emitter, events)
  const { callbacks, listener } = events.get(event) ?? newListener()
  // Not by the number of callbacks: somebody may have removed all listeners.
  if (!(emitter as EventEmitter).listeners(event).includes(listener)) emitter.on(event, listener)
  events.set(event, { callbacks, listener })
  callbacks.add(callback)
  return () => {
    if (callbacks.delete(callback) && callbacks.size === 0) emitter.off(event, listener)
  }
}

function newListener(): SharedListener {
  const callbacks = new Set<Listener>()
  const listener = (...args: unknown[]): void => {
    for (const callback of [...callbacks]) callback(...args)
  }
  return { callbacks, listener }
}
