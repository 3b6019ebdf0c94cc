import { within } from '../util/timeout.js'
import { LocalFsync } from './fsync.js'
import type { Acknowledgement, Fsync } from './port.js'
import { SharedCall } from './shared-call.js'

/** What the rest of a deployment (the Sentinels, or the other masters of a cluster) says about a server. */
export interface Standing {
  /** Why its grants do not count: it was replaced, or is about to be. undefined: it is the master. */
  readonly refusal?: string | undefined
  /** Whether clients are sent to another server already. */
  readonly isReplaced?: boolean
  /** How many replicas of it are up. */
  readonly replicas: number
  /** Whether enough of them replied that no failover can have gone unnoticed. */
  readonly isConfirmed: boolean
}

/** What the server says about itself. */
interface Self {
  readonly role: string
  /** How many replicas are connected. */
  readonly replicas: number
}

export interface ReplicasOptions {
  /** Whether the server should have replicas, as far as the configuration says; default no. */
  readonly isReplicated?: boolean | undefined
  /**
   * Asks the rest of the deployment what it knows of this server; resolves to undefined when nobody replied. `runId` names
   * the present run of the server, `key` is one that it owns.
   */
  readonly authority?: ((runId: string, key: string) => Promise<Standing | undefined>) | undefined
}

type Call = (...command: [string, ...string[]]) => Promise<unknown>

/**
 * For how long a server is trusted, ms. No failover is quicker than that: Sentinels and clusters first wait for a silence of
 * about a second or more. So a master that was replaced while it was frozen is asked about before it grants anything.
 */
const TRUST_MS = 1_000
/** How long the rest of the deployment has to reply, ms. */
const ASK_MS = 500
/**
 * How long not to trust a master without replicas although it should have some, ms. It is demoted well before, if it was
 * replaced. A waiter is more patient than this.
 */
const WARY_MS = 10_000

interface View {
  readonly at: number
  readonly self: Self
  readonly standing: Standing | undefined
}

/**
 * Asks the replicas of one server, on the connection that the writes go by, and the rest of the deployment whether it still
 * is the master. One WAIT serves everybody who asks meanwhile.
 */
export class Replicas {
  readonly #call: Call
  readonly #options: ReplicasOptions
  #view: Promise<View> | undefined
  #viewAt = 0
  /** Whether replicas were connected while we were, and whether ever. */
  #had = false
  #everHad = false
  /** Since when there are none, on the monotonic clock. */
  #noneSince: number | undefined
  readonly #wait: SharedCall<{ readonly acknowledged: number; readonly self: Self }>
  readonly #fsync: LocalFsync

  constructor(call: Call, options: ReplicasOptions = {}) {
    this.#call = call
    this.#options = options
    this.#wait = new SharedCall(async (timeoutMs) => {
      // In one go: the server looks at itself when the WAIT is over.
      const [acknowledged, self] = await Promise.all([call('WAIT', '1', String(timeoutMs)), this.#self()])
      return { acknowledged: Number(acknowledged), self }
    })
    this.#fsync = new LocalFsync(call)
  }

  /** @throws what the client library throws if the server refuses, or does not reply */
  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    const looked = this.#look(key)
    let view = await looked
    const refused = this.#refusal(view)
    if (refused) return refused
    if (view.self.replicas === 0) return { replicas: 0, acknowledged: 0 }
    const { acknowledged, self } = await this.#wait.ask(timeoutMs)
    // A replica that has left may be taking over, and another one have acknowledged.
    const isFewer = self.role !== view.self.role || self.replicas < view.self.replicas
    if (this.#view === looked && (isFewer || acknowledged === 0)) this.#view = undefined
    // A server that took long may have been frozen, and replaced: ask about it again, now that it has replied.
    if (acknowledged > 0 && (isFewer || performance.now() - view.at > TRUST_MS)) view = await this.#look(key)
    return this.#refusal(view) ?? { replicas: view.self.replicas, acknowledged }
  }

  /**
   * Whether the server itself has fsynced to its AOF what was written on this connection.
   * @throws what the client library throws if the server refuses, or does not reply
   */
  fsynced(timeoutMs: number): Promise<Fsync> {
    return this.#fsync.ask(timeoutMs)
  }

  /** The connection is a new one, perhaps to another server, which must show that it is the master. */
  forget(): void {
    this.#view = undefined
    this.#had = false
    this.#noneSince = undefined
  }

  #refusal({ self, standing }: View): Acknowledgement | undefined {
    const replicas = Math.max(1, self.replicas, standing?.replicas ?? 0)
    const refuse = (why: string, isReplaced = false): Acknowledgement => {
      this.#view = undefined
      return { replicas, acknowledged: 0, why, isReplaced }
    }
    if (self.role !== '' && self.role !== 'master') return refuse(`it is a ${self.role}`)
    if (standing?.refusal !== undefined) return refuse(standing.refusal, standing.isReplaced)
    if (self.replicas > 0) {
      this.#had = this.#everHad = true
      this.#noneSince = undefined
      return undefined
    }
    this.#view = undefined // that there are none is never believed for longer than asked
    return this.#isSuspicious(standing)
      ? refuse('it has no replicas, although it should have; another server may have replaced it')
      : undefined
  }

  /**
   * A master without replicas may have been replaced by one of them, and not know it yet: a failover by order, a server that
   * was frozen or cut off. Until it is demoted it grants what its successor grants, too.
   */
  #isSuspicious(standing: Standing | undefined): boolean {
    const { isReplicated, authority } = this.#options
    if (standing?.isConfirmed && (standing.replicas === 0 || !this.#had)) return false
    if (!this.#had && authority) return true // it is cut off from those who would know, as we are
    if (!isReplicated && !this.#everHad) return false
    const now = performance.now()
    this.#noneSince ??= now
    return now - this.#noneSince < WARY_MS
  }

  #look(key: string): Promise<View> {
    const now = performance.now()
    if (this.#view !== undefined && now - this.#viewAt < TRUST_MS) return this.#view
    this.#viewAt = now
    const view = this.#ask(key, now)
    view.catch(() => {
      if (this.#view === view) this.#view = undefined
    })
    this.#view = view
    return view
  }

  async #ask(key: string, at: number): Promise<View> {
    const { authority } = this.#options
    let standing: Standing | undefined
    if (authority) {
      const runId = field(await this.#call('INFO', 'server'), 'run_id')
      standing = await within(ASK_MS, authority(runId, key)).catch(() => undefined)
    }
    // After the others: had it been demoted before they were asked, its view and theirs would agree about its successor.
    const self = await this.#self()
    return { at, self, standing }
  }

  async #self(): Promise<Self> {
    const replication = await this.#call('INFO', 'replication')
    return { role: field(replication, 'role'), replicas: Number(field(replication, 'connected_slaves') || 0) }
  }
}

/** Of INFO. */
function field(info: unknown, name: string): string {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(String(info))?.[1] ?? ''
}
