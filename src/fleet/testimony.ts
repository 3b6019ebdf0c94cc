/** What clients say of themselves, by lock: their replies, and the records of those that did not reply. */
import type { Answers } from './ask.js'
import type { ClientInfo, HolderStatus } from './lock-info.js'
import type { HoldState, WaitState } from './protocol.js'
import type { ClientRecord } from './record.js'

/** What a client says, and how long ago. */
interface Said<T> {
  readonly client: string
  readonly state: T
  readonly agoMs: number
}

export class Testimony {
  readonly #answers: Answers
  readonly #records: ReadonlyMap<string, ClientRecord>
  readonly #holds = new Map<string, Said<HoldState>[]>()
  readonly #waits = new Map<string, Said<WaitState>[]>()

  /** @param now  on the clock of the replies */
  constructor(answers: Answers, records: ReadonlyMap<string, ClientRecord>, now: number) {
    this.#answers = answers
    this.#records = records
    for (const [client, { holds, waits, at }] of answers.replies) this.#add(client, holds, waits, Math.round(now - at))
    for (const [client, { holds, waits, ageMs }] of records) {
      if (!answers.replies.has(client)) this.#add(client, holds, waits, ageMs)
    }
  }

  holdsOf(lock: string): readonly Said<HoldState>[] {
    return this.#holds.get(lock) ?? []
  }

  /** Those that have waited for longest first. */
  waitsFor(lock: string): readonly Said<WaitState>[] {
    const age = ({ state, agoMs }: Said<WaitState>): number => state.waitedMs + agoMs
    return [...(this.#waits.get(lock) ?? [])].sort((one, other) => age(other) - age(one))
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
    const { absent, listed } = this.#answers
    return absent.has(client) || listed?.has(client) === false ? 'disconnected' : 'silent'
  }

  infoOf(client: string): ClientInfo | undefined {
    return this.#records.get(client)?.client
  }

  /** Whether every client was asked, and has said all. */
  get isComplete(): boolean {
    const { hasAskedAll, silent, replies } = this.#answers
    return hasAskedAll && silent.size === 0 && [...replies.values()].every(({ more }) => more === 0)
  }

  #add(client: string, holds: readonly HoldState[], waits: readonly WaitState[], agoMs: number): void {
    for (const state of holds) append(this.#holds, state.lock, { client, state, agoMs })
    for (const state of waits) append(this.#waits, state.lock, { client, state, agoMs })
  }
}

function append<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list) list.push(value)
  else lists.set(key, [value])
}
