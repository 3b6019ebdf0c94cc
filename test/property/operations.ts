/** Lease times, s. The first is the watchdog's. */
export const LEASE_TIMES_S = [60, 120, 240] as const

/** The caller: a client, and which of its scopes; without a scope it is a new owner each time. */
export interface Caller {
  readonly client: number
  readonly scope?: number | undefined
}

/** How a request relates to what the caller holds when it makes the call. */
export type Position =
  /** With the scope and the hold inside which several locks are taken. */
  | { readonly is: 'outside'; readonly scope?: number | undefined; readonly enclosing?: string | undefined }
  | { readonly is: 'inside'; readonly lease: string }
  | { readonly is: 'beside'; readonly lease: string }
  | { readonly is: 'deadlock'; readonly lease: string }
  | { readonly is: 'ended'; readonly outcome: string }

export type Nesting = 'inside' | 'beside' | 'deadlock' | 'apart'

export interface Take extends Caller {
  readonly do: 'take'
  readonly id: string
  /** `now`: refused at once; `soon`: after some ms; `wait`: as long as it takes; `abandon`: aborted in the same turn. */
  readonly how: 'now' | 'soon' | 'wait' | 'abandon'
  readonly target: number
  readonly leaseS: number
  /** Whether the watchdog renews it, or it has a fixed lease. */
  readonly isRenewed: boolean
  /** The hold that is re-entered by `within`. */
  readonly within?: string | undefined
  readonly position: Position
}

/** Whether it is a `tryLock()`, rather than a `lock()` with the same options. */
export function isTry({ id, how }: Take): boolean {
  const isOdd = Number(id) % 2 === 1
  return how === 'now' ? !isOdd : isOdd && how !== 'abandon'
}

export type Operation =
  | Take
  | (Caller & { do: 'nest'; id: string; target: number; inner: number; leaseS: number; position: Position })
  /** `isRepeated`: another call for the same hold is made in the same turn, before it. */
  | { do: 'unlock'; hold: string; isRepeated: boolean }
  | { do: 'unlock current'; client: number; scope: number; target: number }
  | { do: 'abort'; waiter: string }
  | { do: 'force'; client: number; target: number; forced: readonly string[] }
  | { do: 'hand over'; hold: string }
  | { do: 'adopt'; id: string; client: number; target: number; from: string; isThere: boolean; leaseS: number }
  | { do: 'inspect'; client: number; target: number }
  | { do: 'inspect hold'; hold: string }
  | { do: 'inspect count'; client: number; scope: number; target: number }
  /** The watchdog of a client renews everything it holds. */
  | { do: 'renew'; client: number }
  /** Another program deletes keys. */
  | { do: 'expire'; what: string }
  /** Another program acquires the lock if it is free. */
  | { do: 'intrude'; target: number }

export interface HoldState {
  readonly lease: string
  /** The longest lease of its owner's that it has: its own, or that of a hold that ended. */
  readonly leaseS: number
  readonly state: 'live' | 'released' | 'lost'
  /** Whether its caller has released it, or tried to. */
  readonly isUnlocked?: boolean
}

export interface Lease {
  readonly id: string
  readonly client: number
  /** Two leases of one owner have the same holder in Redis. */
  readonly owner: string
  readonly target: number
  readonly holds: readonly string[]
  readonly isLost: boolean
}

export interface Waiter {
  readonly take: Take
  readonly owner: string
}

/** How a holder is written: `#` and its id if it was not seen yet. */
export type Spell = (lease: string) => string
