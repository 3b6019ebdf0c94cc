/** What the program and its processes send each other, and what a process says of itself. */
import { KIND } from '../../../src/fleet/lock-keys.js'
import { KINDS } from '../../../src/locks/kinds/table.js'

export interface HoldTerms {
  /** The title of a kind of lock, or `PERMITS`. */
  readonly kind: string
  readonly name: string
  readonly label: string
  /** Of a hold: how often it is taken. */
  readonly count: number
  /** Of a wait: a lock that its call chain holds. */
  readonly inside?: string
}

export type Command =
  | ({ readonly do: 'hold' } & HoldTerms)
  | ({ readonly do: 'wait' } & HoldTerms)
  /** `rest`: ends all that it does, and releases all that it holds. */
  | { readonly do: 'begin' | 'say' | 'cross' | 'rest' }
  /** Passes a lock from task to task. */
  | { readonly do: 'handOffs'; readonly name: string; readonly count: number }
  /** Holds a lock until it is interrupted. */
  | { readonly do: 'enter'; readonly kind: string; readonly name: string; readonly stopMs: number }
  | { readonly do: 'nest'; readonly kind: string; readonly outer: string; readonly inner: string }
  | { readonly do: 'storm'; readonly names: readonly string[]; readonly seed: number }

export interface Report {
  readonly at: 'ready' | 'done' | 'said' | 'asked' | 'inside' | 'aborted' | 'ended' | 'outer' | 'crossing' | 'failed'
  readonly said?: Said
  readonly holder?: string
  /** On the clock of the machine, ms. */
  readonly time?: number
  readonly reason?: string
  /** How many hand-offs, or bodies. */
  readonly count?: number
}

/** The truth: what a process knows of itself. Times are on the clock of the machine, ms. */
export interface Said {
  readonly clientId: string
  /** The application, and the machine. */
  readonly name: string
  readonly host: string
  /** Undefined: a JVM. */
  readonly pid?: number
  readonly holds: readonly SaidHold[]
  readonly waits: readonly SaidWait[]
}

export interface SaidHold {
  readonly name: string
  /** The title of a kind of lock, or `PERMITS`; of a member of a joint lock that of a lock. */
  readonly kind: string
  readonly holder: string
  readonly count: number
  readonly label: string
  readonly mode?: 'read' | 'write'
  /** It was granted between these. */
  readonly askedAt: number
  readonly grantedAt: number
}

export interface SaidWait {
  readonly name: string
  readonly label: string
  /** It began between these: it waits once it has been refused. */
  readonly askedAt: number
  readonly refusedAt: number
  readonly waitTimeMs: number
  readonly chain: readonly { readonly lock: string; readonly holder: string }[]
  /** Of Redisson: who it will be; undefined: only its listener can be seen. */
  readonly holder?: string
}

export const PERMITS = 'permits'
/** Where the bodies of broken locks leave their traces. */
export const effectsOf = (name: string): string => `effects:${name}`

export type Of<T> = T & { readonly by: Said }

/** All that is said of one lock. */
export function of(said: readonly Said[], lock: string): { holds: Of<SaidHold>[]; waits: Of<SaidWait>[] } {
  return {
    holds: said.flatMap((by) => by.holds.filter(({ name }) => name === lock).map((hold) => ({ ...hold, by }))),
    waits: said.flatMap((by) => by.waits.filter(({ name }) => name === lock).map((wait) => ({ ...wait, by }))),
  }
}

const SEEN_AS: Readonly<Record<string, string>> = {
  [KINDS.fenced.title]: KIND.fenced,
  [KINDS.read.title]: KIND.readWrite,
  [KINDS.write.title]: KIND.readWrite,
  [KINDS.string.title]: KIND.string,
  [KINDS.fasterMulti.title]: KIND.values,
  [PERMITS]: KIND.permits,
}

/** What its keys show a held lock to be: a fair one is known by its queue. */
export function kindOf(said: readonly Said[], lock: string): string {
  const { holds, waits } = of(said, lock)
  const kind = holds[0]?.kind ?? ''
  const isFair = kind === KINDS.fair.title || kind === KINDS.nonReentrantFair.title
  return isFair && waits.length > 0 ? KIND.fair : (SEEN_AS[kind] ?? KIND.lock)
}
