/** What the program and its processes send each other, and what a process says of itself. */

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
  | { readonly do: 'nest'; readonly outer: string; readonly inner: string }
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
  /** Undefined: a JVM. */
  readonly pid?: number
  readonly holds: readonly SaidHold[]
  readonly waits: readonly SaidWait[]
}

export interface SaidHold {
  readonly name: string
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
  readonly askedAt: number
  readonly waitTimeMs: number
  readonly chain: readonly { readonly lock: string; readonly holder: string }[]
  /** Of Redisson: who it will be; undefined: only its listener can be seen. */
  readonly holder?: string
}

export const PERMITS = 'permits'
/** Where the bodies of broken locks leave their traces. */
export const effectsOf = (name: string): string => `effects:${name}`
