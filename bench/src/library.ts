/** What is measured: a lock as some library gives it. Each library has one file in libraries/ that fits it to this. */
export interface Locker {
  /** Once for each name, before anything else. */
  prepare?(name: string): Promise<unknown>
  /** Takes what is named, however long that takes; answers how to let go of it. */
  acquire(name: string): Promise<Release>
}

export type Release = () => Promise<unknown>

export const KINDS = ['lock', 'fair', 'read', 'write', 'fenced', 'semaphore', 'permit'] as const
export type Kind = (typeof KINDS)[number]

export interface OpenOptions {
  readonly url: string
  readonly kind: Kind
  /** Permits of a semaphore. */
  readonly permits: number
  readonly leaseMs: number
  /** Whether the library must keep what it holds alive by itself, past the lease. */
  readonly keep: boolean
  /** Ask as often as makes sense, instead of as often as it is shipped to. */
  readonly tuned: boolean
  /** Of a watchdog in a thread: after how long a block it gives up. */
  readonly maxBlockMs?: number | undefined
}

export interface Library {
  readonly name: string
  /** The npm package whose version the report names. */
  readonly package?: string
  /** If it is none. */
  readonly version?: string
  readonly waits: 'by message' | 'by polling' | 'not at all'
  /** Whether a release checks that the lock is still the releaser's. */
  readonly checksOwner: boolean
  /** Whether it can keep a lock alive by itself. */
  readonly keeps: boolean
  readonly kinds: readonly Kind[]
  readonly tuned: boolean
  /** Ours: not a peer. */
  readonly isOurs?: boolean
  /** For scale, not something a Node program could pick instead. */
  readonly isReference?: boolean
  /** Only for these workloads. */
  readonly only?: readonly string[]
  /** The program to start instead of contender.js, for libraries of other languages. */
  readonly program?: readonly [command: string, ...args: string[]]
  /** How long it runs before it is measured, ms. */
  readonly warmUpMs?: number
  /** Its own server, if that is not Redis. */
  readonly serve?: () => Promise<Server>
  /** Why it cannot run here. */
  readonly missing?: string | undefined
  /** Absent: `program` does it. */
  open?(options: OpenOptions): Promise<Locker>
}

export interface Server {
  readonly url: string
  stop(): Promise<unknown>
}
