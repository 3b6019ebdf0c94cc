import type { ConnectOptions } from '../../../src/index.js'
import type { RedisServer } from '../../support/servers/redis-server.js'
import { sleep } from '../../support/wait-until.js'
import { ClusterTopology } from '../failover/cluster.js'
import { SentinelTopology } from '../failover/sentinel.js'
import type * as failover from '../failover/topology.js'
import { APP } from '../failover/ways.js'
import { type Place, placeOfCluster, placeOfSentinels } from '../place.js'
import type { Random } from '../random.js'
import type { Network } from './network.js'
import { FOR_SLOTS } from './sections.js'
import type { Fault, Fixture, Topology } from './topology.js'

/** By then most workers have acquired something at the new master. */
const SERVED_MS = 1_500
/** They keep what they have written, even if all servers die. */
const FORGETS_NOTHING = new Set(['restart', 'slots'])
const HOST = '127.0.0.1'

/** The servers and faults of `npm run verify -- failover`. */
export class ReplicatedTopology implements Topology {
  readonly isReplicated = true
  readonly redServers: readonly RedisServer[] = []
  readonly faults: readonly Fault[]
  readonly #inner: failover.Topology

  static async start(name: 'sentinel' | 'cluster', random: Random): Promise<ReplicatedTopology> {
    const anyLock = (): string => FOR_SLOTS[random(FOR_SLOTS.length)] as string
    const inner = name === 'sentinel' ? await SentinelTopology.start() : await ClusterTopology.start(anyLock)
    return new ReplicatedTopology(inner)
  }

  private constructor(inner: failover.Topology) {
    this.#inner = inner
    this.faults = inner.faults.map(faultOf)
  }

  get name(): string {
    return this.#inner.name
  }

  get servers(): readonly RedisServer[] {
    return this.#inner.servers
  }

  get direct(): ConnectOptions {
    return this.#options((port) => `${HOST}:${port}`, {})
  }

  openPlace(): Place {
    const { sentinels, masterName, nodes } = this.#inner.addresses
    const own = `  username: ${APP.username}\n  password: ${APP.password}`
    const urls = (sentinels.length > 0 ? sentinels : nodes).map(({ host, port }) => `redis://${host}:${port}`)
    return sentinels.length > 0 ? placeOfSentinels(urls, masterName, own) : placeOfCluster(urls, own)
  }

  reach(network: Network): ConnectOptions {
    const { addresses } = network
    const natMapper = { class: 'org.redisson.api.HostPortNatMapper', hostsPortMap: addresses }
    return this.#options((port) => addresses[`${HOST}:${port}`] as string, { natMapper })
  }

  async heal(): Promise<void> {
    await this.#inner.heal()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#inner[Symbol.asyncDispose]()
  }

  #options(addressOf: (port: number) => string, more: object): ConnectOptions {
    const { sentinels, masterName, nodes } = this.#inner.addresses
    if (this.#inner.name === 'sentinel') {
      const sentinelAddresses = sentinels.map(({ host, port }) => `redis://${host}:${port}`)
      return { config: { sentinelServersConfig: { sentinelAddresses, masterName, ...more, ...APP } } }
    }
    const nodeAddresses = nodes.map(({ port }) => `redis://${addressOf(port)}`)
    return { config: { clusterServersConfig: { nodeAddresses, ...more, ...APP } } }
  }
}

function faultOf({ id, title, exception, inject }: failover.Fault): Fault {
  return {
    name: id,
    title,
    weight: 1,
    isOfServers: true,
    ...(exception ? { forgets: 'locks' } : FORGETS_NOTHING.has(id) ? {} : { forgets: 'counts' }),
    inject: async (fixture) => await inject(effectsOf(fixture)),
  }
}

function effectsOf({ workers }: Fixture): failover.Effects {
  return {
    holdLong() {},
    restored: async () => await sleep(SERVED_MS),
    flap: (ports) => workers.cut(ports),
    change() {},
  }
}
