import type { RedisServer } from '../../support/servers/redis-server.js'
import type { Addresses, WAYS } from './ways.js'

/** Servers that fail, and their faults. */
export interface Topology extends AsyncDisposable {
  readonly name: keyof typeof WAYS
  /** For clients that are opened now. */
  readonly addresses: Addresses
  /** Masters and replicas. */
  readonly servers: readonly RedisServer[]
  readonly sentinels?: readonly RedisServer[]
  readonly faults: readonly Fault[]
  /** Starts killed servers and thaws frozen ones. Resolves when the next fault may begin. */
  heal(): Promise<void>
}

export interface Fault {
  /** For `--fault`. */
  readonly id: string
  readonly title: string
  /** Time limit for serving each client again, ms from when service is possible. */
  readonly limitMs: number
  /** Why overlaps are counted but do not fail the suite. */
  readonly exception?: string
  /** Ways to connect that have no answer to it. */
  readonly without?: readonly string[]
  /** What a user has to know: options that clients need, why some are left out. */
  readonly note?: string
  inject(effects: Effects): Promise<void>
}

/** What a fault does to the clients. */
export interface Effects {
  /** Makes clients keep locks that they acquire now for long. */
  holdLong(): void
  /** Reports when service was possible again (monotonic clock); resolves once each client was served, or is late. */
  restored(since: number): Promise<void>
  /** Cuts the connections of all clients to these ports, and makes each process open another client. */
  flap(ports: readonly number[]): void
  /** Tells all clients a new password, or what the name of the server resolves to now. */
  change(to: Change): void
}

export interface Change {
  readonly password?: string
  readonly ip?: string
}

/** How servers announce themselves to clients: by name, or by addresses that only lead to them through NAT. */
export type Announced = 'names' | 'nat'

/** `url` connects to an address that leads to the master. */
const ANNOUNCED: Readonly<Record<Announced, Pick<Fault, 'title' | 'note' | 'without'>>> = {
  names: { title: 'names are announced', without: ['url'] },
  nat: {
    title: 'behind NAT',
    without: ['url'],
    note: 'a configuration needs `natMapper`, ioredis `natMap`, node-redis `nodeAddressMap`',
  },
}

/** What is tried with servers that announce themselves so. */
export function announcing(how: Announced, faults: readonly Fault[]): Fault[] {
  const { title, ...more } = ANNOUNCED[how]
  return faults
    .filter(({ id }) => id === 'down')
    .map((down) => ({ ...down, id: how, title: `${title}: ${down.title}`, ...more }))
}

/** Time limit for each client to work again after a failover. */
export const SOON_MS = 5_000
/** A frozen server first has to be detected. */
export const FROZEN_MS = 10_000

/** From the successor of a frozen master until it continues, ms: by then clients hold locks at the new one. */
export const THAW_MS = 700
/** How long a round lasts after the return of a server that believes it is the master, ms. It is demoted within 2 s. */
export const AFTERMATH_MS = 2_500
/** How long a master is cut off from its replicas before it dies, ms. */
export const CUT_MS = 300
