// Waits for replicas to acknowledge.
import { type Clock, threadClock } from '../util/clock.js'
import { within } from '../util/timeout.js'
import { LocalFsync } from './fsync.js'
import type { Acknowledgement, Fsync } from './port.js'
import { SharedCall } from './shared-call.js'

/** A server as the rest of its deployment sees it: the Sentinels, or the other masters of a cluster. */
export interface MasterStatus {
  /** Why its grants do not count: it was replaced, or is about to be. undefined: it is the master. */
  readonly refusal?: string | undefined
  /** Whether clients are already sent to another server. */
  readonly isReplaced?: boolean
  /** How many of its replicas are up. */
  readonly replicas: number
  /** Whether most members confirm that it is the master. */
  readonly isConfirmed: boolean
  /** Whether a member did not reply, which may know of a failover that the others have not heard of. */
  readonly isPartial: boolean
}

/** The server's view of itself. */
interface OwnStatus {
  readonly role: string
  /** How many replicas are connected. */
  readonly replicas: number
}

export interface ReplicasOptions {
  /** Whether the server should have replicas according to the configuration; default no. */
  readonly isReplicated?: boolean | undefined
  /**
   * Asks the rest of the deployment about this server; resolves to undefined if there was no reply. `runId` identifies
   * the current run of the server, `key` is a key that it owns.
   */
  readonly masterStatus?: ((runId: string, key: string) => Promise<MasterStatus | undefined>) | undefined
  /** Replaced in the simulation. */
  readonly clock?: Pick<Clock, 'now' | 'after'> | undefined
}

type Call = (...command: [string, ...string[]]) => Promise<unknown>

/**
 * For how long a server is trusted, ms. No failover is faster: Sentinels and clusters first wait for about a second of
 * silence or more. So a master that was replaced while it was frozen is checked before it grants anything.
 */
const TRUST_MS = 1_000
/** How long the rest of the deployment has to reply, ms. */
const MASTER_STATUS_MS = 500
/**
 * How long a master is distrusted that has no replicas although it should have some, or that is not confirmed any more, ms. If
 * it was replaced, it is demoted well before that. Waiters wait longer than that.
 */
const DISTRUST_MS = 10_000

interface Snapshot {
  readonly at: number
  readonly own: OwnStatus
  readonly masterStatus: MasterStatus | undefined
}

/**
 * Waits for the replicas of one server, on the connection that carries the writes, and checks with the rest of the
 * deployment that it still is the master. One WAIT serves all callers that arrive meanwhile.
 */
export class Replicas {
  readonly #call: Call
  readonly #options: ReplicasOptions
  readonly #clock: Pick<Clock, 'now' | 'after'>
  #snapshot: Promise<Snapshot> | undefined
  #snapshotAt = 0
  /** The run of the server that this is about, if the rest of the deployment can be asked about it. */
  #runId = ''
  /** Whether the rest of the deployment ever confirmed a server, or refused one: it can tell. */
  #hasJudged = false
  /** Since when it confirms none, on the monotonic clock; undefined: it does, or was never asked. */
  #unconfirmedSince: number | undefined
  /** The runs that had replicas. A connection may lead to one server, to another one, and back. */
  readonly #runsWithReplicas = new Set<string>()
  /** Since when there are none, on the monotonic clock. */
  #noneSince: number | undefined
  readonly #wait: SharedCall<{ readonly acknowledged: number; readonly own: OwnStatus }>
  readonly #fsync: LocalFsync

  constructor(call: Call, options: ReplicasOptions = {}) {
    this.#call = call
    this.#options = options
    this.#clock = options.clock ?? threadClock
    this.#wait = new SharedCall(async (timeoutMs) => {
      // Sent together: the server runs INFO when the WAIT is over.
      const [acknowledged, own] = await Promise.all([call('WAIT', '1', String(timeoutMs)), this.#ownStatus()])
      return { acknowledged: Number(acknowledged), own }
    }, this.#clock)
    this.#fsync = new LocalFsync(call)
  }

  /** @throws what the client library throws if the server refuses or does not reply */
  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    const taken = this.#freshSnapshot(key)
    let snapshot = await taken
    const refused = this.#refusal(snapshot)
    if (refused) return refused
    if (snapshot.own.replicas === 0) return { replicas: 0, acknowledged: 0 }
    const { acknowledged, own } = await this.#wait.join(timeoutMs)
    // A replica that has left may be taking over, and a different one may have acknowledged.
    const hasLeft = own.role !== snapshot.own.role || own.replicas < snapshot.own.replicas
    if (this.#snapshot === taken && (hasLeft || acknowledged === 0)) this.#snapshot = undefined
    // A server that took long may have been frozen and replaced: check it again now that it has replied.
    const isOld = this.#clock.now() - snapshot.at > TRUST_MS
    if (acknowledged > 0 && (hasLeft || isOld)) snapshot = await this.#freshSnapshot(key)
    return this.#refusal(snapshot) ?? { replicas: snapshot.own.replicas, acknowledged }
  }

  /**
   * Whether the server itself has fsynced to its AOF what was written on this connection.
   * @throws what the client library throws if the server refuses or does not reply
   */
  fsynced(timeoutMs: number): Promise<Fsync> {
    return this.#fsync.wait(timeoutMs)
  }

  /** The connection is a new one, perhaps to another server, which must show that it is the master. */
  reset(): void {
    this.#snapshot = undefined
    if (!this.#options.masterStatus) this.#noneSince = undefined
  }

  #refusal({ own, masterStatus }: Snapshot): Acknowledgement | undefined {
    const replicas = Math.max(1, own.replicas, masterStatus?.replicas ?? 0)
    const refuse = (why: string, isReplaced = false): Acknowledgement => {
      this.#snapshot = undefined
      return { replicas, acknowledged: 0, why, replacedRun: isReplaced ? this.#runId : undefined }
    }
    if (own.role !== '' && own.role !== 'master') return refuse(`it is a ${own.role}`)
    if (masterStatus?.refusal !== undefined) return refuse(masterStatus.refusal, masterStatus.isReplaced)
    if (own.replicas > 0) {
      this.#runsWithReplicas.add(this.#runId)
      this.#noneSince = undefined
      if (!this.#isInDoubt) return undefined
      return refuse('the Sentinels, or the other masters, do not confirm it: another server may have replaced it')
    }
    this.#snapshot = undefined // never reused while there are no replicas
    return this.#isSuspicious(masterStatus)
      ? refuse('it has no replicas, although it should have; another server may have replaced it')
      : undefined
  }

  /**
   * A master without replicas may have been replaced by one of them without knowing it yet: after a manual failover, or
   * after it was frozen or cut off. Until it is demoted it grants locks that its successor grants as well. So it is trusted at
   * once only if the deployment knows of no replica either. One that the deployment believes to be up, and that is not
   * connected, may be the successor: members that have not missed the master yet confirm it all the same.
   */
  #isSuspicious(masterStatus: MasterStatus | undefined): boolean {
    const { isReplicated, masterStatus: check } = this.#options
    if (masterStatus?.isConfirmed) {
      if (masterStatus.replicas === 0) return false
    } else if (check && !this.#hadReplicas) {
      return true // it is cut off from the members that would know, and so are we
    }
    if (!check && !isReplicated && this.#runsWithReplicas.size === 0) return false
    const now = this.#clock.now()
    this.#noneSince ??= now
    return now - this.#noneSince < DISTRUST_MS
  }

  /**
   * Whether those who would know of a successor have stopped confirming a master with replicas. They may be out of reach while
   * they replace it, and one of its replicas still acknowledges. Those that never told anything may never do.
   */
  get #isInDoubt(): boolean {
    if (this.#unconfirmedSince === undefined || !this.#hasJudged) return false
    return this.#clock.now() - this.#unconfirmedSince < DISTRUST_MS
  }

  /** Whether this run had replicas. A master that has lost them is no more trustworthy by a new connection. */
  get #hadReplicas(): boolean {
    return this.#runId !== '' && this.#runsWithReplicas.has(this.#runId)
  }

  #freshSnapshot(key: string): Promise<Snapshot> {
    const now = this.#clock.now()
    if (this.#snapshot !== undefined && now - this.#snapshotAt < TRUST_MS) return this.#snapshot
    this.#snapshotAt = now
    const snapshot = this.#takeSnapshot(key, now)
    snapshot.catch(() => {
      if (this.#snapshot === snapshot) this.#snapshot = undefined
    })
    this.#snapshot = snapshot
    return snapshot
  }

  async #takeSnapshot(key: string, at: number): Promise<Snapshot> {
    const { masterStatus: check } = this.#options
    let masterStatus: MasterStatus | undefined
    if (check) {
      const runId = field(await this.#call('INFO', 'server'), 'run_id')
      const readStatus = (): Promise<MasterStatus | undefined> =>
        within(MASTER_STATUS_MS, check(runId, key), undefined, this.#clock).catch(() => undefined)
      if (runId !== this.#runId) this.#noneSince = undefined
      this.#runId = runId
      masterStatus = await readStatus()
      // After a stall of this process, or of its machine, all replies are late at once: they are not all silent yet.
      if (masterStatus === undefined && this.#unconfirmedSince === undefined) masterStatus = await readStatus()
    }
    // After the others: if it had been demoted before they were asked, both views would agree on its successor.
    const own = await this.#ownStatus()
    if (check) {
      const isConfirmed = isConfirmedBy(masterStatus, own)
      this.#hasJudged ||= isConfirmed || masterStatus?.refusal !== undefined
      this.#unconfirmedSince = isConfirmed ? undefined : (this.#unconfirmedSince ?? at)
    }
    return { at, own, masterStatus }
  }

  async #ownStatus(): Promise<OwnStatus> {
    const replication = await this.#call('INFO', 'replication')
    return { role: field(replication, 'role'), replicas: Number(field(replication, 'connected_slaves') || 0) }
  }
}

/** A replica that has left the master may be its successor, and a Sentinel that is silent the one that has promoted it. */
function isConfirmedBy(status: MasterStatus | undefined, own: OwnStatus): boolean {
  return status?.isConfirmed === true && !(status.isPartial && own.replicas < status.replicas)
}

/** A field of INFO; an empty text if it is missing. */
function field(info: unknown, name: string): string {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(String(info))?.[1] ?? ''
}
