// One sample of locks: keys, channels, and client reports.
import { isErrorOf } from '../delivery/replies.js'
import { messageOf } from '../errors.js'
import type { LeaseContext } from '../locks/lease.js'
import { clientIdOf } from '../wire/holder.js'
import { unmappedName } from '../wire/names.js'
import { type Answers, askClients } from './ask.js'
import { ClientReports } from './client-reports.js'
import { type Joined, joinLock } from './join.js'
import { countListeners, listInboxes } from './lock-channels.js'
import { type ClientInfo, type ClientState, countWaiters, type LockInfo } from './lock-info.js'
import { KIND, type LockKeys, readLockKeys } from './lock-keys.js'
import { type ClientRecord, fetchRecord } from './record.js'

/** The most clients that are asked about one lock; those in its keys come first. */
const MAX_ASKED = 1_000
/** The most holds, and waits, of one reply. */
const MAX_STATES = 1_000
/** How many locks are read together: two commands. */
export const PAGE = 64

/** Collects the state of every client's locks from keys, channels and client replies. */
export class LockCollector {
  readonly #context: LeaseContext
  readonly #ownInfo: () => ClientInfo | undefined
  /** The program's name of the lock with this key. */
  readonly #nameOf: (key: string) => string
  /** Number of reported holds that no key confirmed. */
  unconfirmedClaims = 0

  /** @param ownInfo  returns how this client describes itself */
  constructor(context: LeaseContext, ownInfo: () => ClientInfo | undefined) {
    this.#context = context
    this.#ownInfo = ownInfo
    this.#nameOf = (key) => unmappedName(context.nameMapper, key)
  }

  async inspect(key: string, timeoutMs: number): Promise<LockInfo> {
    const { scripts } = this.#context
    const [keys, listeners, inboxes] = await Promise.all([
      readLockKeys(scripts, key),
      countListeners(scripts, [key]).catch(() => undefined),
      this.#inboxes(),
    ])
    const ids = [...new Set([...clientsIn(keys), ...inboxes])]
    const what = { locks: [key], limit: MAX_STATES }
    const answers = await askClients(this.#context, ids.slice(0, MAX_ASKED), what, timeoutMs)
    const reports = this.#reports(answers)
    await this.#readRecordsFor([keys], reports)
    const joined = this.#join(keys, reports, listeners?.get(key))
    const { info, unconfirmed } =
      joined.unconfirmed > 0 ? await this.#joinAgain(joined, key, reports, listeners) : joined
    this.unconfirmedClaims += unconfirmed
    return ids.length > MAX_ASKED ? { ...info, isComplete: false } : info
  }

  /** Asks all clients for everything, for `read`. */
  async askAll(timeoutMs: number): Promise<ClientReports> {
    const listed = await listInboxes(this.#context.scripts).catch(() => undefined)
    const ids = [this.#context.clientId, ...(listed ?? [])]
    const answers = await askClients(this.#context, ids, { limit: MAX_STATES }, timeoutMs)
    return this.#reports({ ...answers, listed: listed && new Set(listed) })
  }

  /**
   * @param all  keys, at most `PAGE`
   * @param reports  of `askAll`; the records that are read are added
   * @returns those that are locks, semaphores or latches, or that a client waits for, as far as this user may read them
   */
  async read(all: readonly string[], reports: ClientReports): Promise<LockInfo[]> {
    const { scripts } = this.#context
    const found = (await Promise.all(all.map((key) => readLockKeys(scripts, key).catch(unlessForbidden)))).flat()
    const listeners = await countListeners(scripts, all).catch(() => undefined)
    await this.#readRecordsFor(found, reports)
    return found.flatMap((keys) => {
      const { info, unconfirmed } = this.#join(keys, reports, listeners?.get(keys.key))
      this.unconfirmedClaims += unconfirmed
      const { kind, holders } = info
      const isSemaphore = kind === KIND.semaphore || kind === KIND.permits
      // The locks `a` and `{a}` share channels, queues and leases: only one of them may exist.
      const isInUse = isSemaphore || holders.length + countWaiters(info) > 0
      return (keys.exists && isInUse) || reports.waitsFor(keys.key).length > 0 ? [info] : []
    })
  }

  /** Every client that can be asked. */
  async clients(timeoutMs: number): Promise<ClientState[]> {
    const ids = await this.#inboxes()
    const answers = await askClients(this.#context, ids, { locks: [], limit: 0 }, timeoutMs)
    const reports = this.#reports(answers)
    await this.#readRecords(ids, reports)
    const unknown = { name: '', host: '', pid: 0, version: '' }
    return ids.map((id) => {
      const lost = answers.replies.get(id)?.lost
      const about = { ...unknown, ...reports.infoOf(id), id, status: reports.statusOf(id) }
      return lost === undefined ? about : { ...about, lossesLastHour: lost }
    })
  }

  #reports(answers: Answers): ClientReports {
    const { clock } = this.#context
    return new ClientReports(answers, () => clock.now())
  }

  /** This client first; it alone if Redis does not list the others. */
  async #inboxes(): Promise<string[]> {
    const { scripts, clientId } = this.#context
    const listed = await listInboxes(scripts).catch(() => [])
    return [...new Set([clientId, ...listed])]
  }

  #join(keys: LockKeys, reports: ClientReports, listeners: number | undefined): Joined {
    return joinLock(keys, reports, this.#nameOf, listeners, this.#context.scripts.isCluster ? 2 : 1)
  }

  /** The lock changed hands between the first read of its keys and a reply. */
  async #joinAgain(
    before: Joined,
    key: string,
    reports: ClientReports,
    listeners: ReadonlyMap<string, number> | undefined,
  ): Promise<Joined> {
    const keys = await readLockKeys(this.#context.scripts, key)
    await this.#readRecordsFor([keys], reports)
    const joined = this.#join(keys, reports, listeners?.get(key))
    return joined.unconfirmed < before.unconfirmed ? joined : before
  }

  /** Reads the records of all clients that these locks are about. */
  async #readRecordsFor(found: readonly LockKeys[], reports: ClientReports): Promise<void> {
    const ids = found.flatMap((keys) => [...clientsIn(keys), ...reports.clientsOf(keys.key)])
    await this.#readRecords(ids, reports)
  }

  /** Reads the records that have not been read yet. */
  async #readRecords(ids: readonly string[], reports: ClientReports): Promise<void> {
    const missing = [...new Set(ids)].filter((id) => !reports.hasRecord(id))
    await Promise.all(
      missing.map(async (id) => {
        const record = await this.#record(id).catch(() => undefined)
        if (record) reports.addRecord(id, record)
      }),
    )
  }

  async #record(id: string): Promise<ClientRecord | undefined> {
    const { scripts, clientId } = this.#context
    const own = id === clientId ? this.#ownInfo() : undefined
    if (own) return { client: own, holds: [], waits: [], ageMs: 0 }
    return await fetchRecord(scripts, id)
  }
}

/** The clients that hold the lock, or wait for it in a queue. */
function clientsIn({ holders, queue, tickets }: LockKeys): string[] {
  const all = [...holders.map(({ holder }) => holder), ...queue, ...tickets]
  return [...new Set(all.map(clientIdOf))].filter((id) => id !== '')
}

/** SCAN and PUBSUB also list what a user limited to other names may not read. @throws any other error */
function unlessForbidden(error: unknown): [] {
  if (isErrorOf(error, 'NOPERM') && /\bkeys?\b/.test(messageOf(error))) return []
  throw error
}
