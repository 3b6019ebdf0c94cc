// Subscribes to the diagnostics channels.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { HoldfastChannels } from '../locks/reporting/observation.js'

type Subscribers = { readonly [Name in keyof HoldfastChannels]?: (message: HoldfastChannels[Name]) => void }

/** Subscribes to channels of every client of this process. @returns unsubscribes */
export function subscribeTo(subscribers: Subscribers): () => void {
  const all = Object.entries(subscribers) as [string, (message: unknown) => void][]
  for (const [name, subscriber] of all) subscribe(name, subscriber)
  return () => {
    for (const [name, subscriber] of all) unsubscribe(name, subscriber)
  }
}
