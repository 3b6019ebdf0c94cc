/** Reports of clients on themselves, by lock: their replies, and the records of those that did not reply. */

import { isMarked } from '../wire/client-id.js'
import type { Answers } from './ask.js'
import { clientDoubt, type Doubt } from './doubts.js'
import type { ClientInfo, HolderStatus } from './lock-info.js'
import type { HoldState, WaitState } from './protocol.js'
import type { ClientRecord } from './record.js'

/** The report of a client, and its age. */
interface Report<T> {
  readonly client: string
  readonly state: T
  readonly agoMs: number
}

interface Entry<T> {
  readonly client: string
  readonly state: T
  /** On the clock. */
  readonly at: number
}

/** Built once for any number of locks: there may be ten thousand of them, and as many clients. */
export class ClientReports {
  /** How many holds and waits the clients left out. */
  readonly #leftOut: number
  readonly #answers: Answers
  readonly #now: () => number
  readonly #records = new Map<string, ClientRecord>()
  readonly #holds = new Map<string, Entry<HoldState>[]>()
  readonly #waits = new Map<string, Entry<WaitState>[]>()

  /** @param now  returns the time on the clock of the replies */
  constructor(answers: Answers, now: () => number) {
    this.#answers = answers
    this.#now = now
    let leftOut = 0
    for (const [client, { holds, waits, more, at }] of answers.replies) {
      this.#add(client, holds, waits, at)
      leftOut += more
    }
    this.#leftOut = leftOut
  }

  /** The record of a client. Redisson's have none: somebody else has written that one. */
  addRecord(client: string, record: ClientRecord): void {
    if (!isMarked(client)) return
    this.#records.set(client, record)
    const { holds, waits, ageMs } = record
    if (!this.hasReplied(client)) this.#add(client, holds, waits, this.#now() - ageMs)
  }

  hasRecord(client: string): boolean {
    return this.#records.has(client)
  }

  /** Every lock that a client holds or waits for, more than once if several do. */
  get locks(): string[] {
    return [...this.#holds.keys(), ...this.#waits.keys()]
  }

  /** The locks that a client waits for. */
  get waitedFor(): string[] {
    return [...this.#waits.keys()]
  }

  holdsOf(lock: string): readonly Report<HoldState>[] {
    return this.#reportsOf(this.#holds, lock)
  }

  /** The longest wait first. */
  waitsFor(lock: string): readonly Report<WaitState>[] {
    const age = ({ state, agoMs }: Report<WaitState>): number => state.waitedMs + agoMs
    return this.#reportsOf(this.#waits, lock).sort((one, other) => age(other) - age(one))
  }

  /** The clients that report on a lock. */
  clientsOf(lock: string): string[] {
    return [this.#holds, this.#waits].flatMap((lists) => lists.get(lock)?.map(({ client }) => client) ?? [])
  }

  hasReplied(client: string): boolean {
    return this.#answers.replies.has(client)
  }

  /** Whether its reply was everything that there is. */
  hasRepliedInFull(client: string): boolean {
    return this.#answers.replies.get(client)?.more === 0
  }

  statusOf(client: string): HolderStatus {
    if (this.hasReplied(client)) return 'responding'
    if (this.#answers.silent.has(client)) return 'silent'
    if (!this.#records.has(client)) return 'unlisted'
    return this.#isAbsent(client) ? 'disconnected' : 'silent'
  }

  /** The same of a client with a ticket: it listens on its inbox also if it does not describe itself. */
  statusOfTicket(client: string): HolderStatus {
    return this.#isAbsent(client) ? 'disconnected' : this.statusOf(client)
  }

  infoOf(client: string): ClientInfo | undefined {
    return this.#records.get(client)?.client
  }

  /** The same; what is not known about it is empty. */
  clientOf(client: string): ClientInfo {
    return { name: '', host: '', pid: 0, version: '', ...this.infoOf(client), id: client }
  }

  /** The clients that were asked and did not reply. */
  get silent(): ReadonlySet<string> {
    return this.#answers.silent
  }

  /** What the replies of all clients leave open. */
  get doubts(): Doubt[] {
    const { silent, unasked, overheard, listed } = this.#answers
    return [
      ...this.doubtsOf('silent-clients', silent),
      ...this.doubtsOf('unasked-clients', unasked),
      ...this.doubtsOf('overheard-clients', overheard),
      ...(listed === 'hidden' ? [{ about: 'hidden-clients', count: 1 } as const] : []),
      ...(this.#leftOut > 0 ? [{ about: 'left-out', count: this.#leftOut } as const] : []),
    ]
  }

  doubtsOf(about: Doubt['about'], clients: Iterable<string>): Doubt[] {
    return clientDoubt(about, clients, (id) => this.clientOf(id))
  }

  /** Whether nobody listens on its inbox. */
  #isAbsent(client: string): boolean {
    const { absent, listed } = this.#answers
    const isListed = typeof listed === 'object' ? listed.has(client) : true
    return !this.hasReplied(client) && (absent.has(client) || !isListed)
  }

  #add(client: string, holds: readonly HoldState[], waits: readonly WaitState[], at: number): void {
    for (const state of holds) append(this.#holds, state.lock, { client, state, at })
    for (const state of waits) append(this.#waits, state.lock, { client, state, at })
  }

  #reportsOf<T>(lists: ReadonlyMap<string, readonly Entry<T>[]>, lock: string): Report<T>[] {
    const now = this.#now()
    return (lists.get(lock) ?? []).map(({ client, state, at }) => ({ client, state, agoMs: Math.round(now - at) }))
  }
}

function append<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list) list.push(value)
  else lists.set(key, [value])
}
