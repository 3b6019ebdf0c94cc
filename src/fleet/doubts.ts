// What an answer about locks leaves open.
import { type ClientInfo, processName } from '../holder-info.js'
import { counted } from '../util/counted.js'

/**
 * - `silent-clients`: they did not reply in time, so that what they hold and wait for is as they last recorded it, or missing
 * - `unasked-clients`: they could not be asked, for want of a right or because there are too many
 * - `overheard-clients`: somebody else listens on their inboxes, or replied as well: their replies may be forged
 * - `hidden-clients`: this user may not see which clients there are (`+pubsub`)
 * - `hidden-listeners`: this user may not see who listens for releases (`+pubsub`), so that waiters may be missing
 * - `hidden-locks`: keys that this user may not read, and that may be locks
 * - `unknown-kind`: the key does not show what it is
 * - `left-out`: a list was too long
 */
export const DOUBTS = [
  'silent-clients',
  'unasked-clients',
  'overheard-clients',
  'hidden-clients',
  'hidden-listeners',
  'hidden-locks',
  'unknown-kind',
  'left-out',
] as const

/** Something that is hidden, unknown or left out, so that a report may be incomplete. */
export interface Doubt {
  readonly about: (typeof DOUBTS)[number]
  /** How many clients, keys or lists, at least. */
  readonly count: number
  /** The first 20 of these clients. What is not known about one is empty. */
  readonly clients?: readonly ClientInfo[]
  /** The first 20 of these locks. */
  readonly locks?: readonly string[]
}

/** How many are named. */
const MAX_NAMED = 20

export function clientDoubt(
  about: Doubt['about'],
  ids: Iterable<string>,
  clientOf: (id: string) => ClientInfo,
): Doubt[] {
  const all = [...ids]
  return all.length > 0 ? [{ about, count: all.length, clients: all.slice(0, MAX_NAMED).map(clientOf) }] : []
}

/** Keys that could not be read: there may be a million. */
export class HiddenLocks {
  #count = 0
  readonly #names: string[] = []

  add(name: string): void {
    if (this.#count++ < MAX_NAMED) this.#names.push(name)
  }

  get doubts(): Doubt[] {
    return this.#count > 0 ? [{ about: 'hidden-locks', count: this.#count, locks: [...this.#names] }] : []
  }
}

/** One of each kind: of two, the one about more. */
export function mergeDoubts(...lists: (readonly Doubt[])[]): Doubt[] {
  const found = new Map<Doubt['about'], Doubt>()
  for (const doubt of lists.flat()) {
    if ((found.get(doubt.about)?.count ?? 0) < doubt.count) found.set(doubt.about, doubt)
  }
  return [...found.values()]
}

/**
 * For people.
 * @param word  returns a text of others so that it can be shown
 */
export function doubtText({ about, count, clients = [], locks = [] }: Doubt, word = (text: string) => text): string {
  const names = [...clients.map((client) => (client.name === '' ? client.id : processName(client))), ...locks]
  const more = count > names.length ? ', …' : ''
  const named = names.length > 0 ? `: ${names.map(word).join(', ')}${more}` : ''
  switch (about) {
    case 'silent-clients':
      return `${counted(count, 'client')} did not reply${named}`
    case 'unasked-clients':
      return `${counted(count, 'client')} could not be asked${named}`
    case 'overheard-clients':
      return `somebody else listens on the inbox of ${counted(count, 'client, whose reply', 'clients, whose replies')} may be forged${named}`
    case 'hidden-clients':
      return 'this Redis user may not see which clients there are (+pubsub)'
    case 'hidden-listeners':
      return 'this Redis user may not see who waits (+pubsub)'
    case 'hidden-locks':
      return `this Redis user may not read ${counted(count, 'key, which may be a lock', 'keys, which may be locks')}${named}`
    case 'unknown-kind':
      return `the key does not show whether it is a lock${named}`
    case 'left-out':
      return 'there is more than is shown'
  }
}
