// One sample of locks: keys, channels, and client reports.
import { isErrorOf } from '../delivery/replies.js'
import { messageOf } from '../errors.js'
import type { LeaseContext } from '../locks/lease.js'
import { unmappedName } from '../wire/names.js'
import { type Answers, askClients } from './ask.js'
import { ClientReports } from './client-reports.js'
import { type HiddenLocks, mergeDoubts } from './doubts.js'
import { type Joined, joinLock } from './join.js'
import { countListeners, type Listeners, listInboxes } from './lock-channels.js'
import { type ClientInfo, type ClientState, countWaiters, type LockInfo } from './lock-info.js'
import { clientsIn, KIND, type LockKeys, readLockKeys } from './lock-keys.js'
import { type ClientRecord, fetchRecord } from './record.js'

/** The most clients that are asked about one lock; those in its keys come first. */
const MAX_ASKED = 1_000
/** Maximum number of holds, and of waits, in one reply. */
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
    const ids = [...new Set([...clientsIn(keys), this.#context.clientId, ...(inboxes ?? [])])]
    const what = { locks: [key], limit: MAX_STATES }
    const answers = await askClients(this.#context, ids.slice(0, MAX_ASKED), what, timeoutMs)
    const unasked = new Set([...answers.unasked, ...ids.slice(MAX_ASKED)])
    const reports = this.#reports({ ...answers, unasked, listed: inboxes ? undefined : 'hidden' })
    await Promise.all([this.#readRecordsFor([keys], reports), this.#readRecords([...reports.silent], reports)])
    const joined = this.#join(keys, reports, listeners?.get(key))
    const { info, unconfirmed } =
      joined.unconfirmed > 0 ? await this.#joinAgain(joined, key, reports, listeners) : joined
    this.unconfirmedClaims += unconfirmed
    return { ...info, doubts: mergeDoubts(info.doubts, reports.doubts) }
  }

  /** Asks all clients for everything, for `read`. */
  async askAll(timeoutMs: number): Promise<ClientReports> {
    const inboxes = await this.#inboxes()
    const ids = new Set([this.#context.clientId, ...(inboxes ?? [])])
    const answers = await askClients(this.#context, ids, { limit: MAX_STATES }, timeoutMs)
    const reports = this.#reports({ ...answers, listed: inboxes ? new Set(inboxes) : 'hidden' })
    await this.#readRecords([...reports.silent], reports)
    return reports
  }

  /**
   * @param all  keys, at most `PAGE`
   * @param reports  of `askAll`; the records that are read are added
   * @param hidden  those that this user may not read are added
   * @returns those that are locks, semaphores or latches, or that a client waits for
   */
  async read(all: readonly string[], reports: ClientReports, hidden: HiddenLocks): Promise<LockInfo[]> {
    const { scripts } = this.#context
    const readIfAllowed = async (key: string): Promise<LockKeys[]> => {
      try {
        return [await readLockKeys(scripts, key)]
      } catch (error) {
        if (!isForbidden(error)) throw error
        if (!all.some((other) => key === `{${other}}`)) hidden.add(this.#nameOf(key)) // it stands for that lock
        return []
      }
    }
    const found = (await Promise.all(all.map(readIfAllowed))).flat()
    const listeners = await countListeners(scripts, all).catch(() => undefined)
    await this.#readRecordsFor(found, reports)
    return found.flatMap((keys) => {
      const { info, unconfirmed } = this.#join(keys, reports, listeners?.get(keys.key))
      this.unconfirmedClaims += unconfirmed
      const { kind, holders } = info
      const isSemaphore = kind === KIND.semaphore || kind === KIND.permits || kind === KIND.latch
      // The locks `a` and `{a}` share channels, queues and leases: only one of them may exist.
      const isInUse = isSemaphore || holders.length + countWaiters(info) > 0
      return (keys.exists && isInUse) || reports.waitsFor(keys.key).length > 0 ? [info] : []
    })
  }

  /** Every client that can be asked. */
  async clients(timeoutMs: number): Promise<ClientState[]> {
    const ids = [...new Set([this.#context.clientId, ...((await this.#inboxes()) ?? [])])]
    const answers = await askClients(this.#context, ids, { locks: [], limit: 0 }, timeoutMs)
    const reports = this.#reports(answers)
    await this.#readRecords(ids, reports)
    return ids.map((id) => {
      const lost = answers.replies.get(id)?.lost
      const about = { ...reports.clientOf(id), status: reports.statusOf(id) }
      return lost === undefined ? about : { ...about, lossesLastHour: lost }
    })
  }

  #reports(answers: Answers): ClientReports {
    const { clock } = this.#context
    return new ClientReports(answers, () => clock.now())
  }

  /** Every client with an inbox; undefined: Redis does not list them for this user. */
  async #inboxes(): Promise<string[] | undefined> {
    return await listInboxes(this.#context.scripts).catch(() => undefined)
  }

  #join(keys: LockKeys, reports: ClientReports, listeners: Listeners | undefined): Joined {
    return joinLock(keys, reports, this.#nameOf, listeners, this.#context.scripts.isCluster ? 2 : 1)
  }

  /** The lock changed hands between the first read of its keys and a reply. */
  async #joinAgain(
    before: Joined,
    key: string,
    reports: ClientReports,
    listeners: ReadonlyMap<string, Listeners> | undefined,
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

/** SCAN and PUBSUB also list what a user limited to other names may not read. */
function isForbidden(error: unknown): boolean {
  return isErrorOf(error, 'NOPERM') && /\bkeys?\b/.test(messageOf(error))
}
