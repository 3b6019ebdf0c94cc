// Every lease of a client, by identity, name and field.
import { DenseSet, NameMap } from '../util/collections.js'
import type { LockKind } from './kinds/lock-kind.js'

interface Registered {
  readonly key: string
  /** Its field in Redis. */
  readonly holder: string
  readonly owner: unknown
  readonly kind: LockKind
  /** When Redis granted it, on the clock. */
  readonly grantedAt: number
  /** Its place among all leases. */
  registered?: number
  readonly isLive: boolean
  markLost(): void
}

/** One attempt to take a lock: from when it is sent until its caller has the outcome. */
export interface LockAttempt<L extends Registered> {
  readonly lease: L
  /** It took the lock. */
  hasWon: boolean
  /** `forceUnlock` took away what it was granted. */
  isForced: boolean
  /** Its place among all attempts. */
  attempted: number
}

/** Every lease of one client. */
export class LeaseRegistry<L extends Registered> {
  readonly #all: DenseSet<L>
  readonly #byKey = new NameMap<L[]>()

  /** @param onReleased  called when a lease has ended */
  constructor(onReleased: () => void) {
    this.#all = new DenseSet('registered', onReleased)
  }

  get size(): number {
    return this.#all.size
  }

  /** The leases on a lock at the time of the call. */
  onKey(key: string): readonly L[] {
    return this.#byKey.get(key)?.slice() ?? []
  }

  /** The lease with this field in Redis. An owner has at most one of each field. */
  find(key: string, holder: string): L | undefined {
    return this.#byKey.get(key)?.find((lease) => lease.holder === holder)
  }

  /**
   * A grant shows that Redis no longer has the leases that it excludes: they are lost.
   * @param sentAt  when the command that won was sent, on the clock
   * @returns false: Redis has granted one of them since, so it is `lease` that is lost
   */
  displace({ key, owner, kind }: L, sentAt: number): boolean {
    const others = this.#byKey.get(key)
    if (others === undefined) return true
    for (const other of [...others]) {
      if (other.owner === owner || !kind.excludes(other.kind) || !other.isLive) continue
      if (other.grantedAt > sentAt) return false
      other.markLost()
    }
    return true
  }

  /** A lease that begins. */
  add(lease: L): void {
    this.#all.add(lease)
    const { key } = lease
    const others = this.#byKey.get(key)
    if (others) others.push(lease)
    else this.#byKey.set(key, [lease])
  }

  delete(lease: L): void {
    if (!this.#all.has(lease)) return
    const { key } = lease
    const named = this.#byKey.get(key) as L[]
    if (named.length === 1) this.#byKey.delete(key)
    else named.splice(named.indexOf(lease), 1)
    this.#all.delete(lease)
  }

  [Symbol.iterator](): Iterator<L> {
    return this.#all[Symbol.iterator]()
  }
}
