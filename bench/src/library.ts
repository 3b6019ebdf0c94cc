/** A lock as a library provides it. Each library has an adapter in libraries/. */
export interface Locker {
  /** Called once per name, before anything else. */
  prepare?(name: string): Promise<unknown>
  /** Acquires the lock, however long that takes, and resolves to its release. */
  acquire(name: string): Promise<Release>
  /** Runs a section with the lock held, for a library whose recommended form that is. */
  run?(name: string, section: () => Promise<void> | void): Promise<unknown>
}

export type Release = () => Promise<unknown>

export const KINDS = ['lock', 'fair', 'read', 'write', 'fenced', 'semaphore', 'permit'] as const
export type Kind = (typeof KINDS)[number]

export interface OpenOptions {
  readonly url: string
  /** Whether that is a node of a cluster. */
  readonly isCluster: boolean
  readonly kind: Kind
  /** Permits of a semaphore. */
  readonly permits: number
  readonly leaseMs: number
  /** Whether the library must renew the lock past its lease. */
  readonly keep: boolean
  /** Poll as often as makes sense, instead of with the defaults. */
  readonly tuned: boolean
  /** Of a watchdog thread: how long a block it covers. */
  readonly maxBlockMs?: number | undefined
}

export interface Library {
  readonly name: string
  /** The npm package whose version the report names. */
  readonly package?: string
  /** If it is not an npm package. */
  readonly version?: string
  readonly waits: 'by message' | 'by polling' | 'not at all'
  /** Whether a release checks the owner. */
  readonly checksOwner: boolean
  /** Whether it can renew a lock. */
  readonly keeps: boolean
  readonly kinds: readonly Kind[]
  readonly tuned: boolean
  /** Holdfast: not a peer. */
  readonly isOurs?: boolean
  /** Whether it runs in a cluster. */
  readonly isForClusters?: boolean
  /** For scale, not an alternative for a Node program. */
  readonly isReference?: boolean
  /** Only in these workloads. */
  readonly only?: readonly string[]
  /** The program to start instead of contender.js, for other languages. */
  readonly program?: readonly [command: string, ...args: string[]]
  /** Warm-up before a measurement, ms. */
  readonly warmUpMs?: number
  /** Its own server, if it does not use Redis. */
  readonly serve?: () => Promise<Server>
  /** Why it cannot run here. */
  readonly missing?: string | undefined
  /** Missing if `program` does it. */
  open?(options: OpenOptions): Promise<Locker>
}

export interface Server {
  readonly url: string
  stop(): Promise<unknown>
}
