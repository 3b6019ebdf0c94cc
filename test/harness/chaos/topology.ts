import { type Client, type ConnectOptions, connect } from '../../../src/index.js'
import type { RedisServer } from '../../support/servers/redis-server.js'
import type { Place } from '../place.js'
import type { Random } from '../random.js'
import type { Network } from './network.js'
import type { Workers } from './workers.js'

/** The servers of a run. */
export interface Topology extends AsyncDisposable {
  readonly name: string
  /** Masters and replicas. */
  readonly servers: readonly RedisServer[]
  /** Independent servers for red locks, which do not fail. */
  readonly redServers: readonly RedisServer[]
  /** Whether another server may take over. */
  readonly isReplicated: boolean
  /** Its own faults, besides those of every topology. */
  readonly faults: readonly Fault[]
  /** How a client connects through this network, as JSON. */
  reach(network: Network): ConnectOptions
  /** How a client connects that no fault of a connection affects. */
  readonly direct: ConnectOptions
  /** For Redisson, with a new file. */
  openPlace(): Place
  /** Starts, thaws and reunites all servers. Resolves when they serve. */
  heal(): Promise<void>
}

/** What a fault acts on. */
export interface Fixture {
  readonly workers: Workers
  readonly topology: Topology
  /** From 0 to below `n`. */
  readonly random: Random
}

export interface Fault {
  /** For `--faults`. */
  readonly name: string
  readonly title: string
  /** Its relative frequency. */
  readonly weight: number
  /** Faults of servers happen one after the other, all others at any time. */
  readonly isOfServers?: boolean
  /**
   * What Redis may lose in it, so that Holdfast does not guarantee it: changes of `counts` other than acquiring, or
   * `locks`, too.
   */
  readonly forgets?: 'counts' | 'locks'
  /** A new process comes into it. */
  readonly isOfNewcomers?: boolean
  /** Happens only if `--faults` names it. */
  readonly isOptional?: boolean
  inject(fixture: Fixture): Promise<void> | void
}

/** A fault that happened, on the machine's monotonic clock. */
export interface Injected {
  readonly name: string
  readonly isOfServers: boolean
  readonly forgets?: 'counts' | 'locks'
  readonly from: number
  to: number
}

/** A client of the run itself. */
export async function openDirectly({ direct }: Topology): Promise<Client> {
  return await connect(direct)
}

/** Running masters. */
export async function mastersOf({ servers, redServers }: Topology): Promise<RedisServer[]> {
  const all = [...servers, ...redServers].filter(({ isUp }) => isUp)
  const roles = await Promise.all(all.map(({ admin }) => admin.info('replication')))
  return all.filter((_, at) => roles[at]?.includes('\r\nrole:master\r\n'))
}
