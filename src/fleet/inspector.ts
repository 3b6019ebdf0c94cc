// What `client.fleet` does. Loaded when it is first used.
import { type AuditEntry, readAudit } from '../locks/breaking/audit.js'
import type { ForceUnlockOptions, ForceUnlockResult } from '../locks/breaking/interrupt.js'
import { asLockError } from '../locks/inspection.js'
import type { LeaseContext } from '../locks/lease.js'
import { AUDIT_KEY, forcedKey, JOBS_KEY } from '../wire/keys.js'
import type { Named } from '../wire/names.js'
import { confirm, type Deadlocks, deadlocksIn, suspectedIn } from './deadlocks.js'
import { type Doubt, mergeDoubts } from './doubts.js'
import type { JobInfo } from './job-info.js'
import { readJobs } from './jobs.js'
import { type ListRequest, listLocks } from './list-locks.js'
import { LockCollector } from './lock-collector.js'
import type { ClientInfo, ClientState, LockInfo } from './lock-info.js'
import { readLockKeys } from './lock-keys.js'
import { lockOf } from './lock-of.js'

export type { ListRequest } from './list-locks.js'

const MAY_SET = "return redis.acl_check_cmd('set', ARGV[1], 'x') and 1 or 0"

/** Inspects and lists the locks of all clients. The options of its methods are checked by `Fleet`. */
export class Inspector {
  readonly #context: LeaseContext
  readonly #collector: LockCollector

  /** @param ownInfo  returns how this client describes itself; undefined: it has `inspection: false` */
  constructor(context: LeaseContext, ownInfo: () => ClientInfo | undefined) {
    this.#context = context
    this.#collector = new LockCollector(context, ownInfo)
  }

  async inspect(lock: Named, timeoutMs: number): Promise<LockInfo> {
    return await this.#orLockError(lock, () => this.#collector.inspect(lock.key, timeoutMs))
  }

  /** @param doubt  called with all that the list does not say, whenever there is more of it */
  async *locks(
    limit: number,
    request: ListRequest,
    doubt: (doubts: readonly Doubt[]) => void,
  ): AsyncGenerator<LockInfo> {
    const name = request.match ?? '*'
    let doubts: readonly Doubt[] = []
    const found = listLocks(this.#context.scripts, this.#collector, request, (more) => {
      doubts = mergeDoubts(doubts, more)
      doubt(doubts)
    })
    for (let count = 0; count < limit; count++) {
      const { value, done } = await this.#orLockError({ name, key: name }, () => found.next())
      if (done) return
      yield value
    }
  }

  async clients(timeoutMs: number): Promise<ClientState[]> {
    return await this.#collector.clients(timeoutMs)
  }

  async deadlocks(timeoutMs: number): Promise<Deadlocks> {
    let doubts: Doubt[] = []
    const contended = async (): Promise<LockInfo[]> =>
      await this.#contendedLocks(timeoutMs, (more) => (doubts = mergeDoubts(doubts, more)))
    const first = await contended()
    const isWorthIt = deadlocksIn(first).length > 0 || suspectedIn(first).length > 0
    return confirm(first, isWorthIt ? await contended() : [], doubts)
  }

  async forceUnlock(lock: Named, options: ForceUnlockOptions): Promise<ForceUnlockResult> {
    const keys = await this.#orLockError(lock, () => readLockKeys(this.#context.scripts, lock.key))
    return await lockOf(this.#context, lock.name, keys, options.holder).forceUnlock(options)
  }

  async mayForceUnlock(key: string): Promise<boolean | undefined> {
    // No key is declared, because a user who lacks the right to it could not ask.
    const check = ['EVAL', MAY_SET, '0', forcedKey(key, 'x')]
    const allowed = await this.#context.scripts.command(check, key).catch(() => undefined)
    return allowed === undefined ? undefined : Number(allowed) === 1
  }

  async audit(): Promise<AuditEntry[]> {
    return await this.#orLockError({ name: AUDIT_KEY, key: AUDIT_KEY }, () => readAudit(this.#context))
  }

  async jobs(): Promise<JobInfo[]> {
    return await this.#orLockError({ name: JOBS_KEY, key: JOBS_KEY }, () => readJobs(this.#context))
  }

  get unconfirmedClaims(): number {
    return this.#collector.unconfirmedClaims
  }

  async #contendedLocks(timeoutMs: number, doubt: (doubts: readonly Doubt[]) => void): Promise<LockInfo[]> {
    const request = { match: undefined, contended: true, timeoutMs, signal: undefined }
    const locks: LockInfo[] = []
    for await (const lock of this.locks(Number.POSITIVE_INFINITY, request, doubt)) locks.push(lock)
    return locks
  }

  async #orLockError<T>(lock: Named, run: () => Promise<T>): Promise<T> {
    try {
      return await run()
    } catch (error) {
      throw await asLockError(this.#context, lock, 'inspect', error)
    }
  }
}
